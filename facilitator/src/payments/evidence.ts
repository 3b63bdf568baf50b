/**
 * Finds the chain's evidence for one payment: the token's `Transfer` right after the matching `AuthorizationUsed`.
 * Searches by indexed topics, for blocks that this database has not indexed: after data loss, or when a third party
 * settled first.
 */
import { type Address, type Hex, isTurnpikeError, Unavailable } from "turnpike/protocol";
import type { ChainLog } from "../chain/chain-reader";
import { AUTHORIZATION_CANCELED_TOPIC, AUTHORIZATION_USED_TOPIC, factsOf } from "../chain/facts";
import { requireSameLogs } from "../chain/same-logs";
import type { FacilitatorConfig } from "../config";
import type { Relayer } from "../relayer";

export interface Place {
  readonly transaction: Hex;
  readonly blockNumber: number;
  readonly blockHash: Hex;
  readonly blockTimeSec: number;
  readonly logIndex: number;
}

export type Evidence =
  | ({ readonly kind: "transfer"; readonly to: Address; readonly amount: bigint } & Place)
  | ({ readonly kind: "cancelled" } & Place)
  | { readonly kind: "none" };

export interface EvidenceQuery {
  readonly paymentId: Hex;
  readonly token: Address;
  readonly payer: Address;
  readonly nonce: Hex;
}

/** Maximum blocks in one query; nodes limit it. */
const SPAN = 5_000;

/** Returns the newest evidence up to a block. @throws Unavailable when the chain cannot be read */
export async function findEvidence(
  { config, relayer }: { config: FacilitatorConfig; relayer: Relayer },
  query: EvidenceQuery,
  upToBlock: number,
): Promise<Evidence> {
  const payerTopic: Hex = `0x${query.payer.slice(2).toLowerCase().padStart(64, "0")}`;
  const topics = [
    [AUTHORIZATION_USED_TOPIC, AUTHORIZATION_CANCELED_TOPIC],
    payerTopic,
    query.nonce.toLowerCase() as Hex,
  ];
  const log = await newestLog({ config, relayer }, query.token, topics, upToBlock);
  if (!log) return { kind: "none" };
  // Some nodes ignore part of the filter.
  const isAsked = log.address === query.token && log.topics[1] === topics[1] && log.topics[2] === topics[2];
  if (!isAsked) throw new Unavailable("a node returned logs outside the requested filter");
  const block = await relayer.chain.block(log.blockNumber);
  if (!block || block.hash !== log.blockHash) return { kind: "none" };
  const inBlock = { blockNumber: block.number, blockHash: block.hash, blockTimeSec: block.timestampSec };
  await requireSameLogs(relayer.chain, log.transaction, { block, logs: [log] });
  if (log.topics[0] === AUTHORIZATION_CANCELED_TOPIC) {
    return { kind: "cancelled", transaction: log.transaction, logIndex: log.logIndex, ...inBlock };
  }
  const logs = await relayer.chain.logsOfBlock(log.blockHash, { addresses: [query.token] });
  const facts = factsOf({ chainId: config.chainId, turnpike: config.turnpike, tokens: [query.token] }, logs);
  for (const fact of facts) {
    if (fact.kind !== "authorizationUsed" || fact.paymentId !== query.paymentId || !fact.transfer) continue;
    await requireSameLogs(relayer.chain, fact.transaction, { block, logs });
    return {
      kind: "transfer",
      to: fact.transfer.to,
      amount: fact.transfer.amount,
      transaction: fact.transaction,
      ...inBlock,
      logIndex: fact.transfer.logIndex,
    };
  }
  return { kind: "none" };
}

async function newestLog(
  { config, relayer }: { config: FacilitatorConfig; relayer: Relayer },
  token: Address,
  topics: readonly (Hex | readonly Hex[])[],
  upToBlock: number,
): Promise<ChainLog | undefined> {
  const filter = { addresses: [token], topics };
  try {
    return (await relayer.chain.logsBetween(config.startBlock, upToBlock, filter)).at(-1);
  } catch (error) {
    if (isTurnpikeError(error)) throw error;
    // The node rejected the range as too wide: search in parts, newest first.
  }
  for (let to = upToBlock; to >= config.startBlock; to -= SPAN) {
    const from = Math.max(config.startBlock, to - SPAN + 1);
    const found = await relayer.chain.logsBetween(from, to, filter).catch((cause: unknown) => {
      throw isTurnpikeError(cause) ? cause : new Unavailable("a node rejects log queries for some blocks", { cause });
    });
    if (found.length > 0) return found.at(-1);
  }
  return undefined;
}
