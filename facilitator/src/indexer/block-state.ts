/** The rows that one block's facts speak of, held in memory while the rules change them, with what they were before. */
import type { Selectable } from "kysely";
import type { PaymentRow } from "../store/tables/payments";
import type { OperatorsTable, PlansTable } from "../store/tables/plans";
import type { AllowancesTable, DebitsTable, SubscriptionsTable } from "../store/tables/subscriptions";

export type PlanRow = Selectable<PlansTable>;
export type OperatorRow = Selectable<OperatorsTable>;
export type SubscriptionRow = Selectable<SubscriptionsTable>;
export type AllowanceRow = Selectable<AllowancesTable>;
export type DebitRow = Selectable<DebitsTable>;

/** Rows of one table by key. Values are never edited, only replaced. */
export class RowSet<T extends object> {
  readonly #before = new Map<string, T | undefined>();
  readonly #rows = new Map<string, T>();

  load(key: string, row: T): void {
    this.#rows.set(key, row);
  }

  get(key: string): T | undefined {
    return this.#rows.get(key);
  }

  put(key: string, row: T): void {
    if (!this.#before.has(key)) this.#before.set(key, this.#rows.get(key));
    this.#rows.set(key, row);
  }

  delete(key: string): void {
    if (!this.#before.has(key)) this.#before.set(key, this.#rows.get(key));
    this.#rows.delete(key);
  }

  changes(): { readonly key: string; readonly before: T | undefined; readonly after: T | undefined }[] {
    return [...this.#before].map(([key, before]) => ({ key, before, after: this.#rows.get(key) }));
  }
}

export interface BlockState {
  readonly payments: RowSet<PaymentRow>;
  readonly plans: RowSet<PlanRow>;
  readonly operators: RowSet<OperatorRow>;
  readonly subscriptions: RowSet<SubscriptionRow>;
  readonly allowances: RowSet<AllowanceRow>;
  readonly debits: RowSet<DebitRow>;
}

export function emptyState(): BlockState {
  return {
    payments: new RowSet(),
    plans: new RowSet(),
    operators: new RowSet(),
    subscriptions: new RowSet(),
    allowances: new RowSet(),
    debits: new RowSet(),
  };
}

export const operatorKey = (planId: string, operator: string): string => `${planId}/${operator}`;
export const debitKey = (idHash: string, index: number): string => `${idHash}/${index}`;
