/**
 * Finds payments that x402's Permit2 proxies moved. Their logs name no payment, so the nonce comes from the calldata of
 * the transaction, and only a direct call of a proxy counts: nothing shows which payments another contract's calls
 * settled.
 */
import { decodeProxyCall, type ProxyCall } from "turnpike/chain";
import {
  type Address,
  EXACT_PERMIT2_PROXY,
  type Hex,
  keccakText,
  permit2PaymentIdOf,
  Unavailable,
  UPTO_PERMIT2_PROXY,
} from "turnpike/protocol";
import type { ChainLog, ChainReader } from "./chain-reader";
import { type AuthorizationUsed, type ChainFact, type FactSources, factsOf, TRANSFER_TOPIC, topicOf } from "./facts";

export const PROXIES: readonly Address[] = [EXACT_PERMIT2_PROXY, UPTO_PERMIT2_PROXY];

/** First topics of the proxies' logs. */
export const PROXY_TOPICS: readonly Hex[] = [keccakText("Settled()"), keccakText("SettledWithPermit()")];

/**
 * Returns all facts of one block's logs, in order, with the payments that the proxies moved.
 * @throws Unavailable when a node does not return the transaction of a log
 */
export async function readFacts(
  chain: Pick<ChainReader, "transaction">,
  sources: FactSources,
  logs: readonly ChainLog[],
): Promise<ChainFact[]> {
  const facts = factsOf(sources, logs);
  const settled = logs.filter((log) => PROXIES.includes(log.address) && PROXY_TOPICS.includes(log.topics[0] as Hex));
  if (settled.length === 0) return facts;
  const found = await Promise.all(settled.map((log) => settlementOf(chain, sources, log, logs)));
  return [...facts, ...found.filter((fact) => fact !== undefined)].sort((a, b) => a.logIndex - b.logIndex);
}

async function settlementOf(
  chain: Pick<ChainReader, "transaction">,
  { chainId, tokens }: FactSources,
  log: ChainLog,
  logs: readonly ChainLog[],
): Promise<AuthorizationUsed | undefined> {
  const moved = logs.filter((each) => each.transaction === log.transaction && tokens.includes(each.address));
  if (moved.length === 0) return undefined;
  const transaction = await chain.transaction(log.transaction);
  if (transaction?.blockHash !== log.blockHash) throw new Unavailable("a node does not return a log's transaction");
  const call = transaction.call?.to === log.address ? decodeProxyCall(transaction.call) : undefined;
  if (!call || !tokens.includes(call.token)) return undefined;
  const { token, payer, payTo: to, amount, nonce } = call;
  const transfer = moved.find((each) => each.logIndex < log.logIndex && isTransfer(each, call));
  return {
    kind: "authorizationUsed",
    paymentId: permit2PaymentIdOf({ chainId, token, payer, nonce }),
    token,
    transaction: log.transaction,
    logIndex: log.logIndex,
    ...(transfer && { transfer: { to, amount, logIndex: transfer.logIndex } }),
  };
}

/** Returns whether a log is the token's transfer that the call asked for. */
export function isTransfer(log: ChainLog, { token, payer, payTo, amount }: Omit<ProxyCall, "nonce">): boolean {
  const [topic, from, to] = log.topics;
  const isForm = log.address === token && log.topics.length === 3 && log.data.length === 66;
  return (
    isForm &&
    topic === TRANSFER_TOPIC &&
    from === topicOf(payer) &&
    to === topicOf(payTo) &&
    BigInt(log.data) === amount
  );
}
