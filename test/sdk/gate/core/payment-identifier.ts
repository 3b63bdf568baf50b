import { expect } from "chai";
import type { Provider } from "turnpike/gate";
import {
  FRAMEWORKS,
  ONE_TIME,
  type SmallFacilitator,
  send,
  startSmallFacilitator,
  type TestServer,
  testProvider,
} from "../../../support/gate";
import { identified, requiredIn, v2Headers } from "../support/standard";

const ID = "pay_7d5d747be160e280";

describe("payment-identifier", () => {
  let facilitator: SmallFacilitator;
  let provider: Provider;
  let server: TestServer;
  let url: string;
  let fails = 0;

  beforeEach(async () => {
    facilitator = await startSmallFacilitator();
    provider = testProvider(facilitator);
    fails = 0;
    server = await FRAMEWORKS.express(provider, [
      {
        path: "/report",
        gate: { pricing: ONE_TIME },
        handle: () => (fails-- > 0 ? { status: 500, body: "{}" } : { status: 200 }),
      },
    ]);
    url = `${server.url}/report`;
  });
  afterEach(async () => {
    await server.stop();
    await provider.close();
    await facilitator.stop();
  });

  const settlements = () => facilitator.calls.filter(({ path }) => path === "/settle").length;
  const pay = async (id: unknown, payer = "payer") =>
    send(url, { headers: await v2Headers(url, identified(id), { payer }) });

  it("is offered as an option, in the extension's own form", async () => {
    const { extensions } = requiredIn(await send(url));
    expect(extensions["payment-identifier"]).to.deep.include({ info: { required: false } });
  });

  it("D1 accepts one payment per id, and refuses a second before it settles", async () => {
    expect((await pay(ID)).status).to.equal(200);
    const again = await pay(ID);
    expect([again.status, again.json.error]).to.deep.equal([409, "PayloadConflict"]);
    expect([settlements(), server.served.get("/report")]).to.deep.equal([1, 1]);
    expect((await pay(`${ID}-2`)).status).to.equal(200);
  });

  it("D1 charges each of several payments under one Idempotency-Key, which names none", async () => {
    const key = { "Idempotency-Key": "one-purchase-of-this-test" };
    for (let count = 0; count < 2; count++) {
      const headers = { ...(await v2Headers(url)), ...key };
      expect((await send(url, { headers })).status).to.equal(200);
    }
    expect(settlements()).to.equal(2);
  });

  it("D1 refuses a second payment also after the first payment's handler failed, and serves the first payment again", async () => {
    fails = 1;
    const headers = await v2Headers(url, identified(ID));
    expect((await send(url, { headers })).status).to.equal(500);
    expect((await pay(ID)).status).to.equal(409);
    expect((await send(url, { headers })).status).to.equal(200);
    expect((await send(url, { headers })).json.reason).to.equal("already_used");
  });

  it("C1 settles one of many concurrent payments under one id", async () => {
    const all = await Promise.all(Array.from({ length: 10 }, () => v2Headers(url, identified(ID))));
    const answers = await Promise.all(all.map((headers) => send(url, { headers })));
    const statuses = answers.map(({ status }) => status).sort();
    expect(statuses).to.deep.equal([200, ...Array(9).fill(409)]);
    expect(settlements()).to.equal(1);
  });

  it("separates the ids of two payers", async () => {
    expect((await pay(ID, "one payer")).status).to.equal(200);
    expect((await pay(ID, "another payer")).status).to.equal(200);
  });

  it("binds the id of a payment whose outcome is unknown", async () => {
    const headers = await v2Headers(url, identified(ID));
    facilitator.mode = "down";
    expect((await send(url, { headers })).status).to.equal(503);
    facilitator.mode = "valid";
    expect((await pay(ID)).status).to.equal(409);
    expect((await send(url, { headers })).status).to.equal(200);
  });

  it("refuses a malformed id before it settles the payment", async () => {
    for (const id of ["short", "x".repeat(129), "with spaces in it!", 7, null]) {
      const answer = await pay(id);
      expect([answer.status, answer.json.reason], String(id)).to.deep.equal([402, "payment_identifier"]);
    }
    expect(settlements()).to.equal(0);
  });
});
