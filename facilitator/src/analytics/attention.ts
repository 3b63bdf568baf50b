/** Reads what a provider should look at now: of the chain and of payments. */
import { sql } from "kysely";
import type { AttentionWire } from "turnpike/facilitator";
import type { Address, Hex } from "turnpike/protocol";
import { databaseNowMs } from "../db/sql";
import { DAY_SEC } from "../lib/durations";
import { IS_RENEWED } from "../subscriptions/renewals/at-risk";
import { UNDER_WAY } from "./lists";
import type { AnalyticsOptions } from "./ranges";

export interface Attention {
  attention(provider: Address): Promise<Omit<AttentionWire, "endpoints">>;
}

const AHEAD_SEC = 7 * DAY_SEC;

/** A payment takes a few blocks. */
const STUCK_AFTER_MS = 60_000;

const MOST_STUCK = 20;

interface Renewals {
  readonly token: Address;
  readonly count: number;
  readonly amount: string;
  readonly first: number;
}

export function createAttention({ db, config, clock }: AnalyticsOptions): Attention {
  const { chainId } = config;
  const tokens = config.tokens.map(({ address }) => address);

  /** Subscriptions `s` of plans `p` that will be renewed at their present plan's price, unless it changes. */
  const renewed = (provider: Address) => sql`plans p
    join subscriptions s on s.chain_id = p.chain_id and s.plan_id = p.plan_id
    where p.chain_id = ${chainId} and p.provider = ${provider} and p.token in (${sql.join(tokens)})
      and not s.cancelled and not s.paused and not s.ending and s.moved_to is null
      and ${IS_RENEWED}`;

  const sums = sql`p.token, count(*)::int8 as count, sum(p.amount)::text as amount, min(s.paid_through)::int8 as first`;

  /** A renewal that was not tried yet is only due. */
  async function pastDue(provider: Address, nowSec: number): Promise<readonly Renewals[]> {
    const { rows } = await sql<Renewals>`select ${sums} from ${renewed(provider)}
      and s.paid_through <= ${nowSec} and s.paid_through + p.grace_sec > ${nowSec}
      and exists (select from renewal_due d where d.chain_id = s.chain_id and d.id_hash = s.id_hash
        and d.paid_through = s.paid_through and d.attempts > 0) group by p.token`.execute(db);
    return rows;
  }

  async function atRisk(provider: Address, nowSec: number): Promise<readonly Renewals[]> {
    const { rows } = await sql<Renewals>`select ${sums} from ${renewed(provider)}
      and s.paid_through > ${nowSec} and s.paid_through <= ${nowSec + AHEAD_SEC}
      and exists (select from events e where e.chain_id = s.chain_id and e.object_id = s.id_hash
        and e.type = 'subscription.renewal_at_risk' and not e.reverted
        and (e.payload->>'dueAt')::bigint = s.paid_through) group by p.token`.execute(db);
    return rows;
  }

  async function stuck(provider: Address): Promise<AttentionWire["stuck"]> {
    const { rows } = await sql<Stuck>`
      select payment_id, payer, token, amount::text, accepted_at_ms / 1000 as accepted_at, state, attempts from payments p
      where chain_id = ${chainId} and pay_to = ${provider} and p.door <> 'refund' and ${UNDER_WAY}
        and accepted_at_ms < ${databaseNowMs} - ${STUCK_AFTER_MS}::bigint
      order by accepted_at_ms, payment_id limit ${MOST_STUCK}`.execute(db);
    return rows.map(({ payment_id: paymentId, accepted_at: acceptedAt, ...row }) => ({
      paymentId,
      acceptedAt,
      ...row,
    }));
  }

  return {
    async attention(provider) {
      const nowSec = clock.nowSec();
      const [late, risky, payments] = await Promise.all([
        pastDue(provider, nowSec),
        atRisk(provider, nowSec),
        stuck(provider),
      ]);
      return {
        pastDue: late.map(({ first: since, ...sum }) => ({ ...sum, since })),
        atRisk: risky.map(({ first: firstAt, ...sum }) => ({ ...sum, firstAt })),
        stuck: payments,
      };
    },
  };
}

interface Stuck {
  readonly payment_id: Hex;
  readonly payer: Address;
  readonly token: Address;
  readonly amount: string;
  readonly accepted_at: number;
  readonly state: AttentionWire["stuck"][number]["state"];
  readonly attempts: number;
}
