/**
 * Warns of renewals that will fail. Once per horizon before the period ends, it compares the sum of a payer's renewals
 * within the horizon with the payer's balance and allowance. One process runs it; a second one would emit the same
 * events.
 */
import { sql } from "kysely";
import type { Logger } from "pino";
import type { Address, Clock } from "turnpike/protocol";
import type { FacilitatorConfig } from "../../config";
import { moveCursor } from "../../db/cursors";
import { createRoleLease } from "../../db/leases";
import type { Db, Store } from "../../db/open";
import { idList } from "../../db/sql";
import type { EventFeed } from "../../events/feed";
import type { Relayer } from "../../relayer";
import { policyAgainst } from "../policy";
import { emitTimeEvents, type TimeEvent } from "./time-events";
import { DUE_PLAN, type DuePlan, WITH_PLANS } from "./work-list";

export interface RiskWatch {
  /** Checks renewals that entered a horizon since the last run. @throws Unavailable when no node answers */
  check(): Promise<void>;
  stop(): Promise<void>;
}

export interface RiskContext {
  readonly config: FacilitatorConfig;
  readonly store: Store;
  readonly feed: EventFeed;
  readonly relayer: Pick<Relayer, "accounts">;
  /** chain time */
  readonly clock: Clock;
  readonly log: Logger;
}

const DAY_SEC = 86_400;

/** How long before the end of the period the next payment is checked. */
export const HORIZONS_SEC = [3 * DAY_SEC, DAY_SEC] as const;

/** in chain time; warnings are about days */
const EVERY_SEC = 30;

const PAGE = 500;

interface Coming extends DuePlan {
  readonly id_hash: string;
  readonly due_at: number;
  readonly paid_through: number;
  readonly subscriber: string;
}

interface Need {
  readonly subscriber: string;
  readonly token: string;
  readonly required: string;
  readonly renewals: number;
}

/** A record whose end comes first is not renewed. */
export const IS_RENEWED = sql`(s.until = 0 or s.until > s.paid_through)`;

const nameOf = (horizonSec: number): string => `at-risk/${horizonSec}`;

/** Chain time up to which every due warning was emitted; undefined before the first run. */
export async function warnedUntilSec(db: Db, chainId: number): Promise<number | undefined> {
  const rows = await db
    .selectFrom("cursors")
    .select(["name", "position"])
    .where("chain_id", "=", chainId)
    .where("name", "in", HORIZONS_SEC.map(nameOf))
    .execute();
  const positions = new Map(rows.map(({ name, position }) => [name, position]));
  const ends = HORIZONS_SEC.map((horizonSec) => (positions.get(nameOf(horizonSec)) ?? Number.NaN) - horizonSec);
  const first = Math.min(...ends);
  return Number.isNaN(first) ? undefined : first;
}

