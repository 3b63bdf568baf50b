/**
 * Keeps the agent's view of its ledger: one atomic budget over everything that spends from it, and locks on what is in
 * progress. Agents with the same ledger store share one view. Knows no network and no wallet.
 */
import { type Address, type Hex, PolicyRefused, paymentProofSchema, sameAddress } from "../../protocol";
import { DAY_SEC } from "../../protocol/periods";
import type { Ledger, LedgerRecord, PaymentEntry, RootEntry, SpendEntry, SubscriptionEntry } from "./ledger-store";

export interface BudgetLimits {
  readonly perDay: bigint;
  readonly perPayee: bigint | undefined;
}

/** What is to be spent; `amount` in base units as a decimal string, `atSec` in unix seconds. */
export type WantedSpend = Pick<SpendEntry, "amount" | "atSec" | "payTo"> & { readonly id?: string };

export interface Purchase {
  readonly payer: Address;
  readonly method: string;
  readonly resource: string;
  readonly bodyHash: string | undefined;
  readonly key: string | undefined;
}

export class AgentLedger {
  readonly #store: Ledger;
  readonly #payments = new Map<Hex, PaymentEntry>();
  readonly #spends = new Map<string, SpendEntry>();
  readonly #subscriptions = new Map<Hex, SubscriptionEntry>();
  readonly #roots = new Map<string, RootEntry>();
  readonly #inWork = new Set<string>();
  /** records that the store did not take, under type and id */
  readonly #unsaved = new Map<string, LedgerRecord>();
  readonly #queues = new Map<string, Promise<unknown>>();
  #users = 0;

  private constructor(store: Ledger) {
    this.#store = store;
  }

