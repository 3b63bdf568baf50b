/** One purchase is one transfer, whatever the dialect: repeats, failures and outages, and what clients get for them. */
import { expect } from "chai";
import type { Provider, ProviderOptions } from "turnpike/gate";
import { encodeJsonHeader } from "turnpike/protocol";
import {
  type Answer,
  FRAMEWORKS,
  ONE_TIME,
  RESERVING,
  type SmallFacilitator,
  send,
  startSmallFacilitator,
  type TestServer,
  testProvider,
} from "../../../support/gate";
import { challengeOf, challengesIn, credentialOf, headerOf, nonceOf, paying, receiptIn } from "../support/mpp";
import { requiredIn, v2Headers } from "../support/standard";

const KEY = { "Idempotency-Key": "one-purchase-of-this-test" };

const refused = (errorReason: string) => ({ success: false, errorReason, transaction: "", network: "local-31337" });

const settled = (facilitator: SmallFacilitator) => facilitator.calls.filter(({ path }) => path === "/settle").length;

/** No client may sign for it again. */
function expectNoChallenge(answer: Answer, status: number): void {
  expect([answer.status, challengesIn(answer)], answer.text).to.deep.equal([status, []]);
  expect(answer.headers).to.not.have.property("payment-required");
  expect(receiptIn(answer)).to.equal(undefined);
}

