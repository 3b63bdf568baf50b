/**
 * Counts payments that cost gas and moved nothing, and refuses payers and payees with too many of them. The counts are
 * in the database: the process that sends a payment often does not accept the next one.
 */
import { sql } from "kysely";
import type { TurnpikeError } from "turnpike/protocol";
import type { Db } from "../db/open";
import { databaseNowMs } from "../db/sql";
import type { PaymentRow } from "../db/tables/payments";
import type { Party } from "../lib/fair-shares";
import { refusal } from "./payment-request";

export interface FailedSpendLimiter {
  add(payment: Pick<PaymentRow, "payer" | "pay_to">): Promise<void>;
  /** Loads who is refused, at most once a second. */
  refresh(): Promise<void>;
  refusalOf(party: Party): TurnpikeError | undefined;
}

interface Options {
  readonly db: Db;
  readonly chainId: number;
  /** failed payments within an hour */
  readonly perPayer: number;
  readonly perPayee: number;
  readonly monotonicMs: () => number;
}

const HOUR_MS = 60 * 60 * 1_000;

const REFRESH_MS = 1_000;

export function createFailedSpendLimiter({
  db,
  chainId,
  perPayer,
  perPayee,
  monotonicMs,
}: Options): FailedSpendLimiter {
  let payers: ReadonlySet<string> = new Set();
  let payees: ReadonlySet<string> = new Set();
  let refreshedAtMs = Number.NEGATIVE_INFINITY;

  async function refresh(): Promise<void> {
    if (monotonicMs() - refreshedAtMs < REFRESH_MS) return;
    [payers, payees] = await Promise.all([above("payer", perPayer), above("pay_to", perPayee)]);
    refreshedAtMs = monotonicMs();
  }

  async function above(party: "payer" | "pay_to", limit: number): Promise<Set<string>> {
    const rows = await db
      .selectFrom("failed_spends")
      .select(`${party} as account`)
      .where("chain_id", "=", chainId)
      .where("at_ms", ">", sql<number>`${databaseNowMs} - ${HOUR_MS}`)
      .groupBy(party)
      .having((eb) => eb.fn.countAll(), ">=", limit)
      .execute();
    return new Set(rows.map(({ account }) => account));
  }

  return {
    async add({ payer, pay_to }) {
      await db
        .deleteFrom("failed_spends")
        .where("chain_id", "=", chainId)
        .where("at_ms", "<=", sql<number>`${databaseNowMs} - ${HOUR_MS}`)
        .execute();
      await db.insertInto("failed_spends").values({ chain_id: chainId, payer, pay_to, at_ms: databaseNowMs }).execute();
      refreshedAtMs = Number.NEGATIVE_INFINITY;
      await refresh();
    },
    refresh,
    refusalOf({ payer, payee }) {
      const isPayer = payers.has(payer);
      if (!isPayer && !payees.has(payee)) return undefined;
      const who = isPayer ? "payer" : "payee";
      return refusal("RateLimited", "losses", `too many payments of this ${who} cost gas and moved nothing`, {
        retryAfterSec: 600,
      });
    },
  };
}
