import { expect } from "chai";
import type { TurnpikeError } from "turnpike/protocol";
import type { Core } from "../../../facilitator/src/app/core";
import type { ProofVerdict } from "../../../facilitator/src/payments/proof-verifier";
import { BLOCK_MS, type FacilitatorWorld, startWorld } from "../../support/facilitator";

const LARGE = 500_000n;

const CONFIRMATIONS = 3;

describe("Facilitator: the proof of a large payment that a reorganisation moves", function () {
  this.timeout(120_000);
  let world: FacilitatorWorld;
  let core: Core;

  before(async () => {
    world = await startWorld({ blockMs: BLOCK_MS });
    const { token: address, tokenName: name, tokenVersion: version } = world.contracts;
    const tokens = [{ address, name, version, decimals: 6, largeAmount: String(LARGE) }];
    const settings = {
      FINALITY_DEPTH: "800",
      LARGE_CONFIRMATIONS: String(CONFIRMATIONS),
      TOKENS: JSON.stringify(tokens),
    };
    core = await world.core(settings);
  });
  after(() => world.stop());

  it("B8 is valid no sooner in its later block than a new proof of it", async () => {
    const rpc = (method: string, params: unknown[] = []) => world.chain.provider.send(method, params);
    const signed = await world.signPayment({ amount: LARGE });
    const first = await core.payments.authorize(signed);
    if (first.kind !== "settled") expect.fail(`it is ${first.kind}`);
    const reasonOf = (verdict: ProofVerdict) => (verdict.kind === "valid" ? verdict.kind : verdict.reason);
    const verified = (): Promise<string> =>
      core.payments.verifyProof(first.proof).then(reasonOf, ({ code }: TurnpikeError) => code);
    expect(await verified()).to.equal("valid");

    await rpc("evm_setIntervalMining", [0]);
    await core.indexer.catchUp();
    // As the row is once a reorganisation has moved the same transaction to the newest block.
    await core.store.db
      .updateTable("payments")
      .set({ block_number: core.indexer.applied() })
      .where("payment_id", "=", world.idOf(signed))
      .execute();
    for (let block = 1; block < CONFIRMATIONS; block++) {
      expect(await verified(), `in ${block} blocks`).to.equal("pending");
      await rpc("evm_mine");
      await core.indexer.catchUp();
    }
    expect(await verified()).to.equal("valid");
  });
});
