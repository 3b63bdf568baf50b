/**
 * Reads from the chain what a subscription was debited in which cycle, what was refunded of it, and who may sign its
 * receipts: from Turnpike's and the token's logs alone, without a chain library.
 */

import type { ChainLog } from "../../chain/reader";
import { type Address, checksum, type Hex, InvalidRequest, keccakText, Unavailable } from "../../protocol";
import type { Bill, BilledDebit, CycleName } from "./bill";
import { type BillSource, type Debited, refundsOf, topicOf } from "./refunded";

export interface BilledFacts {
  /** its records, the oldest first: rekeys move one to the next */
  readonly idHashes: readonly Hex[];
  readonly debits: readonly BilledDebit[];
  readonly maySign: Bill["maySign"];
}

const EVENT = {
  Subscribed: keccakText("Subscribed(bytes32,bytes32,address,uint256,uint40)"),
  Renewed: keccakText("Renewed(bytes32,uint40)"),
  Paused: keccakText("Paused(bytes32)"),
  Resumed: keccakText("Resumed(bytes32,uint256,uint40)"),
  Cancelled: keccakText("Cancelled(bytes32,bool,address)"),
  MaxOverageSet: keccakText("MaxOverageSet(bytes32,uint256)"),
  NextSet: keccakText("NextSet(bytes32,uint40,bytes32)"),
  ChangeMade: keccakText("ChangeMade(bytes32,bytes32)"),
  PlanChanged: keccakText("PlanChanged(bytes32,bytes32,uint256,uint256,uint40)"),
  Rekeyed: keccakText("Rekeyed(bytes32,bytes32)"),
  Debited: keccakText("Debited(bytes32,uint256,uint256)"),
} as const;

const OPERATOR_SET = keccakText("OperatorSet(bytes32,address,uint8)");

const RECEIPT_RIGHT = 4n;

/** Nonces, or accounts, in one question. */
const TOPICS_PER_CALL = 100;

/**
 * @param signers of the receipts that are held, by plan
 * @throws InvalidRequest when the signup is not among the blocks that are read; Unavailable, also where logs are missing
 */
export async function readBill(
  source: BillSource,
  idHash: Hex,
  signers: readonly (readonly [Hex, Address])[],
): Promise<BilledFacts> {
  const idHashes = await recordsOf(source, idHash);
  const logs = await logsOf(source, [Object.values(EVENT), idHashes]);
  const history = new History(idHashes[0] ?? idHash);
  for (const log of logs) history.apply(log);
  const { debits, subscriber, planIds } = history;
  if (subscriber === undefined) {
    const { fromBlock, toBlock } = source;
    throw new InvalidRequest(
      `No signup of ${idHash} is in the blocks ${fromBlock} to ${toBlock}: begin with an earlier one.`,
    );
  }
  requireAllDebits(debits, source.debitsAtLeast ?? 0);
  const refunds = await refundsOf(source, { debits, subscriber, planIds });
  const rights = await rightsOf(source, signers);
  return {
    idHashes,
    debits: debits.map((debit) => ({ ...debit, refunded: refunds.get(debit) ?? 0n })),
    maySign: (receipt, signer) =>
      history.planOf(receipt) === receipt.planId && rights.has(rightKey(receipt.planId, signer)),
  };
}

const logsOf = (
  { chain, deployment, fromBlock, toBlock }: BillSource,
  topics: readonly (Hex | readonly Hex[] | null)[],
): Promise<readonly ChainLog[]> => chain.logs({ address: deployment.turnpike, topics, fromBlock, toBlock });

/** Returns whether anything happened to a subscription: a signup that was voided, or never sent, leaves none of these logs. */
export async function isInHistory(source: BillSource, idHash: Hex): Promise<boolean> {
  return (await logsOf(source, [Object.values(EVENT), idHash])).length > 0;
}

/** Follows rekeys in both directions. */
export async function recordsOf(source: BillSource, idHash: Hex): Promise<Hex[]> {
  const found: Hex[] = [idHash];
  for (let isBefore = true; isBefore; ) {
    const [log] = await logsOf(source, [EVENT.Rekeyed, null, found[0] as Hex]);
    isBefore = log?.topics[1] !== undefined && !found.includes(log.topics[1]);
    if (isBefore) found.unshift(log?.topics[1] as Hex);
  }
  for (let isAfter = true; isAfter; ) {
    const [log] = await logsOf(source, [EVENT.Rekeyed, found.at(-1) as Hex]);
    isAfter = log?.topics[2] !== undefined && !found.includes(log.topics[2]);
    if (isAfter) found.push(log?.topics[2] as Hex);
  }
  return found;
}

/**
 * The contract numbers a subscription's debits from 0, over cycles and rekeys: an RPC that leaves one out is found.
 * @throws Unavailable
 */
