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
