/**
 * A chain for meter tests, in memory: allowances by the contract's rules, and an operator's lane whose transactions
 * land when the test says so. Outages, lags and lost answers are switched on by the test.
 */
import type { DebitItem, DebitOutcome, DebitResult, DebitSender, MeteredState, MeterStates } from "turnpike/chain";
import { type ErrorCode, type Hex, type SubscriptionStatus, Unavailable } from "turnpike/protocol";

export interface MeteredSubscription {
  cap: bigint;
  spent: bigint;
  debits: number;
  paidThroughSec: number;
  status: SubscriptionStatus;
  /** what the wallet can still pay */
  funds: bigint;
  /** the next debits fail with this */
  fault: ErrorCode | undefined;
  rekeyedTo: Hex | undefined;
}

export interface Debited extends DebitItem {
  readonly payload: string;
}

export const idHashOf = (n: number): Hex => `0x${n.toString(16).padStart(64, "0")}`;

export class MeteredChain {
  readonly subscriptions = new Map<Hex, MeteredSubscription>();
  /** the log: every debit that was collected */
  readonly debited: Debited[] = [];
  /** submitted, not landed */
  readonly mempool: string[] = [];
  readonly outcomes = new Map<string, { results: DebitResult[]; blockNumber: number }>();
  readonly submitted: string[] = [];
  /** every payload that was ever made, in order */
  readonly prepared: string[] = [];
  block = 100;
  /** the newest finalised block; undefined: nodes do not say */
  finalized: number | undefined;
  isDown = false;
  /** land at submission, as a local chain does */
  autoLand = true;
  /** simulation finds nothing wrong, so that faults show only on chain */
  blindSimulation = false;
  private nonce = 0;

  subscribe(n: number, given: Partial<MeteredSubscription> = {}): Hex {
    const idHash = idHashOf(n);
    this.subscriptions.set(idHash, {
      cap: 1_000n,
      spent: 0n,
      debits: 0,
      paidThroughSec: 10_000,
      status: "ACTIVE",
      funds: 10n ** 30n,
      fault: undefined,
      rekeyedTo: undefined,
      ...given,
    });
    return idHash;
  }

  of(idHash: Hex): MeteredSubscription {
    const subscription = this.subscriptions.get(idHash);
    if (subscription === undefined) throw new TypeError(`no subscription ${idHash}`);
    return subscription;
  }

  facts(idHash: Hex) {
    const { cap, spent, debits, paidThroughSec } = this.of(idHash);
    return { cap, spent, debits, paidThroughSec, version: 0, blockNumber: this.block };
  }

  renew(idHash: Hex): void {
    const subscription = this.of(idHash);
    subscription.paidThroughSec += 10_000;
    subscription.spent = 0n;
    this.block++;
  }

  rekey(idHash: Hex, to: Hex): void {
    const subscription = this.of(idHash);
    this.subscriptions.set(to, { ...subscription });
    Object.assign(subscription, { status: "CANCELLED", rekeyedTo: to });
    this.block++;
  }

  sumDebited(idHash?: Hex): bigint {
    return this.debited.filter((one) => !idHash || one.idHash === idHash).reduce((sum, { amount }) => sum + amount, 0n);
  }

  land(): void {
    for (const payload of this.mempool.splice(0)) {
      const nonce = Number(payload.split(":")[0]);
      if (nonce !== this.nonce) continue;
      this.nonce++;
      this.block++;
      const results = itemsOf(payload).map((item) => this.debit(item, payload));
      this.outcomes.set(payload, { results, blockNumber: this.block });
    }
  }

  /** A transaction of the same key that this lane never made: the nonce is gone. */
  stealNonce(): void {
    this.nonce++;
    this.mempool.length = 0;
  }

  readonly states: MeterStates = {
    read: async (idHashes) => {
      this.requireUp();
      return idHashes.map(
        (idHash): MeteredState => ({ idHash, status: this.of(idHash).status, ...this.facts(idHash) }),
      );
    },
    rekeyedTo: async (idHash) => {
      this.requireUp();
      return this.of(idHash).rekeyedTo;
    },
    isRemoved: async (idHash, sinceBlock) => {
      const { finalized = 0 } = this;
      return finalized >= sinceBlock && this.of(idHash).status === "NONE";
    },
  };

  readonly sender: DebitSender = {
    prepare: async (items) => {
      this.requireUp();
      const judged = items.map((item) => ({ item, reason: this.blindSimulation ? undefined : this.judge(item) }));
      const accepted = judged.filter(({ reason }) => reason === undefined).map(({ item }) => item);
      const refused = judged.flatMap(({ item, reason }) => (reason === undefined ? [] : [{ item, reason }]));
      const payload = accepted.length === 0 ? undefined : `${this.nonce}:${this.prepared.length}:${textOf(accepted)}`;
      if (payload !== undefined) this.prepared.push(payload);
      return { items: accepted, refused, payload };
    },
    submit: async (payloads) => {
      this.requireUp();
      for (const payload of payloads) {
        this.submitted.push(payload);
        if (!this.outcomes.has(payload) && !this.mempool.includes(payload)) this.mempool.push(payload);
      }
      if (this.autoLand) this.land();
    },
    outcome: async (items, payloads): Promise<DebitOutcome> => {
      this.requireUp();
      for (const payload of payloads) {
        const landed = this.outcomes.get(payload);
        if (landed !== undefined) return { kind: "final", ...landed };
      }
      const nonce = Number(payloads[0]?.split(":")[0]);
      if (nonce >= this.nonce) return { kind: "pending" };
      return { kind: "final", results: items.map(() => ({ kind: "void" })) };
    },
    replace: async () => undefined,
  };

  private requireUp(): void {
    if (this.isDown) throw new Unavailable("the test's chain is down");
  }

  private judge({ idHash, amount, index }: DebitItem): ErrorCode | undefined {
    const subscription = this.of(idHash);
    if (subscription.status !== "ACTIVE") return "SubscriptionNotActive";
    if (subscription.fault !== undefined) return subscription.fault;
    if (index !== subscription.debits) return "StaleDebit";
    if (subscription.spent + amount > subscription.cap) return "AllowanceExhausted";
    if (amount > subscription.funds) return "InsufficientFunds";
    return undefined;
  }

  private debit(item: DebitItem, payload: string): DebitResult {
    const reason = this.judge(item);
    if (reason !== undefined) return { kind: "failed", reason };
    const subscription = this.of(item.idHash);
    subscription.spent += item.amount;
    subscription.funds -= item.amount;
    subscription.debits++;
    this.debited.push({ ...item, payload });
    return { kind: "settled" };
  }
}

const textOf = (items: readonly DebitItem[]): string =>
  JSON.stringify(items.map(({ idHash, amount, index }) => [idHash, amount.toString(), index]));

function itemsOf(payload: string): DebitItem[] {
  const text = payload.slice(payload.indexOf(":", payload.indexOf(":") + 1) + 1);
  return (JSON.parse(text) as [Hex, string, number][]).map(([idHash, amount, index]) => ({
    idHash,
    amount: BigInt(amount),
    index,
  }));
}
