/**
 * Grants x402 payments to purchases. A payment is reserved for one purchase when it is accepted, and granted to it
 * once, in the database. Every process gives the same answer, and a second purchase never gets the payment of the
 * first.
 */
import { type Selectable, sql } from "kysely";
import { type Address, grantDigest, type Hex, randomBytes, toHex } from "turnpike/protocol";
import type { Db, Store } from "../db/open";
import { bytes, bytesList, bytesOf, databaseNowMs } from "../db/sql";
import type { PaymentGrantsTable } from "../db/tables/payments";
import { coalesce } from "../lib/coalesce";
import type { DigestSigner } from "../relayer/signer";
import type { PaymentRequest, Purchase } from "./payment-request";

/**
 * Result of a grant.
 * `granted`: this purchase has the payment.
 * `taken`: another purchase has it, or has it reserved.
 * `held`: another request is waiting for it at the moment.
 */
export type GrantOutcome = "granted" | "taken" | "held";

interface GrantAsk {
  readonly paymentId: Hex;
  readonly purchase: Purchase;
}

export interface Grants {
  /** Grants a settled payment durably; the answer may be sent afterwards. Idempotent for the same purchase. */
  grant(paymentId: Hex, purchase: Purchase): Promise<GrantOutcome>;
  /** Ends a stock server's hold on a payment that was not granted, so that the next request need not wait. */
  release(paymentId: Hex, purchase: Purchase): Promise<void>;
  /** Returns whether a gate's purchase has an accepted payment. */
  isOwn(paymentId: Hex, purchase: Purchase): Promise<boolean>;
  /** Returns whether a stock server would be refused now: the payment is granted, or a gate has reserved it. */
  isTaken(paymentId: Hex): Promise<boolean>;
}

export interface SignedGrant {
  readonly facilitator: Address;
  readonly signature: Hex;
}

/** Creates a purchase for a stock server, which names none. It lasts as long as one request. */
export const purchaseOfServer = (): Purchase => ({ grantId: toHex(randomBytes(32)), isGate: false });

const MAX_GRANTED_TOGETHER = 250;

export function createGrants(store: Store, chainId: number): Grants {
  const rowsOf = (ids: readonly string[]) =>
    store.db
      .selectFrom("payment_grants")
      .selectAll()
      .where("chain_id", "=", chainId)
      .where(sql<boolean>`payment_id = any(${bytesList(ids)})`)
      .execute();

  const grant = coalesce<GrantAsk, GrantOutcome>({
    maxItems: MAX_GRANTED_TOGETHER,
    maxParallel: store.kind === "postgres" ? 2 : 1,
    async run(asks) {
      const granted = await grantAll(store.db, chainId, asks);
      const isMine = ({ paymentId, purchase }: GrantAsk) => granted.get(paymentId) === purchase.grantId;
      const missed = asks.filter((ask) => !isMine(ask));
      const rows = missed.length === 0 ? [] : await rowsOf(missed.map(({ paymentId }) => paymentId));
      const byId = new Map(rows.map((row) => [row.payment_id as string, row]));
      return asks.map((ask) => (isMine(ask) ? "granted" : isOver(byId.get(ask.paymentId)) ? "taken" : "held"));
    },
  });

  return {
    grant: (paymentId, purchase) => grant({ paymentId, purchase }),
    async release(paymentId, { grantId, isGate }) {
      if (isGate) return;
      await store.db
        .updateTable("payment_grants")
        .set({ held_until_ms: 0 })
        .where("chain_id", "=", chainId)
        .where("payment_id", "=", bytes(paymentId))
        .where("grant_id", "=", bytes(grantId))
        .where("granted_at_ms", "is", null)
        .execute();
    },
    async isOwn(paymentId, { grantId, isGate }) {
      const [row] = await rowsOf([paymentId]);
      return isGate && row?.is_gate === true && row.grant_id === grantId;
    },
    async isTaken(paymentId) {
      const [row] = await rowsOf([paymentId]);
      return isOver(row);
    },
  };
}

/** No row: a release without grants accepted the payment, so its purchase is unknown. */
const isOver = (row: Selectable<PaymentGrantsTable> | undefined): boolean =>
  row === undefined || row.granted_at_ms !== null || row.is_gate;

/**
 * Locks rows in the order of their ids, so that two processes cannot deadlock.
 * @returns the grant id of each payment that this statement granted
 */
async function grantAll(db: Db, chainId: number, asks: readonly GrantAsk[]): Promise<Map<string, string>> {
  const asked = asks.map(({ paymentId, purchase }) => ({
    payment_id: paymentId,
    grant_id: purchase.grantId,
    is_gate: purchase.isGate,
  }));
  const { rows } = await sql<{ payment_id: string; grant_id: string }>`
    with asked as (
      select ${bytesOf("payment_id")} as payment_id, ${bytesOf("grant_id")} as grant_id, is_gate
      from json_to_recordset(${JSON.stringify(asked)}::json) as x(payment_id text, grant_id text, is_gate boolean)),
    locked as materialized (
      select g.payment_id from payment_grants g
      where g.chain_id = ${chainId}::bigint and g.payment_id = any(${bytesList(asked.map((ask) => ask.payment_id))})
      order by g.payment_id for update)
    update payment_grants g
    set grant_id = a.grant_id, is_gate = a.is_gate, granted_at_ms = coalesce(g.granted_at_ms, ${databaseNowMs})
    from locked l, asked a
    where g.chain_id = ${chainId}::bigint and g.payment_id = l.payment_id and a.payment_id = g.payment_id
      and ((g.grant_id = a.grant_id and g.is_gate = a.is_gate)
        or (not g.is_gate and g.granted_at_ms is null and g.held_until_ms <= ${databaseNowMs}))
    returning g.payment_id, g.grant_id`.execute(db);
  return new Map(rows.map((row) => [row.payment_id, row.grant_id]));
}

/**
 * Signs the grant on which a gate serves a response.
 * @throws Unavailable when a remote key's service does not answer
 */
export async function signGrant(
  { paymentId, token, authorization, resourceHash }: PaymentRequest,
  { grantId, chainId, transaction }: { readonly grantId: Hex; readonly chainId: number; readonly transaction: Hex },
  signer: DigestSigner,
): Promise<SignedGrant> {
  const facilitator = signer.address;
  const { to: payTo, value: amount } = authorization;
  const facts = { chainId, token: token.address, paymentId, resourceHash, payTo, amount, transaction, grantId };
  return { facilitator, signature: await signer.signDigest(grantDigest({ ...facts, facilitator })) };
}
