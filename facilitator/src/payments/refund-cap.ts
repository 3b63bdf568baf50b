/**
 * Takes automatic refunds from the daily cap of the account that the provider has named. The account's row is locked
 * until the refund is bound, so that refunds at once never pass the cap.
 */
import { sql } from "kysely";
import { type RefundNaming, refundNamingSchema } from "turnpike/facilitator";
import { type Address, TurnpikeError } from "turnpike/protocol";
import type { z } from "zod";
import type { Db, Tx } from "../db/open";
import { databaseNowMs } from "../db/sql";
import type { RefundAccountsTable } from "../db/tables/payments";
import { chainNowSec } from "./committed";

export interface CappedRefund {
  readonly chainId: number;
  /** The refunded payment takes from the cap once. */
  readonly refundedId: string;
  readonly provider: Address;
  readonly token: Address;
  readonly account: Address;
  readonly amount: bigint;
  /** whether the chain has the refund already: then nothing can be refused any more */
  readonly hasMoved: boolean;
}

const DAY_MS = 86_400_000;

const RETRY_SEC = 3_600;

/**
 * Records an automatic refund in the transaction that binds it.
 * @throws PaymentNotAllowed when the provider has not named the account, or no longer does
 * @throws RateLimited with reason `refund_cap` when the refunds of 24 hours would pass the cap
 */
export async function takeFromCap(tx: Tx, refund: CappedRefund): Promise<void> {
  const { chainId, refundedId, provider, token, account, amount, hasMoved } = refund;
  const { rows } = await sql<RefundAccountsTable & { is_expired: boolean }>`
    select r.*, r.expires_at <= ${chainNowSec(chainId)} as is_expired from refund_accounts r
    where r.chain_id = ${chainId}::bigint and r.provider = ${provider} and r.token = ${token} for update`.execute(tx);
  const named = rows.find((row) => row.account === account);
  if (!hasMoved) {
    if (!named || named.revoked_at_ms !== null || named.is_expired) throw notNamed(provider, token);
    const cap = BigInt(named.daily_cap);
    const used = await usedOfCap(tx, refund, refundedId);
    if (used + amount > cap) {
      throw new TurnpikeError(
        "RateLimited",
        `automatic refunds of ${provider} took ${used} of ${cap} base units within 24 hours: ${amount} are too many`,
        {
          reason: "refund_cap",
          retryAfterSec: RETRY_SEC,
          details: { dailyCap: cap.toString(), used: used.toString() },
        },
      );
    }
  }
  const naming = named ? JSON.stringify(namingOf(named)) : null;
  await sql`
    insert into automatic_refunds as a (chain_id, refunded_id, provider, token, account, amount, accepted_at_ms, naming)
    values (${chainId}::bigint, ${refundedId}, ${provider}, ${token}, ${account}, ${amount.toString()}::numeric,
      ${databaseNowMs}, ${naming})
    on conflict (chain_id, refunded_id) do update set account = excluded.account, amount = excluded.amount,
      accepted_at_ms = excluded.accepted_at_ms, naming = coalesce(excluded.naming, a.naming)`.execute(tx);
}

/** Returns what the automatic refunds of the last 24 hours took of a cap, base units. Failed ones count as well. */
export async function usedOfCap(
  db: Db,
  { chainId, provider, token }: Pick<CappedRefund, "chainId" | "provider" | "token">,
  exceptId = "",
): Promise<bigint> {
  const { rows } = await sql<{ used: string }>`
    select coalesce(sum(a.amount), 0)::text as used from automatic_refunds a
    where a.chain_id = ${chainId}::bigint and a.provider = ${provider} and a.token = ${token}
      and a.refunded_id <> ${exceptId} and a.accepted_at_ms > ${databaseNowMs} - ${DAY_MS}::bigint`.execute(db);
  return BigInt(rows[0]?.used ?? "0");
}

export const notNamed = (provider: Address, token: Address): TurnpikeError =>
  new TurnpikeError(
    "PaymentNotAllowed",
    `${provider} names no account for automatic refunds of ${token} now: post its signed statement to /refund-accounts`,
    { reason: "refund_account" },
  );

/** Returns the account that a payment's automatic refund is paid from, and the statement that named it. */
export async function namedAccountOf(
  db: Db,
  chainId: number,
  paymentId: string,
): Promise<{ readonly account: string; readonly naming: RefundNaming | undefined } | undefined> {
  const row = await db
    .selectFrom("automatic_refunds")
    .select(["account", "naming"])
    .where("chain_id", "=", chainId)
    .where("refunded_id", "=", paymentId)
    .executeTakeFirst();
  const naming = row?.naming ? refundNamingSchema.parse(JSON.parse(row.naming)) : undefined;
  return row && { account: row.account, naming };
}

function namingOf(row: RefundAccountsTable): z.input<typeof refundNamingSchema> {
  const { account, token, daily_cap: dailyCap, version, expires_at: expiresAt, facilitator, signature } = row;
  return { account, token, dailyCap, version, expiresAt, facilitator, signature };
}
