/**
 * Finds payments that this service has sent and has no row of: a restored backup lacks what was accepted after it. A
 * transfer counts when it goes to a payee that the service serves, and one of its keys or the batch settler made it.
 */
import { sql } from "kysely";
import { type Address, type Hex, isTurnpikeError, Unavailable } from "turnpike/protocol";
import type { ChainLog } from "../../../chain/chain-reader";
import { AUTHORIZATION_USED_TOPIC, TRANSFER_TOPIC, topicOf } from "../../../chain/facts";
import { PROXIES, PROXY_TOPICS, readFacts } from "../../../chain/permit2-settlements";
import { bytesList, idList, intList } from "../../../db/sql";
import type { BlockRange, SinceJob } from "./job";
import { PAYEES_AT_ONCE } from "./logs";
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
  readonly payees: readonly Hex[];
  /** of the relayer, former keys included */
  readonly keys: ReadonlySet<string>;
}

const FIRST_SPAN = 16;

/** Blocks of a busy service's transfers that fit into memory. */
const MAX_SPAN = 500;

const AT_ONCE = 8;

export async function readServed({ store: { db }, config }: Pick<SinceJob, "store" | "config">): Promise<Served> {
  const { chainId, payTo = [] } = config;
  const { rows } = await sql<{ pay_to: Address }>`
    select distinct pay_to from payments where chain_id = ${chainId}::bigint`.execute(db);
  const lanes = await db.selectFrom("lanes").select("key").where("chain_id", "=", chainId).execute();
  const payees = new Set([...payTo, ...rows.map(({ pay_to: payee }) => payee)].map(topicOf));
  return { payees: [...payees], keys: new Set(lanes.map(({ key }) => key)) };
}

/** @throws Unavailable when no node answers */
export async function* missingPayments(job: SinceJob, range: BlockRange): AsyncGenerator<Missing> {
  const served = await readServed(job);
  let span = FIRST_SPAN;
  for (let fromBlock = range.fromBlock; fromBlock <= range.toBlock; ) {
    const toBlock = Math.min(fromBlock + span - 1, range.toBlock);
    try {
      yield* await missingIn(job, { fromBlock, toBlock }, served);
    } catch (error) {
      if (isTurnpikeError(error)) throw error;
      if (fromBlock === toBlock) throw new Unavailable(`a node rejects log queries for block ${fromBlock}`);
      span = Math.ceil((toBlock - fromBlock + 1) / 4);
      continue;
    }
    fromBlock = toBlock + 1;
    span = Math.min(MAX_SPAN, span * 2);
  }
}

/** @throws RpcAnswerError when the node rejects the range as too wide */
export async function missingIn(job: SinceJob, range: BlockRange, { payees, keys }: Served): Promise<Missing[]> {
  const addresses = job.config.tokens.map(({ address }) => address);
  const all: ChainLog[] = [];
  for (let start = 0; start < payees.length; start += PAYEES_AT_ONCE) {
    const topics = [[TRANSFER_TOPIC], null, payees.slice(start, start + PAYEES_AT_ONCE)];
    all.push(...(await job.chain.logsBetween(range.fromBlock, range.toBlock, { addresses, topics })));
  }
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
