/**
 * Finds the chain's evidence for one payment: the token's `Transfer` right after the matching `AuthorizationUsed`.
 * Searches by indexed topics, for blocks that this database has not indexed: after data loss, or when a third party
 * settled first.
 */
import { type Address, type Hex, Unavailable } from "turnpike/protocol";
import { AUTHORIZATION_CANCELED_TOPIC, AUTHORIZATION_USED_TOPIC, factsOf, topicOf } from "../chain/facts";
import { newestLogs } from "../chain/log-search";
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

/** Returns the newest evidence up to a block. @throws Unavailable when the chain cannot be read */
export async function findEvidence(
  { config, relayer }: { config: FacilitatorConfig; relayer: Relayer },
  query: EvidenceQuery,
  upToBlock: number,
): Promise<Evidence> {
  const topics = [
    [AUTHORIZATION_USED_TOPIC, AUTHORIZATION_CANCELED_TOPIC],
    topicOf(query.payer),
    query.nonce.toLowerCase() as Hex,
  ];
  const range = { fromBlock: config.startBlock, toBlock: upToBlock };
  const { value: log } = await newestLogs(relayer.chain, range, { addresses: [query.token], topics }).next();
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