for (const settle of ["after", "before"] as const) {
  describe(`a purchase by MPP that settles ${settle} the handler`, () => {
    let facilitator: SmallFacilitator;
    let provider: Provider;
    let server: TestServer;
    let url: string;
    let status: number;

    beforeEach(async () => {
      facilitator = await startSmallFacilitator();
      facilitator.supported = RESERVING;
      status = 200;
      await start();
    });
    afterEach(async () => {
      await server.stop();
      await provider.close();
      await facilitator.stop();
    });

    async function start(options: ProviderOptions = {}): Promise<void> {
      provider = testProvider(facilitator, {
        mpp: "Authorization",
        replay: {},
        publicUrl: "http://localhost",
        ...options,
      });
      const gate = { pricing: ONE_TIME, settle };
      server = await FRAMEWORKS.express(provider, [{ path: "/report", gate, handle: () => ({ status }) }]);
      await provider.ready();
      url = `${server.url}/report`;
    }

    async function restart(): Promise<void> {
      await server.stop();
      await provider.close();
      await start();
    }

    const served = () => server.served.get("/report") ?? 0;

    it("answers a repeat without a key with 409, and never with a challenge", async () => {
      const headers = await paying(url);
      expect((await send(url, { headers })).status).to.equal(200);
      for (let turn = 0; turn < 3; turn++) {
        const again = await send(url, { headers });
        expectNoChallenge(again, 409);
        expect(again.json).to.include({ error: "PayloadConflict", reason: "already_used" });
      }
      expect([served(), settled(facilitator)]).to.deep.equal([1, 1]);
    });

    it("replays the answer to a repeat with its Idempotency-Key, and its receipt", async () => {
      const headers = await paying(url, { headers: KEY });
      const first = await send(url, { headers });
      const again = await send(url, { headers });
      expect([first.status, again.status, again.headers["idempotency-replayed"]]).to.deep.equal([200, 200, "true"]);
      expect(receiptIn(again)).to.deep.equal(receiptIn(first));
      expect([served(), settled(facilitator)]).to.deep.equal([1, 1]);
    });

    it("asks for the same authorization whenever one Idempotency-Key asks, also once all state is lost", async () => {
      const first = await challengeOf(url, { headers: KEY });
      expect((await send(url, { headers: { ...KEY, ...headerOf(await credentialOf(first)) } })).status).to.equal(200);
      await restart();
      const second = await challengeOf(url, { headers: KEY });
      expect(nonceOf(second)).to.equal(nonceOf(first));
      const other = await challengeOf(url, { headers: { "Idempotency-Key": "another-purchase-of-it" } });
      expect(nonceOf(other)).to.not.equal(nonceOf(first));
      expect(nonceOf(await challengeOf(`${url}?other`, { headers: KEY }))).to.not.equal(nonceOf(first));
      const [one, two] = [await challengeOf(url), await challengeOf(url)];
      expect(nonceOf(one)).to.not.equal(nonceOf(two));
    });

    it("serves an equal payment of many at once to one of them", async () => {
      const headers = await paying(url);
      const answers = await Promise.all(Array.from({ length: 12 }, () => send(url, { headers })));
      expect(answers.filter((answer) => answer.status === 200)).to.have.length(1);
      for (const answer of answers.filter((each) => each.status !== 200)) expectNoChallenge(answer, 409);
      expect([served(), settled(facilitator)]).to.deep.equal([1, 1]);
    });

    it("is one payment with the same authorization presented by x402", async () => {
      for (const first of ["mpp", "x402"] as const) {
        const credential = await credentialOf(await challengeOf(url));
        const [accepted] = requiredIn(await send(url)).accepts;
        const { type: _type, signature, ...authorization } = credential.payload;
        const body = { x402Version: 2, payload: { signature, authorization }, accepted };
        const forms = { mpp: headerOf(credential), x402: { "PAYMENT-SIGNATURE": encodeJsonHeader(body) } };
        const before = [served(), settled(facilitator)] as const;
        const answer = await send(url, { headers: forms[first] });
        expect(answer.status, answer.text).to.equal(200);
        expectNoChallenge(await send(url, { headers: forms.mpp }), 409);
        const x402 = await send(url, { headers: forms.x402 });
        expect([x402.status, x402.json.reason, challengesIn(x402)]).to.deep.equal([402, "already_used", []]);
        expect([served(), settled(facilitator)]).to.deep.equal(before.map((count) => count + 1));
      }
    });

    it("answers 503 while it is unknown what became of a payment, and then serves it", async () => {
      facilitator.settlements.push(refused("settlement_pending"));
      const headers = await paying(url);
      expectNoChallenge(await send(url, { headers }), 503);
      facilitator.mode = "down";
      expectNoChallenge(await send(url, { headers }), 503);
      facilitator.mode = "valid";
      const served200 = await send(url, { headers });
      expect(served200.status, served200.text).to.equal(200);
    });

    for (const [reason, expected] of [
      ["payment_already_granted", 409],
      ["invalid_exact_evm_nonce_already_used", 409],
      ["invalid_exact_evm_transaction_failed", 503],
      ["a word of another Facilitator", 503],
    ] as const) {
      it(`answers ${expected} to a Facilitator's ${reason}, as money may have moved`, async () => {
        facilitator.settle = () => refused(reason);
        const headers = await paying(url);
        const answer = await send(url, { headers });
        expectNoChallenge(answer, expected);
        expect(answer.json.retryable).to.equal(expected === 503);
        expect(answer.headers).to.have.property("retry-after");
      });
    }

    it("asks nobody again whose payment may have moved, whatever its Facilitator says of the next attempt", async () => {
      for (const reason of [
        "insufficient_funds",
        "invalid_exact_evm_signature",
        "invalid_exact_evm_payload_authorization_valid_before",
      ]) {
        facilitator.settlements.push(refused("settlement_pending"));
        facilitator.status = "pending";
        facilitator.settle = () => refused(reason);
        const headers = await paying(url);
        for (let turn = 0; turn < 3; turn++) expectNoChallenge(await send(url, { headers }), 503);
        facilitator.status = "failed";
        const answer = await send(url, { headers });
        expect([answer.status, challengesIn(answer).length], reason).to.deep.equal([402, 1]);
      }
    });

    it("asks a payer again whose funds do not suffice", async () => {
      facilitator.settle = () => refused("invalid_exact_evm_insufficient_balance");
      const answer = await send(url, { headers: await paying(url) });
      expect([answer.status, challengesIn(answer).length]).to.deep.equal([402, 1]);
      expect(answer.json.type).to.equal("https://paymentauth.org/problems/verification-failed");
    });

    it("keeps the payment of a handler that has failed, for another attempt", async () => {
      const headers = await paying(url);
      status = 500;
      expect((await send(url, { headers })).status).to.equal(500);
      status = 200;
      const answer = await send(url, { headers });
      expect(answer.status, answer.text).to.equal(200);
      expect([served(), settled(facilitator)]).to.deep.equal([2, 1 + (settle === "before" ? 1 : 0)]);
    });

    it("names a payment that has bought something to no client of MPP in a 402 of x402", async () => {
      const headers = await v2Headers(url);
      expect((await send(url, { headers })).status).to.equal(200);
      const again = await send(url, { headers });
      expect([again.status, challengesIn(again)]).to.deep.equal([402, []]);
    });
  });
}
