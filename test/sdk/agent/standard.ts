import { expect } from "chai";
import { memoryLedger } from "turnpike/agent";
import { rejection } from "./support/rejection";
import { closeAll } from "./support/servers";
import { startStandardServer } from "./support/standard-server";
import { agentFor, Chain, TOKEN, transfersSigned } from "./support/world";

for (const version of [1, 2] as const) {
  describe(`standard x402 servers, version ${version}`, () => {
    let chain: Chain;
    beforeEach(() => {
      chain = new Chain();
      chain.nowSec = Math.floor(Date.now() / 1_000);
    });
    afterEach(closeAll);

    const agentOn = (overrides: object = {}) => agentFor("http://127.0.0.1:1", overrides);

    it("are paid by one signed payload, with the transaction in the receipt", async () => {
      const server = await startStandardServer(chain, { version });
      const response = await agentOn().agent.pay(`${server.url}/weather?city=x`);
      expect(response.status).to.equal(200);
      expect(response.receipt).to.deep.include({ amount: 10_000n, dialect: `x402-v${version}`, token: TOKEN });
      expect(response.receipt?.transaction).to.match(/^0x[0-9a-f]{64}$/);
      expect(chain.transfers).to.have.length(1);
    });

    it("D1 that settle and lose the answer get the same payload again", async () => {
      const server = await startStandardServer(chain, { version, steps: ["settle_then_drop", "502"] });
      const subject = agentOn();
      // A stock server knows no second grant: it refuses the spent nonce, and the agent does not sign another.
      const error = await rejection(subject.agent.pay(server.url));
      expect(error.code).to.equal("InvalidPaymentProof");
      expect([transfersSigned(subject), chain.transfers.length, server.payloads.size]).to.deep.equal([1, 1, 1]);
    });

    it("D13 that say by their receipt that they were paid for a 404 are not sent that payment again", async () => {
      const server = await startStandardServer(chain, { version, steps: ["settle_then_404"] });
      const subject = agentOn();
      const first = await subject.agent.pay(server.url);
      expect([first.status, first.receipt?.amount]).to.deep.equal([404, 10_000n]);
      const [entry] = await subject.agent.payments();
      expect(entry?.state).to.equal("served");
      const second = await subject.agent.pay(server.url);
      expect([second.status, second.receipt?.resumed]).to.deep.equal([200, false]);
      expect([transfersSigned(subject), server.payloads.size]).to.deep.equal([2, 2]);
    });

    for (const status of [400, 403, 410] as const) {
      it(`D13 that settle and answer ${status} are not sent that payment again`, async () => {
        const server = await startStandardServer(chain, { version, steps: [`settle_then_${status}`] });
        const subject = agentOn();
        const answer = await subject.agent.pay(server.url);
        expect([answer.status, answer.receipt?.amount]).to.deep.equal([status, 10_000n]);
        expect([transfersSigned(subject), chain.transfers.length]).to.deep.equal([1, 1]);
        expect((await subject.agent.pay(server.url)).status, "a purchase of its own").to.equal(200);
        expect([transfersSigned(subject), server.payloads.size, chain.transfers.length]).to.deep.equal([2, 2, 2]);
      });
    }

    for (const [then, redeems, outcomes] of [
      ["and redeem the payload later", true, ["200"]],
      ["and never redeem it", false, ["InvalidPaymentProof", "InvalidPaymentProof"]],
    ] as const) {
      it(`D4 that report a time-out of their settlement as a 402, ${then}, get one payload`, async () => {
        const server = await startStandardServer(chain, { version, redeems, steps: ["settle_then_402"] });
        const subject = agentOn();
        for (const outcome of outcomes) {
          const paid = subject.agent.pay(server.url);
          expect(await paid.then(({ status }) => String(status)).catch(({ code }) => code)).to.equal(outcome);
        }
        expect([transfersSigned(subject), server.payloads.size, chain.transfers.length]).to.deep.equal([1, 1, 1]);
      });
    }

    it("are paid where fields that may be left out are null or absent", async () => {
      const left = { description: null, mimeType: null, outputSchema: null };
      for (const terms of [
        { entry: left, required: { error: null, extensions: null } },
        { entry: { ...left, description: undefined, mimeType: undefined }, required: { error: undefined } },
      ]) {
        const server = await startStandardServer(chain, { version, terms });
        expect((await agentOn().agent.pay(server.url)).status).to.equal(200);
      }
    });

    for (const [what, terms] of [
      ["no entries", { required: { accepts: [] } }],
      ["null for entries", { required: { accepts: null } }],
      ["an entry that is null", { required: { accepts: [null] } }],
      ["no amount", { entry: { amount: null, maxAmountRequired: null } }],
      ["no payee", { entry: { payTo: null } }],
      ["no token", { entry: { asset: null } }],
      ["no network", { entry: { network: null } }],
      ["no scheme", { entry: { scheme: null } }],
    ] as const) {
      it(`D6 whose terms have ${what} get no signature, and a reason`, async () => {
        const server = await startStandardServer(chain, { version, terms });
        const subject = agentOn();
        const error = await rejection(subject.agent.pay(server.url));
        expect([error.code, subject.signed, server.payloads.size]).to.deep.equal(["PolicyRefused", [], 0]);
        expect(error.reason).to.be.oneOf(["quote", "malformed", "no_option"]);
      });
    }

    it("that keep rejecting are quoted with their own reason, and nothing is said to be paid", async () => {
      const server = await startStandardServer(chain, {
        version,
        steps: Array.from({ length: 20 }, () => "402" as const),
      });
      const { message } = await rejection(agentOn().agent.pay(server.url));
      expect(message).to.include("(invalid_payload)").and.to.include("was signed, and may not have settled");
      expect(message).to.not.include("was made");
      expect(chain.transfers).to.have.length(0);
    });

    for (const lie of ["used", "refunded"] as const) {
      it(`D24 that say a payment is ${lie}, while it may still move money, get the same payload again`, async () => {
        const server = await startStandardServer(chain, { version, steps: [lie, lie, lie] });
        const subject = agentOn();
        for (let call = 0; call < 3; call++) await subject.agent.pay(server.url).catch(() => undefined);
        expect([transfersSigned(subject), server.payloads.size, chain.transfers.length]).to.deep.equal([1, 1, 0]);
        expect((await subject.agent.pay(server.url)).status).to.equal(200);
        expect([transfersSigned(subject), chain.transfers.length]).to.deep.equal([1, 1]);
      });
    }

    it("D9 get a window of at most what they ask for and the policy allows", async () => {
      const server = await startStandardServer(chain, { version, maxTimeoutSeconds: 100_000 });
      await agentOn().agent.pay(server.url);
      expect(server.windows.every((seconds) => seconds <= 601)).to.equal(true);
    });

    it("D17 get the same nonce for the same purchase key", async () => {
      const server = await startStandardServer(chain, { version });
      await agentOn({ ledger: memoryLedger() }).agent.pay(server.url, { idempotencyKey: "k" });
      const reborn = agentOn({ ledger: memoryLedger() });
      await rejection(reborn.agent.pay(server.url, { idempotencyKey: "k" }));
      expect(chain.transfers).to.have.length(1);
    });

    it("D6 D8 that lie about token or resource are refused", async () => {
      for (const [lie, reason] of [
        [{ asset: `0x${"99".repeat(20)}` }, "token"],
        [{ resource: "http://127.0.0.1:1/other" }, "resource"],
      ] as const) {
        const server = await startStandardServer(chain, { version, lie });
        const subject = agentOn();
        expect((await rejection(subject.agent.pay(server.url))).reason).to.equal(reason);
        expect(subject.signed).to.deep.equal([]);
      }
    });
  });
}
