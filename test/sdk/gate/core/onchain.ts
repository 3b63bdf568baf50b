import { expect } from "chai";
import type { Provider } from "turnpike/gate";
import type { AcceptEntryWire } from "turnpike/protocol";
import {
  addressOf,
  FRAMEWORKS,
  type Framework,
  headerOf,
  ONE_TIME,
  type ProofFields,
  proofOf,
  quoteOf,
  type SmallFacilitator,
  send,
  startSmallFacilitator,
  type TestServer,
} from "../../../support/gate";
import { type SubscriptionWorld, startSubscriptionWorld } from "../../../support/subscriptions";
import { payOnChain, providerOn } from "../support/chain-provider";

for (const framework of Object.keys(FRAMEWORKS) as Framework[]) {
  describe(`proofs verified on chain through ${framework}`, function () {
    this.timeout(120_000);
    let world: SubscriptionWorld;
    let facilitator: SmallFacilitator;
    let provider: Provider;
    let server: TestServer;

    before(async () => {
      world = await startSubscriptionWorld();
      facilitator = await startSmallFacilitator();
      // Whatever this mode needs, it is not the Facilitator's word.
      facilitator.mode = "down";
    });
    after(async () => {
      await facilitator.stop();
      await world.stop();
    });

    async function serve(confirmations = 1, signers: readonly string[] = [facilitator.signer]): Promise<void> {
      const pinned = { url: facilitator.url, signers };
      provider = providerOn(world, facilitator, { verify: "onchain", confirmations, facilitator: pinned, replay: {} });
      server = await FRAMEWORKS[framework](provider, [{ path: "/paid", gate: { pricing: ONE_TIME } }]);
      await provider.ready();
    }
    afterEach(async () => {
      world.rpc.isDown = false;
      expect(facilitator.calls, "the Facilitator is never asked").to.have.length(0);
      await server.stop();
      await provider.close();
    });

    const quoted = async () => (await quoteOf(`${server.url}/paid`)).accepts[0] as AcceptEntryWire;
    const present = (entry: AcceptEntryWire, fields: ProofFields) =>
      send(`${server.url}/paid`, { headers: headerOf(proofOf(entry, fields)) });
    const expiring = <T extends { settledAt: number }>(paid: T) => ({ ...paid, expiresAt: paid.settledAt + 604_800 });

    it("serves what the token's own logs show, once, and HA6 the same answer again", async () => {
      await serve();
      const entry = await quoted();
      const paid = expiring(await payOnChain(world, entry));
      const answer = await present(entry, paid);
      expect(answer.status, answer.text).to.equal(200);
      expect(answer.json.payer).to.equal(addressOf("payer"));
      const again = await present(entry, paid);
      expect([again.text, again.headers["idempotency-replayed"]]).to.deep.equal([answer.text, "true"]);
    });

    it("C17 refuses a Facilitator's word for money that never moved, moved elsewhere or was too little", async () => {
      await serve();
      const other = await quoted();
      const paid = expiring(await payOnChain(world, other));
      const entry = await quoted();
      const short = await quoted();
      const tooLittle = expiring(await payOnChain(world, short, 499_999n));
      await world.chain.provider.send("evm_setNextBlockTimestamp", [tooLittle.settledAt + 1]);
      await world.chain.provider.send("evm_mine", []);
      const lies: [string, AcceptEntryWire, ProofFields][] = [
        ["no such transaction", entry, { ...paid, transaction: `0x${"cd".repeat(32)}` }],
        ["another payment's transaction", entry, paid],
        ["another payer's", other, { ...paid, payer: addressOf("someone else") }],
        ["one unit less", short, tooLittle],
      ];
      for (const [what, of, fields] of lies) {
        const answer = await present(of, fields);
        expect(answer.status, what).to.equal(402);
        expect(answer.json, what).to.include({ error: "InvalidPaymentProof", reason: "not_settled" });
      }
      expect(server.served.get("/paid"), "no handler ran").to.equal(undefined);
      expect((await present(other, paid)).status, "the honest one still counts").to.equal(200);
    });

    it("HD3 a retired signer counts by the time of the block on chain, whatever its proof says", async () => {
      await world.chain.provider.send("evm_mine", []);
      const nowSec = (await world.chain.provider.getBlock("latest"))?.timestamp ?? 0;
      const retiredAt = nowSec + 100;
      await serve(1, [addressOf("next facilitator"), `${facilitator.signer}@${retiredAt}`]);
      const [first, second] = [await quoted(), await quoted()];
      const early = expiring(await payOnChain(world, first));
      expect((await present(first, early)).status, "settled before").to.equal(200);
      await world.chain.provider.send("evm_setNextBlockTimestamp", [retiredAt + 10]);
      await world.chain.provider.send("evm_mine", []);
      const late = await payOnChain(world, second);
      const backdated = expiring({ ...late, settledAt: retiredAt - 1 });
      expect((await present(second, backdated)).json).to.include({
        error: "InvalidPaymentProof",
        reason: "signer_retired",
      });
      const fresh = { ...expiring(late), signedBy: "next facilitator" };
      expect((await present(second, fresh)).status, "a fresh proof by the current signer").to.equal(200);
    });

    it("refuses a payment that the chain took back, once its node has a block of the payment's time", async () => {
      await serve();
      const entry = await quoted();
      const snapshot = await world.chain.provider.send("evm_snapshot", []);
      const paid = expiring(await payOnChain(world, entry));
      await world.chain.provider.send("evm_revert", [snapshot]);
      const early = await present(entry, paid);
      expect([early.status, early.json.error], "a node behind the payment's block").to.deep.equal([503, "Unavailable"]);
      await world.chain.provider.send("evm_setNextBlockTimestamp", [paid.settledAt + 1]);
      await world.chain.provider.send("evm_mine", []);
      expect((await present(entry, paid)).json).to.include({ error: "InvalidPaymentProof", reason: "not_settled" });
    });

    it("S2 answers 503 while the chain cannot be asked, and keeps the payment good", async () => {
      await serve();
      const entry = await quoted();
      const paid = expiring(await payOnChain(world, entry));
      world.rpc.isDown = true;
      const answer = await present(entry, paid);
      expect(answer.status, answer.text).to.equal(503);
      world.rpc.isDown = false;
      expect((await present(entry, paid)).status).to.equal(200);
    });

    it("answers 503, not 402, while the payment is there and not deep enough", async () => {
      await serve(3);
      const entry = await quoted();
      const paid = expiring(await payOnChain(world, entry));
      const early = await present(entry, paid);
      expect(early.status, early.text).to.equal(503);
      await world.chain.provider.send("hardhat_mine", ["0x2"]);
      expect((await present(entry, paid)).status).to.equal(200);
    });
  });
}
