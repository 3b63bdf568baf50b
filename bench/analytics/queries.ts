/** Lists every query of a provider's page and of the operator's page, as the pages send it. */
import type { Address } from "turnpike/protocol";
import type { Analytics } from "../../facilitator/src/analytics";
import type { Db } from "../../facilitator/src/db/open";
import { listEvents } from "../../facilitator/src/events/list";
import { addressOf, CHAIN_ID, DAY_SEC, END_SEC, LARGEST_PROVIDER } from "./fill";

export interface Question {
  readonly name: string;
  readonly page: "provider" | "operator";
  /** @param turn from 0: 0 is the hardest (the largest provider, a year), later ones vary the provider and the range */
  ask(turn: number): Promise<unknown>;
}

const DAYS = [365, 30, 90, 7];
const PAGE = 50;

export function questionsOf(analytics: Analytics, db: Db): Question[] {
  const who = (turn: number) => (turn === 0 ? LARGEST_PROVIDER : addressOf(1 + (turn % 7))) as Address;
  const range = (turn: number) => ({ fromSec: undefined, toSec: undefined, days: DAYS[turn % DAYS.length] ?? 30 });
  // The pages query the hours of a week at most; a client may query all kept hours.
  const week = { fromSec: undefined, toSec: undefined, days: 7 };
  const hours = (turn: number) => ({ fromSec: undefined, toSec: undefined, days: [89, 1, 7, 30][turn % 4] ?? 7 });
  /** somewhere in the year: a page that nobody has read recently */
  const sec = (turn: number) => END_SEC - Math.floor((((50 + turn * 37) % 100) / 100) * 360 * DAY_SEC) - 1;
  const cursor = (time: number) => `${time}.0x${"f".repeat(64)}`;
  const provider = (name: string, ask: Question["ask"]): Question => ({ name, page: "provider", ask });
  const operator = (name: string, ask: Question["ask"]): Question => ({ name, page: "operator", ask });
  return [
    provider("overview", (turn) => analytics.overview(who(turn), range(turn))),
    provider("volume by day", (turn) => analytics.volume(who(turn), { ...range(turn), grain: "day" })),
    provider("volume by hour", (turn) => analytics.volume(who(turn), { ...hours(turn), grain: "hour" })),
    provider("volume by hour, a week", (turn) => analytics.volume(who(turn), { ...week, grain: "hour" })),
    ...(["revenue", "active"] as const).map((sort) =>
      provider(`plans by ${sort}`, (turn) =>
        analytics.plans(who(turn), { ...range(turn), sort, order: "desc", limit: PAGE }),
      ),
    ),
    ...(["paid", "refunds", "net", "payments"] as const).map((sort) =>
      provider(`payers by ${sort}`, (turn) => analytics.payers(who(turn), { sort, order: "desc", limit: PAGE })),
    ),
    provider("payments", (turn) => analytics.payments(who(turn), { limit: PAGE })),
    provider("payments, a later page", (turn) =>
      analytics.payments(who(turn), { limit: PAGE, cursor: cursor(sec(turn) * 1_000) }),
    ),
    provider("payments that failed", (turn) => analytics.payments(who(turn), { limit: PAGE, status: "failed" })),
    provider("payments that are pending", (turn) => analytics.payments(who(turn), { limit: PAGE, status: "pending" })),
    provider("payments of a payer", (turn) =>
      analytics.payments(who(turn), { limit: PAGE, payer: addressOf(1_000_000_001 + turn) as Address }),
    ),
    provider("payments of a rare payer", (turn) =>
      analytics.payments(who(turn), { limit: PAGE, payer: addressOf(1_000_050_000 + turn) as Address }),
    ),
    provider("subscriptions", (turn) => analytics.subscribers(who(turn), { limit: PAGE })),
    provider("subscriptions, a later page", (turn) =>
      analytics.subscribers(who(turn), { limit: PAGE, cursor: cursor(sec(turn)) }),
    ),
    provider("subscriptions of a subscriber", (turn) =>
      analytics.subscribers(who(turn), { limit: PAGE, subscriber: addressOf(1_000_000_001 + turn) as Address }),
    ),
    provider("allowances", (turn) => analytics.allowances(who(turn), { limit: PAGE })),
    provider("funnel", (turn) => analytics.funnel(who(turn), range(turn))),
    provider("renewals", (turn) => analytics.renewals(who(turn), range(turn))),
    provider("failed renewals", (turn) => analytics.failedRenewals(who(turn), range(turn))),
    provider("recurring revenue", (turn) => analytics.recurring(who(turn), range(turn))),
    provider("latency", (turn) => analytics.latency(who(turn), range(turn))),
    provider("events", (turn) =>
      listEvents(db, {
        owner: { provider: who(turn), chainIds: [CHAIN_ID] },
        after: String(turn * 100_000),
        limit: PAGE,
      }),
    ),
    operator("overview", (turn) => analytics.overview("everyone", range(turn))),
    operator("providers that were paid", (turn) => analytics.countProviders(range(turn))),
    operator("volume by day", (turn) => analytics.volume("everyone", { ...range(turn), grain: "day" })),
    operator("volume by hour", (turn) => analytics.volume("everyone", { ...hours(turn), grain: "hour" })),
    operator("volume by hour, a week", () => analytics.volume("everyone", { ...week, grain: "hour" })),
    operator("providers", (turn) => analytics.providers({ ...range(turn), limit: PAGE })),
    operator("funnel", (turn) => analytics.funnel("everyone", range(turn))),
    operator("renewals", (turn) => analytics.renewals("everyone", range(turn))),
    operator("recurring revenue", (turn) => analytics.recurring("everyone", range(turn))),
    operator("costs", (turn) => analytics.costs(range(turn))),
  ];
}
