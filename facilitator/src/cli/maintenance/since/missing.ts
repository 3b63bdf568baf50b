/**
 * Finds payments that this service has sent and has no row of: a restored backup lacks what was accepted after it. A
 * transfer counts when it goes to a payee that the service serves, and one of its keys or the batch settler made it.
 */
import { type RawBuilder, sql } from "kysely";
import { type Address, type Hex, Unavailable } from "turnpike/protocol";
import type { ChainLog } from "../../../chain/chain-reader";
import { AUTHORIZATION_USED_TOPIC, TRANSFER_TOPIC } from "../../../chain/facts";
import { PROXIES, PROXY_TOPICS, readFacts } from "../../../chain/permit2-settlements";
import { bytesList, idList, intList } from "../../../db/sql";
import type { BlockRange, SinceJob } from "./job";
import { readTransfers } from "./logs";
import { inSteps, orTooWide } from "./steps";
import { sourcesOf } from "./wrong";

export interface Missing {
  readonly paymentId: Hex;
  readonly token: Address;
  readonly payTo: Address;
  readonly amount: bigint;
  readonly transaction: Hex;
}

/** Whose transfers count. */
export interface Served {
  readonly payees: readonly Address[];
  /** The relayer's former keys are included. */
  readonly keys: ReadonlySet<string>;
}

const AT_ONCE = 8;

export async function readServed({ store: { db }, config }: Pick<SinceJob, "store" | "config">): Promise<Served> {
  const { chainId, payTo = [] } = config;
  // From one payee to the next by the index: there are few, and millions of payments.
  const first = (after: RawBuilder<unknown>) => sql`(select p.pay_to from payments p
    where p.chain_id = ${chainId}::bigint and p.state in ('settled', 'failed') and p.pay_to > ${after}
    order by p.chain_id, p.pay_to limit 1)`;
  const { rows } = await sql<{ pay_to: Address }>`
    with recursive payees (pay_to) as (
      ${first(sql`''`)} union all select ${first(sql`payees.pay_to`)} from payees where payees.pay_to is not null)
    select pay_to from payees where pay_to is not null`.execute(db);
  const lanes = await db.selectFrom("lanes").select("key").where("chain_id", "=", chainId).execute();
  const payees = new Set([...payTo, ...rows.map(({ pay_to: payee }) => payee)]);
  return { payees: [...payees], keys: new Set(lanes.map(({ key }) => key)) };
}

/** @throws Unavailable when no node answers */
export async function* missingPayments(job: SinceJob, range: BlockRange): AsyncGenerator<Missing> {
  const served = await readServed(job);
  const read = async (step: BlockRange) => {
    const transfers = await readTransfers(job, step, served.payees);
    return { size: transfers.length, missing: await missingAmong(job, transfers, served) };
  };
  for await (const { missing } of inSteps(range, (step) => orTooWide(read(step)))) yield* missing;
}

/** @param all the transfers of some blocks to the served payees */
export async function missingAmong(job: SinceJob, all: readonly ChainLog[], { keys }: Served): Promise<Missing[]> {
  const transfers = await withoutRow(job, all);
  const hashes = [...new Set(transfers.map(({ transaction }) => transaction))];
  const missing: Missing[] = [];
  for (let place = 0; place < hashes.length; place += AT_ONCE) {
    const found = hashes.slice(place, place + AT_ONCE).map(async (hash) => {
      const logs = transfers.filter(({ transaction }) => transaction === hash);
      return (await isOurs(job, hash, keys)) ? paymentsOf(job, logs) : [];
    });
    missing.push(...(await Promise.all(found)).flat());
  }
  return missing;
}

async function withoutRow({ store: { db }, config }: SinceJob, logs: readonly ChainLog[]): Promise<ChainLog[]> {
  if (logs.length === 0) return [];
  const rows = await db
    .selectFrom("payments")
    .select(["tx_hash", "log_index"])
    .where("chain_id", "=", config.chainId)
    .where("state", "=", "settled")
    .where(sql<boolean>`block_number = any(${intList([...new Set(logs.map((log) => log.blockNumber))])})`)
    .where(sql<boolean>`tx_hash = any(${bytesList(new Set(logs.map(({ transaction }) => transaction)))})`)
    .execute();
  const known = new Set(rows.map(({ tx_hash: hash, log_index: place }) => `${hash}/${place}`));
  return logs.filter(({ transaction, logIndex }) => !known.has(`${transaction}/${logIndex}`));
}

async function isOurs({ chain, config }: SinceJob, hash: Hex, keys: Served["keys"]): Promise<boolean> {
  const found = await chain.transaction(hash);
  if (!found) throw new Unavailable("a node does not return a log's transaction");
  return keys.has(found.from ?? "") || found.call?.to === config.batchSettler;
}

/** Returns the payments among a transaction's transfers; charges of subscriptions are none. */
async function paymentsOf(job: SinceJob, transfers: readonly ChainLog[]): Promise<Missing[]> {
  const { chain, config, store } = job;
  const [first] = transfers;
  if (!first) return [];
  const logs = await chain.logsOfBlock(first.blockHash, {
    addresses: [...config.tokens.map(({ address }) => address), ...(config.permit2 ? PROXIES : [])],
    topics: [[AUTHORIZATION_USED_TOPIC, TRANSFER_TOPIC, ...PROXY_TOPICS]],
  });
  const places = new Set(transfers.map(({ logIndex }) => logIndex));
  const found = (await readFacts(chain, sourcesOf(job), logs)).flatMap((fact) =>
    fact.kind === "authorizationUsed" && fact.transfer && places.has(fact.transfer.logIndex)
      ? [{ ...fact, payTo: fact.transfer.to, amount: fact.transfer.amount }]
      : [],
  );
  const ids = idList(found.map(({ paymentId }) => paymentId));
  const { rows } = await sql<{ id: string }>`
    select payment_id as id from payments where chain_id = ${config.chainId}::bigint and payment_id = any(${ids})
    union select object_id from events
    where chain_id = ${config.chainId}::bigint and object_id = any(${ids}) and not reverted`.execute(store.db);
  // A row in another state is a difference of its own, and so is an event without a row.
  const known = new Set(rows.map(({ id }) => id));
  return found
    .filter(({ paymentId }) => !known.has(paymentId))
    .map(({ paymentId, token, payTo, amount, transaction }) => ({ paymentId, token, payTo, amount, transaction }));
}

export const missed = ({ paymentId, token, payTo, amount, transaction }: Missing): string =>
  `payments ${paymentId}: ${amount} base units of ${token} moved to ${payTo} by ${transaction}, and no row is here`;

/** One sentence for each token. */
export function sumsOf(missing: readonly Missing[]): string[] {
  const sums = new Map<Address, { count: number; amount: bigint }>();
  for (const { token, amount } of missing) {
    const sum = sums.get(token) ?? { count: 0, amount: 0n };
    sums.set(token, { count: sum.count + 1, amount: sum.amount + amount });
  }
  return [...sums].map(
    ([token, { count, amount }]) => `${count} payments without a row moved ${amount} base units of ${token}`,
  );
}