function requireAllDebits(debits: readonly Debited[], atLeast: number): void {
  const missing = debits.findIndex(({ index }, i) => index !== i);
  if (missing < 0 && debits.length >= atLeast) return;
  const index = missing < 0 ? debits.length : missing;
  throw new Unavailable(`The RPC's logs lack debit ${index} of the subscription: use another RPC.`);
}

/** Replays a record's logs: its cycles, the plan of each, and the one that a debit fell into, as the contract counts them. */
class History {
  readonly debits: Debited[] = [];
  subscriber: Address | undefined;
  readonly #planOf = new Map<string, Hex>();
  #planId: Hex | undefined;
  #idHash: Hex;
  #version = 0;
  #paidThrough = 0;

  constructor(idHash: Hex) {
    this.#idHash = idHash;
  }

  get planIds(): ReadonlySet<Hex> {
    return new Set(this.#planOf.values());
  }

  /** Returns the plan of a cycle; undefined for one that the record never had. */
  planOf(cycle: CycleName): Hex | undefined {
    return this.#planOf.get(cycleKey(cycle));
  }

  apply(log: ChainLog): void {
    this.#replay(log);
    // An end comes before the signup that sets it, and a scheduled change before the period that it begins with.
    if (this.#planId === undefined || log.topics[0] === EVENT.ChangeMade) return;
    this.#planOf.set(cycleKey(this.#cycle()), this.#planId);
  }

  #replay({ topics, words, transaction }: ChainLog): void {
    const [event, , second = "0x"] = topics;
    const [first = 0n, next = 0n] = words;
    switch (event) {
      case EVENT.Subscribed:
        this.#version = 0;
        this.#paidThrough = Number(next);
        this.#planId = second;
        this.subscriber = checksum(`0x${(topics[3] ?? "").slice(26)}`);
        return;
      case EVENT.Renewed:
        this.#paidThrough = Number(first);
        return;
      case EVENT.ChangeMade:
        this.#planId = second;
        return;
      case EVENT.Resumed:
        this.#version += 1;
        this.#paidThrough = Number(next);
        return;
      case EVENT.PlanChanged:
        this.#version += 1;
        this.#paidThrough = Number(words[2] ?? 0n);
        this.#planId = second;
        return;
      case EVENT.Cancelled:
        // A provider's act leaves the version.
        if (this.subscriber?.toLowerCase() === `0x${next.toString(16).padStart(40, "0")}`) this.#version += 1;
        return;
      case EVENT.Paused:
      case EVENT.MaxOverageSet:
      case EVENT.NextSet:
        this.#version += 1;
        return;
      case EVENT.Rekeyed:
        this.#idHash = second;
        this.#version = 0;
        return;
      case EVENT.Debited:
        this.debits.push({ ...this.#cycle(), amount: first, index: Number(next), transaction });
    }
  }

  #cycle() {
    return { idHash: this.#idHash, version: this.#version, paidThrough: this.#paidThrough };
  }
}

function inParts<T>(all: readonly T[]): T[][] {
  const parts: T[][] = [];
  for (let at = 0; at < all.length; at += TOPICS_PER_CALL) parts.push(all.slice(at, at + TOPICS_PER_CALL));
  return parts;
}

const cycleKey = ({ idHash, version, paidThrough }: CycleName): string => `${idHash} ${version} ${paidThrough}`;

const rightKey = (planId: Hex, signer: Address): string => `${planId} ${signer}`;

/** Returns which of these accounts the plan has ever given the right: what they signed before a revocation counts. */
async function rightsOf(
  source: BillSource,
  signers: readonly (readonly [Hex, Address])[],
): Promise<ReadonlySet<string>> {
  const held = new Set<string>();
  const byPlan = new Map<Hex, Map<Hex, Address>>();
  for (const [planId, signer] of signers) {
    const accounts = byPlan.get(planId) ?? new Map<Hex, Address>();
    byPlan.set(planId, accounts.set(topicOf(signer), signer));
  }
  const read = async (part: BillSource) => {
    for (const [planId, accounts] of byPlan) {
      for (const topics of inParts([...accounts.keys()])) {
        for (const { topics: found, words } of await logsOf(part, [OPERATOR_SET, planId, topics])) {
          const signer = accounts.get(found[2] as Hex);
          if (!signer || ((words[0] ?? 0n) & RECEIPT_RIGHT) === 0n) continue;
          held.add(rightKey(planId, signer));
          accounts.delete(found[2] as Hex);
        }
      }
    }
  };
  await read(source);
  // A right may be older than the signup. Only who has none among the blocks that are read is looked for in all others.
  await read({ ...source, fromBlock: 0, toBlock: source.fromBlock - 1 });
  return held;
}
