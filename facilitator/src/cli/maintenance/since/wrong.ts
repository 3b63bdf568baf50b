/** Finds rows and logs that do not agree. */
import { Unavailable } from "turnpike/protocol";
import type { ChainLog } from "../../../chain/chain-reader";
import type { AuthorizationUsed } from "../../../chain/facts";
import { readFacts } from "../../../chain/permit2-settlements";
import { PAYMENT_EVENTS, REFUND_EVENTS } from "../../../payments/transfer-events";
import type { SinceJob } from "./job";
import type { PlacedEvent, SettledPayment } from "./rows";

/** @param logs in the chain's order @returns `named`: ids of payments that the logs name and `payments` lacks */
export async function wrongPayments(
  job: Pick<SinceJob, "config" | "chain">,
  payments: readonly SettledPayment[],
  logs: readonly ChainLog[],
): Promise<{ readonly wrong: readonly string[]; readonly named: readonly string[] }> {
  const unproved = new Map(payments.map((row) => [row.payment_id, row]));
  const named: string[] = [];
  for (const ofBlock of byBlock(logs)) {
    const [{ blockHash }] = ofBlock;
    if (ofBlock.some((log) => log.blockHash !== blockHash))
      throw new Unavailable("a node returned the logs of two blocks at one height");
    for (const fact of await readFacts(job.chain, sourcesOf(job), ofBlock)) {
      if (fact.kind !== "authorizationUsed") continue;
      const row = unproved.get(fact.paymentId);
      if (row && isProof(row, fact, blockHash)) unproved.delete(fact.paymentId);
      else if (!row) named.push(fact.paymentId);
    }
  }
  const wrong = [...unproved.values()].map(
    (row) => `payments ${row.payment_id}: settled here by ${row.tx_hash}, and no transfer there proves it`,
  );
  return { wrong, named };
}

export const sourcesOf = ({ config }: Pick<SinceJob, "config">) => ({
  chainId: config.chainId,
  turnpike: config.turnpike,
  tokens: config.tokens.map(({ address }) => address),
});

const isProof = (row: SettledPayment, { transaction, transfer }: AuthorizationUsed, blockHash: string): boolean =>
  row.tx_hash === transaction &&
  row.block_hash === blockHash &&
  transfer !== undefined &&
  transfer.logIndex === row.log_index &&
  transfer.to === row.pay_to &&
  transfer.amount === BigInt(row.amount);

type Logs = readonly [ChainLog, ...ChainLog[]];

function* byBlock(logs: readonly ChainLog[]): Generator<Logs> {
  for (let start = 0; start < logs.length; ) {
    let end = start;
    while (logs[end]?.blockNumber === logs[start]?.blockNumber) end += 1;
    yield logs.slice(start, end) as unknown as Logs;
    start = end;
  }
}

export const SETTLED: readonly string[] = [PAYMENT_EVENTS.settled, REFUND_EVENTS.settled];

export const unsettled = ({ id, object_id: payment }: Pick<PlacedEvent, "id" | "object_id">): string =>
  `payments ${payment}: no row here is settled, and event ${id} says that it is`;

export interface BlockRows {
  readonly payments: readonly SettledPayment[];
  /** events of payments up to this block may be deleted */
  readonly pruned: number;
  readonly events: readonly PlacedEvent[];
  readonly logs: readonly ChainLog[];
}

/** Finds settled payments without an event, and events whose log is not on the chain. */
export function wrongEvents({ payments, pruned, events, logs }: BlockRows): readonly string[] {
  const published = new Set(events.flatMap(({ type, object_id: id }) => (SETTLED.includes(type) ? [id] : [])));
  const there = new Set(logs.map(placeOf));
  return [
    ...payments.flatMap(({ payment_id: id, block_number: block }) =>
      published.has(id) || (block ?? 0) <= pruned ? [] : [`events: payment ${id} is settled without an event`],
    ),
    ...events.flatMap(({ id, type, block_hash: blockHash, log_index: logIndex }) =>
      logIndex === null || there.has(placeOf({ blockHash, logIndex }))
        ? []
        : [`events: event ${id} (${type}) is of log ${logIndex} of block ${blockHash}, which is not on the chain`],
    ),
  ];
}

const placeOf = ({ blockHash, logIndex }: { readonly blockHash: string | null; readonly logIndex: number }): string =>
  `${blockHash}/${logIndex}`;
