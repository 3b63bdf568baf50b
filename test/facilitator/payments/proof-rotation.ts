/** The proof key is replaced as docs/operators/keys.md says, by two processes on one database, while payments go on. */
import { expect } from "chai";
import { addressOfKey, type Hex, type PaymentProof, type SignedPayment, signProof } from "turnpike/protocol";
import type { Core } from "../../../facilitator/src/app/core";
import { testKey } from "../../support/chain";
import { type FacilitatorWorld, startWorld } from "../../support/facilitator";
import { startPostgres, type TestPostgres } from "../../support/postgres";

const OLD_KEY = testKey("proof signer") as Hex;
const NEW_KEY = testKey("next proof signer") as Hex;
const OLD = addressOfKey(OLD_KEY);
const NEW = addressOfKey(NEW_KEY);
const AT_ONCE = 3;

interface Paid {
  readonly signed: SignedPayment;
  readonly proof: PaymentProof;
}

describe("the proof key is rotated while payments go on", function () {
  this.timeout(240_000);
  let postgres: TestPostgres;
  let world: FacilitatorWorld;
  const live: Core[] = [];
  const paid: Paid[] = [];

  before(async () => {
    postgres = await startPostgres();
    world = await startWorld({ blockMs: 200, postgres });
  });
  after(async () => {
    await world?.stop();
    await postgres?.stop();
  });

  const start = (settings: Readonly<Record<string, string>>) => world.core({ RENEWALS: "false", ...settings });

  /** At one process after the other, until one of them settles it: each may stop meanwhile. */
  async function pay(first: number): Promise<Paid> {
    const signed = await world.signPayment();
    for (let turn = first; ; turn++) {
      const core = live[turn % live.length] as Core;
      try {
        const outcome = await core.payments.authorize(signed, { waitMs: 2_000 });
        if (outcome.kind === "settled") return { signed, proof: outcome.proof };
        if (outcome.kind === "failed") throw outcome.error;
      } catch (error) {
        if (live.includes(core)) throw error;
      }
    }
  }

  const reasonOf = async (core: Core, proof: PaymentProof): Promise<string> => {
    const verdict = await core.payments.verifyProof(proof);
    return verdict.kind === "valid" ? "valid" : verdict.reason;
  };

  /** Every proof that was ever given out, at every process. */
  async function requireAllValid(step: string): Promise<void> {
    for (const [place, core] of live.entries()) {
      for (const { proof } of paid) {
        expect(await reasonOf(core, proof), `${step}: process ${place}, by ${proof.facilitator}`).to.equal("valid");
      }
    }
  }

  async function payAtBoth(step: string): Promise<void> {
    paid.push(...(await Promise.all(Array.from({ length: AT_ONCE }, (_, index) => pay(index)))));
    await requireAllValid(step);
  }

  /** One process after the other, each replaced before it stops, with payments under way. */
  async function roll(step: string, settings: Readonly<Record<string, string>>): Promise<void> {
    for (const place of live.keys()) {
      const underWay = Promise.all(Array.from({ length: AT_ONCE }, (_, index) => pay(index)));
      const before = live[place] as Core;
      live[place] = await start(settings);
      await payAtBoth(`${step}, process ${place}`);
      await before.stop();
      paid.push(...(await underWay));
      await requireAllValid(`${step}, process ${place} alone`);
    }
  }

  it("HD3 each step of the rotation: no proof is denied at any moment, by any process", async () => {
    live.push(await start({ PROOF_KEY: OLD_KEY }), await start({ PROOF_KEY: OLD_KEY }));
    await payAtBoth("before");
    await roll("announce", { PROOF_KEY: OLD_KEY, PROOF_SIGNERS: NEW });
    await roll("replace", { PROOF_KEY: NEW_KEY, PROOF_SIGNERS: OLD });
    const signers = new Set(paid.map(({ proof }) => proof.facilitator));
    expect([...signers]).to.have.members([OLD, NEW]);

    const retiredAt = (await world.nowSec()) + 1;
    await roll("retire", { PROOF_KEY: NEW_KEY, PROOF_SIGNERS: `${OLD}@${retiredAt}` });
    const first = paid[0] as Paid;
    for (const core of live) {
      const again = await core.payments.authorize(first.signed);
      if (again.kind !== "settled") expect.fail(`it is ${again.kind}`);
      expect(again.proof.facilitator, "asked for again, it is signed by the current key").to.equal(NEW);
      expect(await reasonOf(core, again.proof)).to.equal("valid");
    }

    // After the retirement the old key proves nothing new, whatever it says of the time.
    const late = [...paid].reverse().find(({ proof }) => proof.settledAt >= retiredAt) as Paid;
    const forged = (settledAt: number) =>
      signProof({ ...late.proof, settledAt, facilitator: OLD }, world.chain.chainId, OLD_KEY);
    for (const core of live) {
      expect(await reasonOf(core, forged(late.proof.settledAt))).to.equal("signer_retired");
      expect(await reasonOf(core, forged(retiredAt - 1)), "backdated").to.equal("signer_retired");
    }

    // A key that leaked is taken out, and counts for nothing at once.
    await Promise.all(live.map((core) => core.stop()));
    live.splice(0, 2, await start({ PROOF_KEY: NEW_KEY }));
    expect(await reasonOf(live[0] as Core, first.proof)).to.equal("signature");
    const fresh = await (live[0] as Core).payments.authorize(first.signed);
    if (fresh.kind !== "settled") expect.fail(`it is ${fresh.kind}`);
    expect(await reasonOf(live[0] as Core, fresh.proof)).to.equal("valid");

    // A database that was lost: the chain's own block time decides.
    await (live[0] as Core).stop();
    await world.loseDatabase();
    live.splice(
      0,
      1,
      await start({ PROOF_KEY: NEW_KEY, PROOF_SIGNERS: `${OLD}@${new Date(retiredAt * 1_000).toISOString()}` }),
    );
    expect(await reasonOf(live[0] as Core, first.proof)).to.equal("valid");
    expect(await reasonOf(live[0] as Core, forged(retiredAt - 1))).to.equal("signer_retired");
  });

  it("HD3 a proof that names another amount or payee than what was paid is no proof, whatever key signed it", async () => {
    await live[0]?.stop();
    const core = await start({ PROOF_KEY: NEW_KEY, PROOF_SIGNERS: OLD });
    live.splice(0, 1, core);
    const { proof } = await pay(0);
    const lies: Partial<PaymentProof>[] = [{ amount: proof.amount * 2n }, { payTo: OLD }];
    for (const lie of lies) {
      const forged = signProof({ ...proof, ...lie, facilitator: OLD }, world.chain.chainId, OLD_KEY);
      expect(await reasonOf(core, forged)).to.equal("mismatch");
    }
  });
});
