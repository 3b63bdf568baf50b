/**
 * Adds periods in months, ends, scheduled changes, rights, and payees that move. The contracts of this release emit
 * other events than the ones before, and planIds are bound to the contract: no row needs another value than the default.
 */
import type { Migration } from "./migration";

/** Rows of reverted blocks are restored from their text, which has no default for a column that it lacks. */
const restored = (table: string, columns: string): string =>
  `update undo set before = '${columns}'::jsonb || before where table_name = '${table}' and before is not null`;

export const terms: Migration = {
  id: "450-terms",
  // The release before reads a period in months as one in seconds, and tries to renew what has ended.
  isBreaking: true,
  statements: [
    `alter table plans add column months int not null default 0`,
    `alter table plans add column first_provider text`,
    `alter table plans add column first_pay_to text`,
    `alter table plans add column proposed_pay_to text`,
    `alter table plans add column pay_to_effective_at bigint`,
    restored("plans", `{"months": 0}`),
    `alter table operators add column rights smallint not null default 0`,
    `update operators set rights = 1 where allowed`,
    restored("operators", `{"rights": 0}`),
    `update undo set before = before || '{"rights": 1}' where table_name = 'operators' and before->>'allowed' = 'true'`,
    `alter table operators drop column allowed`,
    `alter table subscriptions add column anchor_day smallint not null default 0`,
    `alter table subscriptions add column until bigint not null default 0`,
    `alter table subscriptions add column next_plan_id text`,
    `alter table subscriptions add column intro boolean not null default false`,
    restored("subscriptions", `{"anchor_day": 0, "until": 0, "intro": false}`),
    // Few records have an end: these are found without reading the others.
    `create index subscriptions_limited on subscriptions (chain_id, paid_through) include (plan_id, until)
      where until <> 0 and not ending and not cancelled and not paused`,
    `drop index subscriptions_ends`,
    `create index subscriptions_ends on subscriptions (chain_id, ending, paid_through) include (plan_id, until)
      where not cancelled and not paused`,
  ],
};
