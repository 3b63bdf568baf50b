/**
 * Maintains the holds of stock servers' requests on the payments that they wait for. A hold ends with its request: when
 * a process dies its holds lapse, and soon the next request is granted the payment. A lapsed hold costs a live request
 * at most its turn: one statement on the row (`grantAll`) decides who is granted.
 */
import { sql } from "kysely";
import type { Logger } from "pino";
import type { Hex } from "turnpike/protocol";
import type { Store } from "../db/open";
import { bytesList, databaseNowMs } from "../db/sql";
import type { Purchase } from "./payment-request";

/** How long a hold outlives the process of its request. A few renewals may fail before it lapses. */
export const HOLD_MS = 10_000;

const RENEW_MS = 3_000;

/** Longer than any request lasts: a hold that was never ended must not be renewed for ever. */
const MAX_REQUEST_MS = 120_000;

export interface Holds {
  /** Renews the request's hold from now on, if it has one. A gate's hold has no end and is not renewed. */
  begin(paymentId: Hex, purchase: Purchase): void;
  end(purchase: Purchase): void;
  stop(): Promise<void>;
}

export interface HoldsOptions {
  readonly store: Store;
  readonly chainId: number;
  readonly log: Logger;
  readonly monotonicMs: () => number;
}

interface Held {
  readonly paymentId: Hex;
  readonly untilMs: number;
}

export function createHolds({ store, chainId, log, monotonicMs }: HoldsOptions): Holds {
  const open = new Map<Hex, Held>();
  let timer: NodeJS.Timeout | undefined;
  let renewing: Promise<void> = Promise.resolve();

  function schedule(): void {
    if (timer || open.size === 0) return;
    timer = setTimeout(() => {
      renewing = renewAll()
        .catch((error: unknown) => log.warn({ error }, "holds on payments could not be renewed; they are retried"))
        .finally(() => {
          timer = undefined;
          schedule();
        });
    }, RENEW_MS);
    timer.unref();
  }

  async function renewAll(): Promise<void> {
    for (const [grantId, { untilMs }] of open) if (monotonicMs() >= untilMs) open.delete(grantId);
    if (open.size > 0) await renewHolds(store, chainId, open);
  }

  return {
    begin(paymentId, { grantId, isGate }) {
      if (isGate || open.has(grantId)) return;
      open.set(grantId, { paymentId, untilMs: monotonicMs() + MAX_REQUEST_MS });
      schedule();
    },
    end({ grantId }) {
      open.delete(grantId);
    },
    async stop() {
      open.clear();
      await renewing;
      clearTimeout(timer);
    },
  };
}

/**
 * Renews all holds in one statement, in the order of their ids, like `grantAll`. Skips rows that another statement has
 * locked: that grant or release decides. A released hold, whose end is 0, stays released.
 */
export async function renewHolds(
  store: Pick<Store, "db">,
  chainId: number,
  open: ReadonlyMap<Hex, Pick<Held, "paymentId">>,
): Promise<void> {
  const ids = [...open.values()].map(({ paymentId }) => paymentId);
  await sql`
    with held as materialized (
      select g.payment_id, g.grant_id from payment_grants g
      where g.chain_id = ${chainId}::bigint and g.payment_id = any(${bytesList(ids)})
        and g.grant_id = any(${bytesList(open.keys())})
        and not g.is_gate and g.granted_at_ms is null and g.held_until_ms > 0
      order by g.payment_id for update skip locked)
    update payment_grants g set held_until_ms = greatest(g.held_until_ms, ${databaseNowMs} + ${HOLD_MS}::bigint)
    from held where g.chain_id = ${chainId}::bigint and g.payment_id = held.payment_id
      and g.grant_id = held.grant_id`.execute(store.db);
}
