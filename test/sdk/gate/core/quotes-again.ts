import { expect } from "chai";
import type { Provider } from "turnpike/gate";
import { type Hex, paymentNonce } from "turnpike/protocol";
import { createTestProvider } from "turnpike/testing";
import {
  addressOf,
  FRAMEWORKS,
  headerOf,
  NOW,
  ONE_TIME,
  paidHeaders,
  proofOf,
  quoteOf,
  type SmallFacilitator,
  send,
  startSmallFacilitator,
  type TestServer,
  testProvider,
} from "../../../support/gate";
import { challengeOf, extensionsIn } from "../support/sign-in";

const TWO = [...ONE_TIME, { type: "one-time", amount: 700_000n }] as const;

describe("quotes that are asked for again", () => {
  let facilitator: SmallFacilitator;
  let provider: Provider;
  let server: TestServer;
  let nowSec = NOW;
  let price = 100_000n;

  before(async () => {
    facilitator = await startSmallFacilitator();
    provider = testProvider(facilitator, { clock: { nowSec: () => nowSec } });
    server = await FRAMEWORKS.express(provider, [
      { path: "/two", gate: { pricing: TWO, description: 'a "quoted" description, ünïcode' } },
      { path: "/twins", gate: { pricing: [...ONE_TIME, ...ONE_TIME] } },
      { path: "/computed", gate: { pricing: [{ type: "one-time", amount: () => price }] } },
    ]);
    await provider.ready();
  });
  after(async () => {
    await server.stop();
    await provider.close();
    await facilitator.stop();
  });
  beforeEach(() => {
    nowSec = NOW;
  });

  const v2In = (header: unknown) => JSON.parse(Buffer.from(String(header), "base64").toString("utf8"));
  const memosIn = (accepts: readonly { memo?: string }[]) => accepts.map(({ memo }) => memo);

  it("have memos of their own, the same in body and header, and are the same otherwise", async () => {
    const answers = [];
    for (let i = 0; i < 4; i++) answers.push(await send(`${server.url}/two?b=2&a=%20"1"`.replaceAll('"', "%22")));
    const shapes = answers.map(({ json, headers }) => {
      const v2 = v2In(headers["payment-required"]);
      expect(v2.accepts.map(({ extra }: { extra: { memo: string } }) => extra.memo)).to.deep.equal(
        memosIn(json.accepts),
      );
      const accepts = json.accepts.map((entry: object) => ({ ...entry, memo: "" }));
      const inV2 = v2.accepts.map((entry: object) => ({ ...entry, extra: "" }));
      return JSON.stringify([{ ...json, accepts }, { ...v2, accepts: inV2 }, Object.keys(headers).sort()]);
    });
    expect(new Set(shapes).size).to.equal(1);
    const memos = answers.flatMap(({ json }) => memosIn(json.accepts));
    expect(new Set(memos).size).to.equal(8);
  });

  it("C3 C4 are each good for their own price, and for no other resource", async () => {
    await quoteOf(`${server.url}/two?first`);
    const { accepts } = await quoteOf(`${server.url}/two?first`);
    for (const entry of accepts) {
      // Two payers: the options of one quote are one purchase, and a second payment of it is refused as used.
      const headers = headerOf(proofOf(entry, { payer: addressOf(`payer of ${entry.amount}`) }));
      expect((await send(`${server.url}/two?second`, { headers })).json.reason).to.equal("resource");
      expect((await send(`${server.url}/two?first`, { headers })).status, entry.amount).to.equal(200);
    }
    const [cheap, dear] = accepts;
    const swapped = headerOf(proofOf({ ...dear, memo: cheap?.memo } as never));
    expect((await send(`${server.url}/two?first`, { headers: swapped })).json.reason).to.equal("memo");
  });

  it("hold from the moment at which each was asked for", async () => {
    await quoteOf(`${server.url}/two?when`);
    nowSec = NOW + 500;
    const headers = await paidHeaders(`${server.url}/two?when`, { settledAt: NOW + 1_050 });
    expect((await send(`${server.url}/two?when`, { headers })).status, "not the first quote's expiry").to.equal(200);
  });

  it("keep what a method and an Idempotency-Key name apart", async () => {
    const sent = { headers: { "Idempotency-Key": "the-same-purchase-once-more" } };
    const refs = [];
    for (let i = 0; i < 3; i++)
      refs.push(((await quoteOf(`${server.url}/two`, sent)).accepts[0]?.memo ?? "").slice(0, 22));
    expect(new Set(refs).size, "one ref").to.equal(1);
    const plain = ((await quoteOf(`${server.url}/two`)).accepts[0]?.memo ?? "").slice(0, 22);
    expect(plain).to.not.equal(refs[0]);
    const nonces = refs.map((ref): Hex => paymentNonce(ref, `${server.url}/two`));
    expect(new Set(nonces).size).to.equal(1);
    const posted = await paidHeaders(`${server.url}/two`, {}, { method: "POST" });
    expect((await send(`${server.url}/two`, { headers: posted })).json.reason).to.equal("memo");
    const odd = await quoteOf(`${server.url}/two`, { headers: { "Idempotency-Key": "short" } });
    expect(odd.message).to.match(/ignored/);
    expect((await quoteOf(`${server.url}/two`)).message).to.not.match(/ignored/);
  });

  it("follow a price that is computed", async () => {
    expect((await quoteOf(`${server.url}/computed`)).accepts[0]?.amount).to.equal("100000");
    price = 200_000n;
    expect((await quoteOf(`${server.url}/computed`)).accepts[0]?.amount).to.equal("200000");
  });

  it("are right where two offers are the same", async () => {
    for (let i = 0; i < 3; i++) {
      const { accepts } = await quoteOf(`${server.url}/twins`);
      expect(accepts).to.have.length(2);
      const headers = headerOf(proofOf(accepts[0] as never));
      expect((await send(`${server.url}/twins`, { headers })).status).to.equal(200);
    }
  });

  it("stay right when more resources are asked for than are remembered", async () => {
    for (let i = 0; i < 260; i++) {
      const { resource } = (await quoteOf(`${server.url}/two?n=${i % 205}`)).accepts[0] ?? {};
      expect(resource).to.equal(`${server.url}/two?n=${i % 205}`);
    }
  });

  it("carry a fresh challenge each, and drop a plan that was deprecated", async () => {
    const test = createTestProvider({ publicUrl: "https://api.example" });
    const { planId } = test.addPlan({});
    const own = await FRAMEWORKS.hono(test.provider, [
      { path: "/plan", gate: { pricing: [...ONE_TIME, { type: "subscription", plan: planId }] } },
    ]);
    try {
      const challenges = [];
      for (let i = 0; i < 3; i++) challenges.push((await challengeOf(`${own.url}/plan`)).info);
      expect(new Set(challenges.map(({ nonce }) => nonce)).size).to.equal(3);
      test.clock.advance(100);
      const later = (await challengeOf(`${own.url}/plan`)).info;
      expect(Date.parse(later.issuedAt) - Date.parse(challenges[0]?.issuedAt ?? "")).to.equal(100_000);
      const answer = await send(`${own.url}/plan`);
      expect(answer.json.accepts).to.have.length(1);
      expect(Object.keys(extensionsIn(answer))).to.include("hoodlayer");
    } finally {
      await own.stop();
    }
  });
});