export function createRiskWatch({ config, store, feed, relayer, clock, log }: RiskContext): RiskWatch {
  const { chainId, turnpike } = config;
  const lease = createRoleLease({ store, chainId, role: "at-risk" });
  let nextSec = 0;

  /** @returns the end of the checked span; on the first run, the end of what is due now */
  async function placeOf(horizonSec: number, nowSec: number): Promise<number> {
    const row = await store.db
      .selectFrom("cursors")
      .select("position")
      .where("chain_id", "=", chainId)
      .where("name", "=", nameOf(horizonSec))
      .executeTakeFirst();
    return row?.position ?? nowSec;
  }

  async function pageAfter(place: Pick<Coming, "due_at" | "id_hash">, untilSec: number, horizonSec: number) {
    const { rows } = await sql<Coming>`
      select d.id_hash, d.due_at, d.paid_through, s.subscriber, ${DUE_PLAN}
      from renewal_due d join subscriptions s on s.chain_id = d.chain_id and s.id_hash = d.id_hash ${WITH_PLANS}
      where d.chain_id = ${chainId}::bigint and not d.is_ready and d.attempts = 0
        and (d.due_at, d.id_hash) > (${place.due_at}::bigint, ${place.id_hash}::text) and d.due_at <= ${untilSec}::bigint
        and p.interval_sec > ${horizonSec}::bigint and ${IS_RENEWED}
      order by d.due_at, d.id_hash limit ${PAGE}::int`.execute(store.db);
    return rows;
  }

  /**
   * Sums, by payer and token, everything that falls due by then, including renewals already past due. Anyone can
   * create a plan in any token: only those of the served rows are asked for funds.
   */
  async function needsOf(served: readonly Coming[], untilSec: number): Promise<Need[]> {
    const payers = new Set(served.map((row) => row.subscriber));
    const tokens = new Set(served.map((row) => row.token));
    const { rows } = await sql<Need>`
      select s.subscriber, p.token, sum(coalesce(n.amount, p.amount))::text as required, count(*)::int as renewals
      from subscriptions s join renewal_due d on d.chain_id = s.chain_id and d.id_hash = s.id_hash ${WITH_PLANS}
      where s.chain_id = ${chainId}::bigint and s.subscriber = any(${idList(payers)})
        and p.token = any(${idList(tokens)}) and d.paid_through <= ${untilSec}::bigint and ${IS_RENEWED}
      group by s.subscriber, p.token`.execute(store.db);
    return rows;
  }

  async function check(page: readonly Coming[], untilSec: number, horizonSec: number): Promise<TimeEvent[]> {
    const served = page.filter((row) => !policyAgainst(row, config));
    if (served.length === 0) return [];
    const needs = await needsOf(served, untilSec);
    const funds = await relayer.accounts.funds(
      needs.map(({ subscriber, token }) => ({
        token: token as Address,
        payer: subscriber as Address,
        spender: turnpike,
      })),
    );
    const warnings = new Map<string, Record<string, unknown>>();
    for (const [index, { subscriber, token, required, renewals }] of needs.entries()) {
      const { balance, approval } = funds[index] ?? { balance: 0n, approval: 0n };
      const needed = BigInt(required);
      const missingFunds = needed > balance ? needed - balance : 0n;
      const missingApproval = needed > approval ? needed - approval : 0n;
      if (missingFunds === 0n && missingApproval === 0n) continue;
      warnings.set(`${subscriber}/${token}`, {
        horizonSec,
        renewals,
        required,
        balance: balance.toString(),
        approval: approval.toString(),
        missingFunds: missingFunds.toString(),
        missingApproval: missingApproval.toString(),
      });
    }
    return served.flatMap((row): TimeEvent[] => {
      const warning = warnings.get(`${row.subscriber}/${row.token}`);
      if (!warning) return [];
      const more = { dueAt: row.paid_through, charge: row.amount, ...warning };
      const type = "subscription.renewal_at_risk";
      return [{ idHash: row.id_hash, paidThroughSec: row.paid_through, type, mark: horizonSec, more }];
    });
  }

  async function checkHorizon(horizonSec: number, nowSec: number): Promise<void> {
    const untilSec = nowSec + horizonSec;
    // A renewal that is due emits its own events.
    let place = { due_at: Math.max(await placeOf(horizonSec, nowSec), nowSec) + 1, id_hash: "" };
    for (;;) {
      const page = await pageAfter(place, untilSec, horizonSec);
      const warnings = await check(page, untilSec, horizonSec);
      const last = page.at(-1);
      const isDone = page.length < PAGE || !last;
      if (last) place = { due_at: last.due_at, id_hash: last.id_hash };
      // The next page can continue within the same second.
      const position = isDone ? untilSec : place.due_at - 1;
      await store.transaction(async (tx) => {
        await emitTimeEvents(tx, { chainId, feed }, warnings, nowSec);
        await moveCursor(tx, { chainId, name: nameOf(horizonSec) }, position);
      });
      if (warnings.length > 0) {
        store.notifier.notify("events");
        log.info({ horizonSec, warned: warnings.length }, "renewals are at risk");
      }
      if (isDone) return;
    }
  }

  return {
    async check() {
      const nowSec = clock.nowSec();
      if (nowSec < nextSec || !(await lease.acquire())) return;
      for (const horizonSec of HORIZONS_SEC) await checkHorizon(horizonSec, nowSec);
      nextSec = nowSec + EVERY_SEC;
    },
    stop: () => lease.release(),
  };
}
