/**
 * Stores the plan and the subscription of each refund of a debit or charge, and sums refunds by plan and payer. Fills
 * them from the events: the id of what was refunded is a hash, so each charge of the same payer and amount is tried.
 */
import { type Kysely, sql } from "kysely";
import { type Address, type Hex, type RefundTarget, refundedIdOf } from "turnpike/protocol";
import type { Migration } from "./migration";

const TARGETS = `refunds r join refunded d on d.chain_id = r.chain_id and d.refunded_id = r.refunded_id`;

/** Settled refunds whose event retention has deleted: those before the highest block of a deleted event. */
const PRUNED = `select p.chain_id, d.provider, p.token, p.pay_to as payer, p.amount, d.plan_id, p.block_time as at
  from ${TARGETS} join payments p on p.chain_id = r.chain_id and p.payment_id = r.payment_id
  where p.door = 'refund' and p.state = 'settled'
    and p.block_number <= (select position from cursors c where c.chain_id = p.chain_id and c.name = 'pruned events'' block')
    and not exists (select from events e where e.chain_id = p.chain_id and e.object_id = p.payment_id
      and e.type = 'refund.settled' and not e.reverted)`;

const PUBLISHED = `select e.chain_id, e.provider, e.payload->>'token' as token, e.payer,
    (e.payload->>'amount')::numeric as amount, e.payload->>'planId' as plan_id, e.block_time as at
  from events e where e.type = 'refund.settled' and not e.reverted and e.provider is not null and e.payer is not null`;

const payers = (table: string, refunds: string) => `insert into ${table} as x
  (chain_id, provider, token, payer, count, amount, refunds, refunded)
  select chain_id, provider, token, payer, 0, 0, count(*), sum(amount) from (${refunds}) s group by 1, 2, 3, 4
  on conflict (chain_id, provider, token, payer)
  do update set refunds = x.refunds + excluded.refunds, refunded = x.refunded + excluded.refunded`;

const AFTER_PLANS_ARE_KNOWN = [
  // What a webhook or the feed says of them from now on, and what the sums are counted from.
  `update events e set payload = e.payload || jsonb_build_object('planId', d.plan_id, 'idHash', d.id_hash)
    from ${TARGETS} where e.chain_id = r.chain_id and e.object_id = r.payment_id and e.type like 'refund.%'
      and d.plan_id is not null`,
  payers("rollup_payers", `${PUBLISHED} union all ${PRUNED}`),
  payers("pruned_payers", PRUNED),
  `insert into pruned_plans select chain_id, provider, at - at % 86400, plan_id, 'refund', count(*), sum(amount)
    from (${PRUNED}) s where plan_id is not null group by 1, 2, 3, 4`,
  `insert into rollup_provider_plans
    select s.chain_id, s.provider, g.grain, s.at - s.at % g.grain, s.plan_id, 'refund', count(*), sum(s.amount)
    from (${PUBLISHED} union all ${PRUNED}) s
    join plans p on p.chain_id = s.chain_id and p.plan_id = s.plan_id and p.token = s.token
    cross join (values (86400), (604800), (2419200)) g (grain) group by 1, 2, 3, 4, 5`,
];

interface Candidate {
  readonly chain_id: number;
  readonly turnpike: Address;
  readonly refunded_id: string;
  readonly id_hash: Hex;
  readonly plan_id: string;
  readonly debit_index: string | null;
  readonly version: string;
  readonly paid_through: string;
}

async function findPlans(tx: Kysely<unknown>): Promise<void> {
  const { rows } = await sql<Candidate>`
    select d.chain_id, c.turnpike, d.refunded_id, e.object_id as id_hash, e.payload->>'planId' as plan_id,
      case when d.kind = 'debit' then e.payload->>'index' end as debit_index, e.payload->>'version' as version,
      e.payload->>'paidThrough' as paid_through
    from refunded d join chain_contracts c on c.chain_id = d.chain_id
    join events e on e.chain_id = d.chain_id and lower(e.payer) = lower(d.payer)
      and (e.type = 'allowance.debited') = (d.kind = 'debit')
      and e.type in ('allowance.debited', 'subscription.created', 'subscription.renewed', 'subscription.resumed',
        'subscription.plan_changed')
      and (case when d.kind = 'debit' then e.payload->>'amount' else e.payload->>'charged' end)::numeric = d.amount
    where d.kind <> 'payment'`.execute(tx);
  for (const row of rows) {
    if (refundedIdOf({ chainId: Number(row.chain_id), turnpike: row.turnpike }, targetOf(row)) !== row.refunded_id)
      continue;
    await sql`update refunded set plan_id = ${row.plan_id}, id_hash = ${row.id_hash}
      where chain_id = ${row.chain_id} and refunded_id = ${row.refunded_id}`.execute(tx);
  }
}

function targetOf({ id_hash: idHash, debit_index: index, version, paid_through }: Candidate): RefundTarget {
  if (index !== null) return { type: "debit", idHash, index: Number(index) };
  return { type: "charge", idHash, version: Number(version), paidThrough: Number(paid_through) };
}

/** Events that are stored and not published yet get their plan, too: they are counted when they are published. */
async function completeStaged(tx: Kysely<unknown>): Promise<void> {
  const { rows: staged } = await sql<{ place: number; chain_id: number; drafts: string }>`
    select place, chain_id, drafts from staged_events where drafts like '%"refund.%'`.execute(tx);
  const { rows: plans } = await sql<{ chain_id: number; payment_id: string; plan_id: string; id_hash: string }>`
    select r.chain_id, r.payment_id, d.plan_id, d.id_hash from ${sql.raw(TARGETS)} where d.plan_id is not null`.execute(
    tx,
  );
  const planOf = new Map(plans.map((row) => [`${row.chain_id} ${row.payment_id}`, row]));
  for (const { place, chain_id: chainId, drafts } of staged) {
    const completed = (JSON.parse(drafts) as { objectId: string; payload: object }[]).map((draft) => {
      const plan = planOf.get(`${chainId} ${draft.objectId}`);
      return plan ? { ...draft, payload: { ...draft.payload, planId: plan.plan_id, idHash: plan.id_hash } } : draft;
    });
    await sql`update staged_events set drafts = ${JSON.stringify(completed)} where place = ${place}`.execute(tx);
  }
}

export const refundsByPlan: Migration = {
  id: "570-refunds-by-plan",
  // A process of the release before would settle refunds without their plan, and leave them out of these sums.
  isBreaking: true,
  statements: [
    `alter table refunded add column plan_id text`,
    `alter table refunded add column id_hash text`,
    ...["rollup_payers", "pruned_payers"].flatMap((table) => [
      `alter table ${table} add column refunds bigint not null default 0`,
      `alter table ${table} add column refunded numeric(78,0) not null default 0`,
    ]),
    `create table pruned_plans (
      chain_id bigint not null, provider text not null, bucket bigint not null, plan_id text not null,
      scheme text not null, count bigint not null, amount numeric(78,0) not null,
      primary key (chain_id, plan_id, bucket, scheme, provider))`,
  ],
  async fill(tx) {
    await findPlans(tx);
    await completeStaged(tx);
    for (const statement of AFTER_PLANS_ARE_KNOWN) await sql.raw(statement).execute(tx);
  },
};
