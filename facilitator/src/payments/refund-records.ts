/** What the transfers of a block that are refunds belong to, and how much of it is refunded. */
import { sql } from "kysely";
import type { Db } from "../db/open";
import { idList } from "../db/sql";
import type { PaymentRow, RefundedTable } from "../db/tables/payments";

export interface RefundRecord extends Pick<RefundedTable, "kind" | "provider" | "payer" | "plan_id" | "id_hash"> {
  readonly payment_id: string;
  readonly refunded_id: string;
  readonly refund_index: number;
  readonly paid: string;
  readonly others: string;
}

export class RefundRecords {
  readonly #records: ReadonlyMap<string, RefundRecord>;
  readonly #settled = new Map<string, bigint>();

  constructor(records: readonly RefundRecord[]) {
    this.#records = new Map(records.map((record) => [record.payment_id, record]));
  }

  static async load(db: Db, chainId: number, rows: readonly PaymentRow[]): Promise<RefundRecords> {
    const ids = rows.filter((row) => row.door === "refund").map(({ payment_id: id }) => id);
    if (ids.length === 0) return new RefundRecords([]);
    const { rows: records } = await sql<RefundRecord>`
      select r.payment_id, r.refunded_id, r.refund_index, d.kind, d.provider, d.payer, d.plan_id, d.id_hash, d.amount as paid,
        (select coalesce(sum(p.amount), 0) from refunds o
          join payments p on p.chain_id = o.chain_id and p.payment_id = o.payment_id
          where o.chain_id = r.chain_id and o.refunded_id = r.refunded_id and o.payment_id <> all(${idList(ids)})
            and p.state = 'settled')::text as others
      from refunds r join refunded d on d.chain_id = r.chain_id and d.refunded_id = r.refunded_id
      where r.chain_id = ${chainId}::bigint and r.payment_id = any(${idList(ids)})`.execute(db);
    const loaded = new RefundRecords(records);
    for (const row of rows) if (row.state === "settled") loaded.settled(row);
    return loaded;
  }

  of(paymentId: string): RefundRecord | undefined {
    return this.#records.get(paymentId);
  }

  /** Counts a refund that has settled. */
  settled({ payment_id: id, amount }: PaymentRow): void {
    if (this.#records.has(id)) this.#settled.set(id, BigInt(amount));
  }

  refundedOf({ refunded_id: id, others }: RefundRecord): bigint {
    let sum = BigInt(others);
    for (const record of this.#records.values())
      if (record.refunded_id === id) sum += this.#settled.get(record.payment_id) ?? 0n;
    return sum;
  }
}
