/**
 * One Facilitator behind one faulty node, for a while: two payments are asked for under the faults and again after them.
 * Whatever nodes return, it proves nothing that the chain does not hold at the depth its policy asks for, and moves nothing twice.
 */
import { expect } from "chai";
import { type Address, type Hex, type PaymentProof, proofToWire, type SignedPayment } from "turnpike/protocol";
import type { Core } from "../../../../facilitator/src/app/core";
import type { AuthorizeOutcome } from "../../../../facilitator/src/payments";
import { testKey } from "../../../support/chain";
import { type FacilitatorWorld, fund, until, walletOf } from "../../../support/facilitator";
import type { TestPostgres } from "../../../support/postgres";
import { RPC_TIMEOUT_MS } from "./faults";
import { type Fault, startChaosRpc } from "./rpc";

/** Payments of this amount wait for as many blocks. */
export const LARGE = { amount: 500_000n, confirmations: 6 };
const SMALL = 250_000n;
/** One question waits for so long; a case lasts until each of its faults has struck, and for some looks and blocks more. */
const ASK_MS = 200;
const AFTER_STRIKE = 3;
const LOOK_MS = 50;
/** Not every fault is met: some questions are asked at the start only. So long is enough to know; a pause counts little. */
const MET_WITHIN_MS = 5_000;
const LOOK_COUNTS_MS = 1_000;
const HEALS_WITHIN_MS = 120_000;

export interface ChaosWorld {
  readonly world: FacilitatorWorld;
  readonly postgres: TestPostgres;
}

let cases = 0;

/** @returns how many of the faults have struck */
export async function liveThrough({ world, postgres }: ChaosWorld, faults: readonly Fault[]): Promise<number> {
  const rpc = await startChaosRpc(world.chain.rpcUrl);
  const startBlock = await world.chain.provider.getBlockNumber();
  const key = testKey(`chaos ${process.pid} ${cases++}`) as Hex;
  await fund(world.chain, walletOf(world.chain, key).address as Address);
  const { token: address, tokenName: name, tokenVersion: version } = world.contracts;
  const core = await world.core({
    RPC_URLS: rpc.url,
    RPC_TIMEOUT_MS: String(RPC_TIMEOUT_MS),
    RELAYER_KEYS: key,
    DATABASE_URL: await postgres.database(),
    DATABASE_POOL_SIZE: "4",
    POLL_MS: "250",
    // All cases share one chain: what was before is not read again by each.
    START_BLOCK: String(startBlock),
    LARGE_CONFIRMATIONS: String(LARGE.confirmations),
    TOKENS: JSON.stringify([{ address, name, version, largeAmount: String(LARGE.amount) }]),
  });
  try {
    const payers = await Promise.all([world.payer(), world.payer()]);
    const signed = await Promise.all([
      world.signPayment({ payer: payers[0] as never, amount: SMALL }),
      world.signPayment({ payer: payers[1] as never, amount: LARGE.amount }),
    ]);
    rpc.set(...faults);
    const outcomes = await underFaults(world, core, signed, () => rpc.struck().every((times) => times > 0));
    const struck = rpc.struck().filter((times) => times > 0).length;
    rpc.set();
    for (const [index, one] of signed.entries()) {
      const proof = await proofAtLast(world, core, one);
      const before = outcomes[index];
      if (before?.kind === "settled") expect(proofToWire(proof)).to.deep.equal(proofToWire(before.proof));
      expect(await transfersOf(world, one, startBlock)).to.deep.equal([proof.transaction]);
    }
    await until(async () => core.relayer.health().ok && core.indexer.health().ok, "it is well again", HEALS_WITHIN_MS);
    return struck;
  } finally {
    await core.stop();
    await rpc.stop();
  }
}

/**
 * Asks again and again while the node is at fault. A process that is paused, or a machine that is slow, does not shorten
 * it: it is over when each fault has struck and the chain has grown since, or when none is met for long.
 * @returns the last answers
 */
async function underFaults(
  world: FacilitatorWorld,
  core: Core,
  signed: readonly SignedPayment[],
  haveStruck: () => boolean,
): Promise<AuthorizeOutcome[]> {
  const height = () => world.chain.provider.getBlockNumber();
  let enough: { readonly looks: number; readonly height: number } | undefined;
  let waitedMs = 0;
  for (let looks = 1; ; looks++) {
    const beganMs = performance.now();
    const outcomes = await Promise.all(signed.map((one) => ask(world, core, one, ASK_MS)));
    for (const { kind } of outcomes) expect(kind, "said while the node lies").not.to.equal("failed");
    if (haveStruck()) enough ??= { looks: looks + AFTER_STRIKE, height: (await height()) + AFTER_STRIKE };
    if (enough ? looks >= enough.looks && (await height()) >= enough.height : waitedMs > MET_WITHIN_MS) return outcomes;
    // Nobody is asked in vain at once: what settled is answered without a wait.
    await new Promise((resolve) => setTimeout(resolve, LOOK_MS));
    waitedMs += Math.min(performance.now() - beganMs, LOOK_COUNTS_MS);
  }
}

async function transfersOf(world: FacilitatorWorld, one: SignedPayment, since: number): Promise<string[]> {
  const { from, to } = one.authorization;
  const logs = await world.token.queryFilter(world.token.filters.Transfer?.(from, to) ?? "Transfer", since);
  return logs.map(({ transactionHash }) => transactionHash);
}

/** One question; what it proves is looked up on the chain at once. */
async function ask(
  world: FacilitatorWorld,
  core: Core,
  signed: SignedPayment,
  waitMs: number,
): Promise<AuthorizeOutcome> {
  const outcome = await core.payments.authorize(signed, { waitMs });
  if (outcome.kind === "settled") await requireOnChain(world, outcome.proof);
  return outcome;
}

async function proofAtLast(world: FacilitatorWorld, core: Core, signed: SignedPayment): Promise<PaymentProof> {
  return until(
    async (saw) => {
      const outcome = await ask(world, core, signed, 500);
      return outcome.kind === "settled" ? outcome.proof : saw(outcome);
    },
    "it has healed",
    HEALS_WITHIN_MS,
  );
}

async function requireOnChain(world: FacilitatorWorld, proof: PaymentProof): Promise<void> {
  const [receipt, head] = await Promise.all([
    world.chain.provider.getTransactionReceipt(proof.transaction),
    world.chain.provider.getBlockNumber(),
  ]);
  const moved = receipt?.logs.some((log) => {
    const parsed = world.token.interface.parseLog(log);
    return (
      parsed?.name === "Transfer" &&
      parsed.args[0] === proof.payer &&
      parsed.args[1] === proof.payTo &&
      parsed.args[2] === proof.amount
    );
  });
  expect(moved, "a proof without its transfer").to.equal(true);
  const depth = proof.amount >= LARGE.amount ? LARGE.confirmations : 1;
  expect(head - (receipt?.blockNumber ?? head + 1) + 1, "blocks deep").to.be.at.least(depth);
}
