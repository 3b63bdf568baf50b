/**
 * Logs are believed when the receipts of their transactions tell the same: a node that is wrong, or lies, about one of the
 * two proves nothing. Only what matters here is asked for: live payments, and what Turnpike itself emits.
 */
import { sql } from "kysely";
import { type Hex, Unavailable } from "turnpike/protocol";
import type { ChainBlock, ChainLog, ChainReader, ChainReceipt } from "../relayer";
import { idList } from "../store/lists";
import type { Store } from "../store/open";
import type { ChainFact } from "./facts";

/** One batch carries hundreds of payments; so many receipts are read at once. */
const AT_ONCE = 64;

export interface Told {
  readonly block: ChainBlock;
  readonly logs: readonly ChainLog[];
  readonly facts: readonly ChainFact[];
  /** those that were asked for with the block */
  readonly receipts?: ReadonlyMap<Hex, Promise<ChainReceipt | undefined>> | undefined;
}

export interface CrossCheckOptions {
  readonly store: Store;
  readonly chain: ChainReader;
  readonly chainId: number;
  /** what need not be looked for among the rows first */
  readonly isOurs: (transaction: Hex) => boolean;
}

/**
 * @returns the receipts that were compared
 * @throws Unavailable when they disagree, or a receipt is not there (yet)
 */
export async function crossCheck(
  { store, chain, chainId, isOurs }: CrossCheckOptions,
  told: Told,
): Promise<ChainReceipt[]> {
  const ours = new Set(told.facts.map((fact) => fact.transaction).filter(isOurs));
  const others = told.facts.filter((fact) => !ours.has(fact.transaction));
  const [receipts, matter] = await Promise.all([
    Promise.all([...ours].map((hash) => requireSameLogs(chain, hash, told))),
    factsThatMatter(store, chainId, others),
  ]);
  const hashes = [...new Set(matter.map((fact) => fact.transaction))];
  for (let start = 0; start < hashes.length; start += AT_ONCE) {
    const some = hashes.slice(start, start + AT_ONCE);
    receipts.push(...(await Promise.all(some.map((hash) => requireSameLogs(chain, hash, told)))));
  }
  return receipts;
}

async function factsThatMatter(store: Store, chainId: number, facts: readonly ChainFact[]): Promise<ChainFact[]> {
  const ofTurnpike = facts.filter((fact) => fact.kind === "turnpike");
  const ofPayments = facts.flatMap((fact) => (fact.kind === "turnpike" ? [] : [fact]));
  if (ofPayments.length === 0) return ofTurnpike;
  const rows = await store.db
    .selectFrom("payments")
    .select("payment_id")
    .where("chain_id", "=", chainId)
    .where(sql<boolean>`payment_id = any(${idList(ofPayments.map((fact) => fact.paymentId))})`)
    .execute();
  const known = new Set<string>(rows.map((row) => row.payment_id));
  return [...ofTurnpike, ...ofPayments.filter((fact) => known.has(fact.paymentId))];
}

export async function requireSameLogs(
  chain: ChainReader,
  hash: Hex,
  { block, logs, receipts }: Pick<Told, "block" | "logs" | "receipts">,
): Promise<ChainReceipt> {
  const receipt = (await receipts?.get(hash)) ?? (await chain.receipt(hash));
  const inReceipt = new Map(receipt?.logs.map((log) => [log.logIndex, log]));
  const isSame =
    receipt?.success === true &&
    receipt.blockHash === block.hash &&
    logs.every((log) => log.transaction !== hash || isEqual(log, inReceipt.get(log.logIndex)));
  if (!isSame) throw new Unavailable("a node's logs and receipts do not agree", { retryAfterSec: 2 });
  return receipt;
}

function isEqual(a: ChainLog, b: ChainLog | undefined): boolean {
  return (
    b !== undefined &&
    a.address === b.address &&
    a.data === b.data &&
    a.topics.length === b.topics.length &&
    a.topics.every((topic, index) => topic === b.topics[index])
  );
}
