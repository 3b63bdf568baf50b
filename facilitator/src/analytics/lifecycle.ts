/**
 * Counts subscriptions that began, ended and came back, and payments that failed. One reader of the events, so that
 * pages agree.
 */
import { type RawBuilder, sql } from "kysely";
import type { Db } from "../db/open";
import type { Sum } from "./queries";
import type { Range, Scope } from "./ranges";

export interface Lifecycle {
  readonly created: number;
  readonly cancelled: number;
  readonly expired: number;
  /** subscriptions that were cancelled or expired and did not come back */
  readonly ended: number;
  /** They were active before the range, and their subscriber has no later subscription either. */
  readonly lost: number;
}

const BEGINS = sql.raw("'subscription.created', 'subscription.resumed'");

const ENDS = sql.raw("'subscription.cancelled', 'subscription.expired'");

/** Literals, as in the partial index: the planner cannot match parameters to its condition. */
const publishedEvents = ({ chainId, provider }: Scope, { fromSec, toSec }: Range, types: RawBuilder<unknown>) => sql`
  from events where chain_id = ${chainId} and ${provider === undefined ? sql`provider is not null` : sql`provider = ${provider}`}
    and not reverted and type in (${types}) and block_time >= ${fromSec} and block_time < ${toSec}`;

export interface LifecycleQuery {
  readonly scope: Scope;
  readonly range: Range;
  /** whether the service settles other tokens too: the index has no token column, so events are then read in full */
  readonly hasOtherTokens: boolean;
}

export async function lifecycleIn(db: Db, { scope, range, hasOtherTokens }: LifecycleQuery): Promise<Lifecycle> {
  const ofToken = hasOtherTokens ? sql`and payload->>'token' = ${scope.token}` : sql``;
  const { rows } = await sql<Lifecycle>`
    with own as (
      select type, object_id, coalesce(payer, object_id) as payer, provider, seq
      ${publishedEvents(scope, range, sql`${BEGINS}, ${ENDS}`)} ${ofToken}),
    each as (
      select object_id, payer, provider, max(seq) filter (where type in (${ENDS})) as ended,
        coalesce(max(seq) filter (where type in (${BEGINS})), 0) as begun, bool_or(type = 'subscription.created') as is_new,
        count(*) filter (where type = 'subscription.created') as created,
        count(*) filter (where type = 'subscription.cancelled') as cancelled,
        count(*) filter (where type = 'subscription.expired') as expired
      from own group by object_id, payer, provider),
    together as (select *, max(begun) over (partition by payer, provider) as begun_again from each)
    select coalesce(sum(created), 0)::int8 as created, coalesce(sum(cancelled), 0)::int8 as cancelled,
      coalesce(sum(expired), 0)::int8 as expired, (count(*) filter (where ended > begun))::int8 as ended,
      (count(*) filter (where ended > begun_again and not is_new))::int8 as lost
    from together`.execute(db);
  return rows[0] ?? { created: 0, cancelled: 0, expired: 0, ended: 0, lost: 0 };
}

/** One-time payments that were accepted and can never settle. */
export async function failedPaymentsIn(db: Db, scope: Scope, range: Range): Promise<Sum> {
  const { rows } = await sql<{ count: number; amount: string }>`
    select count(*)::int8 as count, coalesce(sum((payload->>'amount')::numeric), 0) as amount
    ${publishedEvents(scope, range, sql.raw("'payment.failed'"))} and payload->>'token' = ${scope.token}`.execute(db);
  return { count: rows[0]?.count ?? 0, amount: BigInt(rows[0]?.amount ?? 0) };
}