  static async open(store: Ledger): Promise<AgentLedger> {
    const ledger = new AgentLedger(store);
    for (const record of await store.load()) ledger.#set(withoutDamagedProof(record));
    // What was reserved and never recorded as signed was never sent: the process ended between the two.
    for (const entry of [...ledger.#payments.values()]) {
      if (entry.state === "reserved") await ledger.put({ ...entry, state: "released" });
    }
    return ledger;
  }

  /**
   * Reserves from the budget in the same turn of the event loop, so that parallel calls never spend the same amount. One
   * id counts once, with the largest amount that it has reserved.
   * @returns the entry as it is kept
   * @throws PolicyRefused
   */
  async reserve<E extends PaymentEntry | SpendEntry>(wanted: E, limits: BudgetLimits): Promise<E> {
    const before = wanted.type === "spend" ? this.#spends.get(wanted.id) : undefined;
    const isLarger = before?.state === "held" && BigInt(before.amount) > BigInt(wanted.amount);
    const entry = isLarger ? { ...wanted, amount: before.amount } : wanted;
    this.requireBudget(entry, limits);
    await this.put(entry);
    return entry;
  }

  /**
   * Judges whether the budget has an amount left, and reserves nothing.
   * @param wanted `id`: what this entry has reserved already does not count
   * @throws PolicyRefused
   */
  requireBudget(wanted: WantedSpend, { perDay, perPayee }: BudgetLimits): void {
    const amount = BigInt(wanted.amount);
    const counted = { sinceSec: wanted.atSec - DAY_SEC, ...(wanted.id !== undefined && { except: wanted.id }) };
    const spent = this.spentSince(counted);
    if (spent + amount > perDay) throw overBudget("per_day", spent, amount, perDay);
    if (perPayee === undefined) return;
    const toPayee = this.spentSince({ ...counted, payee: wanted.payTo });
    if (toPayee + amount > perPayee) throw overBudget("per_payee", toPayee, amount, perPayee);
  }

  /** Returns what counts against the budget since a time, base units. */
  spentSince(counted: { readonly sinceSec: number; readonly except?: string; readonly payee?: Address }): bigint {
    const { sinceSec, except, payee } = counted;
    let sum = 0n;
    for (const entry of [...this.#payments.values(), ...this.#spends.values()]) {
      if (entry.state === "released" || entry.atSec <= sinceSec || entry.id === except) continue;
      if (payee !== undefined && !sameAddress(entry.payTo, payee)) continue;
      sum += countedAmount(entry);
    }
    return sum;
  }

  hasPaid(payee: Address): boolean {
    return [...this.#payments.values(), ...this.#spends.values()].some(
      (entry) => entry.state !== "released" && sameAddress(entry.payTo, payee),
    );
  }

  async put(record: LedgerRecord): Promise<void> {
    const name = `${record.type}:${record.id}`;
    this.#set(record);
    this.#unsaved.set(name, record);
    await this.#store.append(record);
    if (this.#unsaved.get(name) === record) this.#unsaved.delete(name);
  }

  /**
   * Appends what the store did not take of a record. To be called before anything that an earlier call has signed is
   * sent: after a crash nobody would know of it, and another would be signed.
   */
  async requireSaved({ type, id }: Pick<LedgerRecord, "type" | "id">): Promise<void> {
    const record = this.#unsaved.get(`${type}:${id}`);
    if (record) await this.put(record);
  }

  payment(id: Hex): PaymentEntry | undefined {
    return this.#payments.get(id);
  }

  payments(): readonly PaymentEntry[] {
    return [...this.#payments.values()];
  }

  /**
   * Locks an earlier payment for exactly this purchase that may have moved money, and that no other call has locked. A
   * purchase with a key is found forever; one without only until it is known to be served.
   */
  lockUnfinished(purchase: Purchase): PaymentEntry | undefined {
    for (const entry of this.#payments.values()) {
      const isOpen = entry.state === "signed" || entry.state === "settled";
      const isKept = entry.state === "served" && (entry.proof ?? entry.header ?? entry.signedPayment) !== undefined;
      if (!isOpen && !(isKept && purchase.key !== undefined)) continue;
      if (!isSamePurchase(entry, purchase) || !this.lock(entry.id)) continue;
      return entry;
    }
    return undefined;
  }

  /** Returns whether the purchase's key has paid, or may have paid, for another body. */
  isOfAnotherBody(purchase: Purchase): boolean {
    return this.payments().some(
      (entry) => entry.state !== "released" && isSamePurchase(entry, purchase) && entry.bodyHash !== purchase.bodyHash,
    );
  }

  /** @returns false when another call has locked it */
  lock(id: string): boolean {
    if (this.#inWork.has(id)) return false;
    this.#inWork.add(id);
    return true;
  }

  unlock(id: string): void {
    this.#inWork.delete(id);
  }

  spends(): readonly SpendEntry[] {
    return [...this.#spends.values()];
  }

  spend(id: string): SpendEntry | undefined {
    return this.#spends.get(id);
  }

  subscription(idHash: Hex): SubscriptionEntry | undefined {
    return this.#subscriptions.get(idHash);
  }

  subscriptions(): readonly SubscriptionEntry[] {
    return [...this.#subscriptions.values()];
  }

  root(id: string): RootEntry | undefined {
    return this.#roots.get(id);
  }

  /** Runs `work` after everything queued under `key` before it has ended. */
  async serialize<T>(key: string, work: () => Promise<T>): Promise<T> {
    const before = this.#queues.get(key) ?? Promise.resolve();
    const mine = before.then(work, work);
    this.#queues.set(
      key,
      mine.catch(() => undefined),
    );
    return mine;
  }

  /** Counts another agent that uses this view. */
  join(): this {
    this.#users++;
    return this;
  }

  /** Closes the store with the last agent that uses it. */
  async close(): Promise<void> {
    if (--this.#users > 0) return;
    openLedgers.delete(this.#store);
    await this.#store.close();
  }

  #set(record: LedgerRecord): void {
    if (record.type === "payment") this.#payments.set(record.id, record);
    else if (record.type === "spend") this.#spends.set(record.id, record);
    else if (record.type === "subscription") this.#subscriptions.set(record.id, record);
    else this.#roots.set(record.id, record);
  }
}

/** Returns what of an entry counts against the budget, base units: its proven charge or else its amount, less refunds. */
function countedAmount(entry: PaymentEntry | SpendEntry): bigint {
  const charged = entry.type === "payment" ? entry.charged : undefined;
  const rest = BigInt(charged ?? entry.amount) - refundedAmount(entry);
  return rest > 0n ? rest : 0n;
}

/** Returns the sum of an entry's proven refunds, base units. */
export function refundedAmount({ refunds = {} }: PaymentEntry | SpendEntry): bigint {
  return Object.values(refunds).reduce((sum, refunded) => sum + BigInt(refunded), 0n);
}

const openLedgers = new WeakMap<Ledger, Promise<AgentLedger>>();

/** Opens the one view of a ledger store, however many agents share it. Each of them closes it once. */
export async function openLedger(store: Ledger): Promise<AgentLedger> {
  const opening = openLedgers.get(store) ?? AgentLedger.open(store);
  openLedgers.set(store, opening);
  try {
    return (await opening).join();
  } catch (error) {
    openLedgers.delete(store);
    throw error;
  }
}

/**
 * Drops a proof that is no proof: a custom store may return unchecked records; the authorization fetches the proof
 * again.
 */
function withoutDamagedProof(record: LedgerRecord): LedgerRecord {
  if (record.type !== "payment" || record.proof === undefined) return record;
  if (paymentProofSchema.safeParse(record.proof).success) return record;
  const { proof: _damaged, ...kept } = record;
  return kept;
}

function isSamePurchase(entry: PaymentEntry, purchase: Purchase): boolean {
  return (
    sameAddress(entry.payer, purchase.payer) &&
    entry.method === purchase.method &&
    entry.resource === purchase.resource &&
    entry.key === purchase.key &&
    (purchase.key !== undefined || entry.bodyHash === purchase.bodyHash)
  );
}

function overBudget(reason: string, spent: bigint, amount: bigint, limit: bigint): PolicyRefused {
  return new PolicyRefused(`The budget is spent: ${spent} of ${limit} are taken, and this would add ${amount}.`, {
    reason,
    details: { spent: spent.toString(), amount: amount.toString(), limit: limit.toString() },
  });
}
