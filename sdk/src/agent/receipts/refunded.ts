/**
 * Reads from the chain what was refunded of a subscription's debits: transfers from the plans' payees and providers whose
 * nonce is that of a refund.
 */

import type { ChainLog, ChainReader } from "../../chain/reader";
import { MAX_REFUNDS } from "../../facilitator/refunds";
import {
  type Address,
  checksum,
  debitIdOf,
  type Hex,
  keccakText,
  refundNonce,
  type TurnpikeDeployment,
  toHex,
  wordOfAddress,
} from "../../protocol";
import type { BilledDebit } from "./bill";

export interface BillSource {
  readonly chain: ChainReader;
  readonly deployment: TurnpikeDeployment;
  readonly fromBlock: number;
  readonly toBlock: number;
  /** debits that the chain's state had by then, where it was read: the logs must have as many; default 0 */
  readonly debitsAtLeast?: number;
}

export type Debited = Omit<BilledDebit, "refunded">;

const PLAN_CREATED = keccakText(
  "PlanCreated(bytes32,address,uint32,(address,uint96,uint32,bool,uint32,address),bytes32,string)",
);

const PLAN_TRANSFERRED = keccakText("PlanTransferred(bytes32,address)");

const PAY_TO_MOVED = keccakText("PayToMoved(bytes32,address)");

/** Positions in the data of `PlanCreated`. */
const CREATED_WORDS = { token: 1, payTo: 6 };

const AUTHORIZATION_USED = keccakText("AuthorizationUsed(address,bytes32)");

const TRANSFER = keccakText("Transfer(address,address,uint256)");

export const topicOf = (account: Address): Hex => toHex(wordOfAddress(account));

export interface Refundable {
  readonly debits: readonly Debited[];
  readonly subscriber: Address;
  readonly planIds: ReadonlySet<Hex>;
}

/** Returns what was paid back of each debit, in the token of the plan. A refund's nonce names its debit. */
export async function refundsOf(
  source: BillSource,
  { debits, subscriber, planIds }: Refundable,
): Promise<ReadonlyMap<Debited, bigint>> {
  if (debits.length === 0) return new Map();
  const { tokens, accounts } = await partiesOf(source, planIds);
  const moved = new Map<Hex, bigint>();
  for (const token of tokens) {
    for (const [nonce, amount] of await authorizedTransfers(source, { token, accounts, subscriber }))
      moved.set(nonce, (moved.get(nonce) ?? 0n) + amount);
  }
  return matched(source, debits, moved);
}

/** Returns the plans' tokens, and the payees and providers that they ever had: each of these may refund. */
async function partiesOf(
  { chain, deployment, toBlock }: BillSource,
  planIds: ReadonlySet<Hex>,
): Promise<{ readonly tokens: ReadonlySet<Address>; readonly accounts: readonly Hex[] }> {
  const topics = [[PLAN_CREATED, PLAN_TRANSFERRED, PAY_TO_MOVED], [...planIds]];
  // A plan is older than the signup.
  const logs = await chain.logs({ address: deployment.turnpike, topics, fromBlock: 0, toBlock });
  const tokens = new Set<Address>();
  const accounts = new Set<Hex>();
  const asTopic = (word = 0n): Hex => `0x${word.toString(16).padStart(64, "0")}`;
  for (const { topics: found, words } of logs) {
    if (found[2] !== undefined) accounts.add(found[2]);
    if (found[0] === PAY_TO_MOVED) accounts.add(asTopic(words[0]));
    if (found[0] !== PLAN_CREATED) continue;
    tokens.add(checksum(`0x${asTopic(words[CREATED_WORDS.token]).slice(26)}`));
    accounts.add(asTopic(words[CREATED_WORDS.payTo]));
  }
  return { tokens, accounts: [...accounts] };
}

interface Transfers {
  readonly token: Address;
  readonly accounts: readonly Hex[];
  readonly subscriber: Address;
}

/** Returns the nonces whose authorization moved money to the subscriber: its `Transfer` is the token's next log. */
async function authorizedTransfers(
  { chain, fromBlock, toBlock }: BillSource,
  { token, accounts, subscriber }: Transfers,
): Promise<(readonly [Hex, bigint])[]> {
  const topics = [TRANSFER, accounts, topicOf(subscriber)];
  const transfers = await chain.logs({ address: token, topics, fromBlock, toBlock });
  const found: (readonly [Hex, bigint])[] = [];
  for (const block of new Set(transfers.map((transfer) => transfer.block))) {
    const range = { fromBlock: block, toBlock: block };
    const used = await chain.logs({ address: token, topics: [AUTHORIZATION_USED, accounts], ...range });
    for (const transfer of transfers) {
      const nonce = used.find((one) => isRightBefore(one, transfer))?.topics[2];
      if (nonce !== undefined) found.push([nonce, transfer.words[0] ?? 0n]);
    }
  }
  return found;
}

const isRightBefore = (used: ChainLog, transfer: ChainLog): boolean =>
  used.block === transfer.block &&
  used.transaction === transfer.transaction &&
  used.index + 1 === transfer.index &&
  used.topics[1] === transfer.topics[1];

/**
 * Sums by debit. An index may follow a gap, so all are tried until each transfer has its debit; connections live
 * meanwhile.
 */
async function matched(
  { deployment }: BillSource,
  debits: readonly Debited[],
  moved: Map<Hex, bigint>,
): Promise<ReadonlyMap<Debited, bigint>> {
  const refunds = new Map<Debited, bigint>();
  const ids = debits.map((debit) => [debit, debitIdOf(deployment, debit)] as const);
  for (let index = 0; index < MAX_REFUNDS && moved.size > 0; index++) {
    for (const [debit, id] of ids) {
      const nonce = refundNonce(id, index);
      const amount = moved.get(nonce);
      if (amount === undefined) continue;
      refunds.set(debit, (refunds.get(debit) ?? 0n) + amount);
      moved.delete(nonce);
    }
    await new Promise((resolve) => setTimeout(resolve));
  }
  return refunds;
}
