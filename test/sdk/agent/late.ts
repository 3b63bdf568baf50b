/** HA1 standard payments whose authorization's window is over: presented once more, replaced only when provably unused. */
import { expect } from "chai";
import { HEAD, startChainRpc } from "./support/chain-rpc";
import { rejection } from "./support/rejection";
import { closeAll, type StandIn } from "./support/servers";
import { type StandardServer, type StandardStep, startStandardServer } from "./support/standard-server";
import {
  type AgentUnderTest,
  agentFor,
  CHAIN_ID,
  Chain,
  startFacilitator,
  startProvider,
  transfersSigned,
} from "./support/world";

const impatient = { settleMs: 2_000, presentations: 2 };

for (const version of [1, 2] as const) {
  describe(`HA1 a late standard payment, version ${version}`, () => {
    let chain: Chain;
    let rpc: StandIn;
    let server: StandardServer;
    /** what the agent's own clock reads; the chain's time differs where a test says so */
    let isLate: boolean;

    beforeEach(async () => {
      chain = new Chain();
      rpc = await startChainRpc(chain);
      isLate = false;
    });
    afterEach(closeAll);

    const payer = (more: object = {}) =>
      agentFor("http://127.0.0.1:1", {
        clock: { nowSec: () => chain.nowSec + (isLate ? 3_600 : 0) },
        limits: impatient,
        ...more,
      });
    const payerWithRpc = () => payer({ rpc: { [CHAIN_ID]: rpc.url } });

    /** Makes a payment whose every presentation meets `step`, and lets its window end. */
    async function payLate(subject: AgentUnderTest, step: StandardStep, init: object = {}): Promise<void> {
      server.steps.push(step, step);
      await subject.agent.pay(server.url, init).catch(() => undefined);
      server.steps.length = 0;
      expect((await subject.agent.payments()).map(({ state }) => state)).to.deep.equal(["signed"]);
      chain.nowSec += 3_600;
    }
    const open = async (redeems = false) => {
      server = await startStandardServer(chain, { version, redeems });
    };
    const presentations = () => {
      const name = version === 1 ? "x-payment" : "payment-signature";
      return server.seen.filter(({ headers }) => headers[name] !== undefined).length;
    };
    const counts = (subject: AgentUnderTest) => [transfersSigned(subject), chain.transfers.length];

    it("HA1 that settled behind a 502 is redeemed after its window by the same payload", async () => {
      for (const make of [payer, payerWithRpc]) {
        await open(true);
        const subject = make();
        const before = chain.transfers.length;
        await payLate(subject, "settle_then_502");
        const response = await subject.agent.pay(server.url);
        expect([response.status, response.receipt?.resumed]).to.deep.equal([200, true]);
        expect([transfersSigned(subject), chain.transfers.length - before, server.payloads.size]).to.deep.equal([
          1, 1, 1,
        ]);
      }
    });

    it("HA1 that nobody can judge is presented once per call, held, and never signed again until it is given up", async () => {
      await open();
      const subject = payer();
      await payLate(subject, "settle_then_502");
      for (const call of ["pay", "fetch"] as const) {
        const before = presentations();
        const error = await rejection(subject.agent[call](server.url));
        expect(error.code).to.equal("PaymentPending");
        expect(error.message).to.include("giveUp(").and.include("RPC");
        expect(presentations() - before).to.equal(1);
      }
      expect(counts(subject)).to.deep.equal([1, 1]);
      const [held] = await subject.agent.payments();
      expect(held?.state).to.equal("signed");
      await subject.agent.giveUp(held?.paymentId ?? "0x");
      expect((await subject.agent.pay(server.url)).status).to.equal(200);
      expect(counts(subject)).to.deep.equal([2, 2]);
    });

    for (const [refusal, step] of Object.entries({ "a 402": "402", "no answer": "502" } as const)) {
      it(`HA1 that met ${refusal} and is provably unused is released and replaced`, async () => {
        await open();
        const subject = payerWithRpc();
        await payLate(subject, step);
        const before = presentations();
        const response = await subject.agent.pay(server.url);
        expect([response.status, response.receipt?.resumed]).to.deep.equal([200, false]);
        expect(presentations() - before, "the old one once, the fresh one once").to.equal(2);
        expect((await subject.agent.payments()).map(({ state }) => state)).to.deep.equal(["released", "served"]);
        expect(counts(subject)).to.deep.equal([2, 1]);
      });

      it(`HA1 that met ${refusal}, unused, is replaced under its idempotencyKey with the same nonce`, async () => {
        await open();
        const subject = payerWithRpc();
        await payLate(subject, step, { idempotencyKey: "k" });
        expect((await subject.agent.pay(server.url, { idempotencyKey: "k" })).status).to.equal(200);
        expect((await subject.agent.payments()).map(({ state }) => state)).to.deep.equal(["served"]);
        expect(counts(subject)).to.deep.equal([2, 1]);
      });
    }

    it("HA1 that is used on chain and refused stays rejected, and no other is signed", async () => {
      await open();
      const subject = payerWithRpc();
      await payLate(subject, "settle_then_502");
      for (let call = 0; call < 2; call++) {
        const error = await rejection(subject.agent.pay(server.url));
        expect(error.code).to.equal("InvalidPaymentProof");
        expect(error.message).to.include("giveUp(");
      }
      expect(counts(subject)).to.deep.equal([1, 1]);
    });

    it("HA1 that is late only by the agent's clock is held: the chain's head is before the window's end", async () => {
      await open();
      const subject = payerWithRpc();
      await payLate(subject, "402");
      chain.nowSec -= 3_600;
      isLate = true;
      server.steps.push("402");
      expect((await rejection(subject.agent.pay(server.url))).code).to.equal("PaymentPending");
      expect(counts(subject)).to.deep.equal([1, 0]);
    });

    it("HA1 is held while the agent's own RPC is down", async () => {
      await open();
      const subject = payerWithRpc();
      await payLate(subject, "402");
      await rpc.close();
      expect((await rejection(subject.agent.pay(server.url))).code).to.equal("PaymentPending");
      expect(counts(subject)).to.deep.equal([1, 0]);
    });

    it("HA1 that gets no verdict is held without an RPC", async () => {
      await open();
      const subject = payer();
      await payLate(subject, "502");
      server.steps.push("502", "502");
      expect((await rejection(subject.agent.pay(server.url))).code).to.equal("PaymentPending");
      expect(counts(subject)).to.deep.equal([1, 0]);
    });

    it("HA1 is released by settleHeld when it is provably unused, and stays signed when it is used or unknown", async () => {
      for (const [make, step, state] of [
        [payerWithRpc, "402", "released"],
        [payerWithRpc, "settle_then_502", "signed"],
        [payer, "402", "signed"],
      ] as const) {
        await open();
        const subject = make();
        await payLate(subject, step);
        expect((await subject.agent.settleHeld()).map((view) => view.state)).to.deep.equal([state]);
      }
    });

    it("HA1 has its nonce read at the block whose time is past its window", async () => {
      await open();
      const subject = payerWithRpc();
      await payLate(subject, "402");
      const before = rpc.seen.length;
      await subject.agent.pay(server.url);
      const calls = rpc.seen.slice(before).map(({ body }) => JSON.parse(body) as { method: string; params: unknown[] });
      const [block, state] = calls;
      expect([block?.method, state?.method, state?.params[1]]).to.deep.equal([
        "eth_getBlockByNumber",
        "eth_call",
        HEAD,
      ]);
    });

    it("HA1 that was served under an idempotencyKey is replayed after its window, and never signed again", async () => {
      await open(true);
      const subject = payerWithRpc();
      const init = { idempotencyKey: "k" };
      expect((await subject.agent.pay(server.url, init)).status).to.equal(200);
      chain.nowSec += 3_600;
      for (let call = 0; call < 2; call++) {
        const response = await subject.agent.pay(server.url, init);
        expect([response.status, response.receipt?.resumed]).to.deep.equal([200, true]);
      }
      server.steps.push("402");
      expect((await rejection(subject.agent.pay(server.url, init))).code).to.equal("InvalidPaymentProof");
      expect((await subject.agent.pay(server.url, init)).status, "evidence is kept").to.equal(200);
      expect(counts(subject)).to.deep.equal([1, 1]);
    });
  });

  describe(`HA1 a standard payment that bought another request, version ${version}`, () => {
    afterEach(closeAll);

    for (const init of [{}, { idempotencyKey: "k" }]) {
      const [how] = Object.keys(init);
      it(`HA1 is reported at its first refusal and never signed again, ${how ? `with an ${how}` : "without a key"}`, async () => {
        const chain = new Chain();
        const server = await startStandardServer(chain, { version, steps: ["granted", "granted", "granted"] });
        const rpc = await startChainRpc(chain);
        const clock = { nowSec: () => chain.nowSec };
        const subject = agentFor("http://127.0.0.1:1", { clock, rpc: { [CHAIN_ID]: rpc.url } });
        for (let call = 0; call < 3; call++) {
          if (call === 2) chain.nowSec += 3_600;
          const error = await rejection(subject.agent.pay(server.url, init));
          expect([error.code, error.reason]).to.deep.equal(["InvalidPaymentProof", "payment_already_granted"]);
          expect(error.message).to.include("presented first").and.include("giveUp(");
          expect(server.steps, "one presentation per call").to.have.length(2 - call);
        }
        expect(transfersSigned(subject)).to.equal(1);
      });
    }
  });
}

describe("HA1 a native payment that a provider says bought another request", () => {
  afterEach(closeAll);

  it("HA1 is reported once, and no other proof of it is fetched", async () => {
    const chain = new Chain();
    const facilitator = await startFacilitator(chain);
    const provider = await startProvider(chain, facilitator.url);
    provider.steps.push("payment_already_granted");
    const subject = agentFor(facilitator.url);
    const error = await rejection(subject.agent.pay(provider.url));
    expect([error.code, error.reason]).to.deep.equal(["InvalidPaymentProof", "payment_already_granted"]);
    expect(facilitator.seen.filter(({ url }) => url === "/authorize")).to.have.length(1);
    expect(transfersSigned(subject)).to.equal(1);
  });
});
