/**
 * Decodes one block's logs into facts, in order. Pure. Token logs are decoded by hand, because every payment has them.
 */
import { decodeTurnpikeLog, type TurnpikeEvent, turnpikeInterface } from "turnpike/chain";
import { type Address, checksum, type Hex, keccakText, paymentIdOf } from "turnpike/protocol";
import type { ChainLog } from "./chain-reader";

interface FactBase {
  readonly logIndex: number;
  readonly transaction: Hex;
}

/**
 * A used EIP-3009 authorization; `transfer` is the token's own log right after it, if any. Also a payment over Permit2;
 * `transfer` is then the token's log of the same transaction.
 */
export interface AuthorizationUsed extends FactBase {
  readonly kind: "authorizationUsed";
  readonly paymentId: Hex;
  readonly token: Address;
  readonly transfer?: { readonly to: Address; readonly amount: bigint; readonly logIndex: number };
}

export interface AuthorizationCanceled extends FactBase {
  readonly kind: "authorizationCanceled";
  readonly paymentId: Hex;
}

export interface TurnpikeFact extends FactBase {
  readonly kind: "turnpike";
  readonly event: TurnpikeEvent;
}

export type ChainFact = AuthorizationUsed | AuthorizationCanceled | TurnpikeFact;

export const TRANSFER_TOPIC = keccakText("Transfer(address,address,uint256)");

export const AUTHORIZATION_USED_TOPIC = keccakText("AuthorizationUsed(address,bytes32)");

export const AUTHORIZATION_CANCELED_TOPIC = keccakText("AuthorizationCanceled(address,bytes32)");

/** First topics of Turnpike's own logs. */
export const TURNPIKE_TOPICS: Hex[] = [];

turnpikeInterface.forEachEvent((event) => {
  TURNPIKE_TOPICS.push(event.topicHash as Hex);
});

/** First topics of every log that the service uses. */
export const KNOWN_TOPICS: readonly Hex[] = [
  TRANSFER_TOPIC,
  AUTHORIZATION_USED_TOPIC,
  AUTHORIZATION_CANCELED_TOPIC,
  ...TURNPIKE_TOPICS,
];

export interface FactSources {
  readonly chainId: number;
  readonly turnpike: Address;
  /** only their logs count: anyone can deploy a token that emits the same */
  readonly tokens: readonly Address[];
}

export function factsOf(sources: FactSources, logs: readonly ChainLog[]): ChainFact[] {
  const tokens = new Set(sources.tokens);
  const ordered = [...logs].sort((a, b) => a.logIndex - b.logIndex);
  const facts: ChainFact[] = [];
  ordered.forEach((log, place) => {
    if (log.address === sources.turnpike) {
      const event = decodeTurnpikeLog({ topics: log.topics, data: log.data });
      if (event) facts.push({ kind: "turnpike", event, logIndex: log.logIndex, transaction: log.transaction });
      return;
    }
    if (!tokens.has(log.address) || log.topics.length !== 3) return;
    const base = { logIndex: log.logIndex, transaction: log.transaction };
    const [topic, payerTopic, nonce] = log.topics as [Hex, Hex, Hex];
    if (topic !== AUTHORIZATION_USED_TOPIC && topic !== AUTHORIZATION_CANCELED_TOPIC) return;
    const payer = addressOfTopic(payerTopic);
    const paymentId = paymentIdOf({ chainId: sources.chainId, token: log.address, payer, nonce });
    if (topic === AUTHORIZATION_CANCELED_TOPIC) {
      facts.push({ kind: "authorizationCanceled", paymentId, ...base });
      return;
    }
    const transfer = transferAfter(log, payerTopic, ordered[place + 1]);
    facts.push({ kind: "authorizationUsed", paymentId, token: log.address, ...base, ...(transfer && { transfer }) });
  });
  return facts;
}

/** Returns the next log of the same transaction and token, if it transfers the payer's tokens. */
function transferAfter(used: ChainLog, payerTopic: Hex, next: ChainLog | undefined): AuthorizationUsed["transfer"] {
  if (!next || next.logIndex !== used.logIndex + 1 || next.transaction !== used.transaction) return undefined;
  if (next.address !== used.address || next.topics.length !== 3 || next.data.length !== 66) return undefined;
  const [topic, from, to] = next.topics as [Hex, Hex, Hex];
  if (topic !== TRANSFER_TOPIC || from !== payerTopic) return undefined;
  return { to: addressOfTopic(to), amount: BigInt(next.data), logIndex: next.logIndex };
}

const addressOfTopic = (topic: Hex): Address => checksum(`0x${topic.slice(26)}`);

/** An address as an indexed topic. */
export const topicOf = (address: Address): Hex => `0x${address.slice(2).toLowerCase().padStart(64, "0")}`;
