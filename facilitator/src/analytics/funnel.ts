/** From the first 402 to the answer: what gates counted, beside what this service settled, and what was asked for and not paid. */
import { sql } from "kysely";
import type { Db } from "../store/open";
import { EVERYONE } from "../store/rollups";
import { ALL_RESOURCES } from "../store/tables/funnel";
import { inSpans, type Range, type Scope, type Sum } from "./queries";

export interface Reported extends Sum {
  readonly step: string;
  readonly cause: string;
  readonly offer: string;
}

/** Sums of the range by step, cause and offer, in the scope's token and in none. */
export async function reportedIn(db: Db, scope: Scope, range: Range, resource = ALL_RESOURCES): Promise<Reported[]> {
  const { rows } = await sql<{ step: string; cause: string; offer: string; count: number; amount: string }>`
    select step, cause, offer, sum(count)::int8 as count, sum(amount) as amount from (
      ${inSpans(
        range,
        (within) => sql`select step, cause, offer, count, amount from rollup_funnel
          where chain_id = ${scope.chainId} and provider = ${scope.provider ?? EVERYONE} and resource = ${resource}
            and token in (${scope.token}, '') and ${within}`,
      )}) f group by step, cause, offer`.execute(db);
  return rows.map((row) => ({ ...row, amount: BigInt(row.amount) }));
}

export interface ResourceFigures {
  readonly resource: string;
  readonly asked: Sum;
  readonly paid: Sum;
  readonly served: Sum;
}

/** Those that asked for most first. */
export async function reportedByResource(
  db: Db,
  scope: Scope,
  range: Range,
  limit: number,
): Promise<ResourceFigures[]> {
  const sum = (steps: string) =>
    sql.raw(`
    coalesce(sum(count) filter (where step in (${steps})), 0)::int8 as count_${steps.replaceAll(/\W/g, "")},
    coalesce(sum(amount) filter (where step in (${steps})), 0) as amount_${steps.replaceAll(/\W/g, "")}`);
  const { rows } = await sql<Record<string, string | number>>`
    select resource, ${sum("'asked', 'refused'")}, ${sum("'paid'")}, ${sum("'served'")}
    from (${inSpans(
      range,
      (within) => sql`select f.resource, f.step, f.count, f.amount from gate_resources g
        join rollup_funnel f on f.chain_id = g.chain_id and f.provider = g.provider and f.resource = g.resource
        where g.chain_id = ${scope.chainId} and g.provider = ${scope.provider ?? EVERYONE}
          and f.token in (${scope.token}, '') and ${within}`,
    )}) f
    group by resource order by amount_askedrefused desc, resource limit ${limit}`.execute(db);
  const at = (row: Record<string, string | number>, name: string): Sum => ({
    count: Number(row[`count_${name}`]),
    amount: BigInt(row[`amount_${name}`] ?? 0),
  });
  return rows.map((row) => ({
    resource: String(row.resource),
    asked: at(row, "askedrefused"),
    paid: at(row, "paid"),
    served: at(row, "served"),
  }));
}

export type OfferKind = "one-time" | "subscription";
const OFFERS: readonly OfferKind[] = ["one-time", "subscription"];
/** A 402 to a request that brought nothing: the first of two, where all goes well. */
const FIRST = "PaymentRequired";

export interface Loss {
  readonly cause: string;
  readonly offer: OfferKind;
  readonly count: number;
  readonly asked: bigint;
  readonly lost: bigint;
}

/**
 * What was asked for and not paid, by what the 402 said. A payment answers a first request, so payments count against those
 * first; what is left of them was paid after a refusal, and counts against the causes that asked for most. Pure.
 * @param paid by what was offered first
 */
export function lossesOf(reported: readonly Reported[], paid: Readonly<Record<OfferKind, bigint>>): Loss[] {
  const losses = OFFERS.flatMap((offer) => {
    const causes = reported
      .filter((row) => (row.step === "asked" || row.step === "refused") && (row.offer || "one-time") === offer)
      .sort((a, b) => rank(a) - rank(b) || compare(b.amount, a.amount) || (a.cause < b.cause ? -1 : 1));
    let left = paid[offer];
    return causes.map(({ cause, count, amount: asked }): Loss => {
      const isCovered = left >= asked;
      const lost = isCovered ? 0n : asked - left;
      left = isCovered ? left - asked : 0n;
      return { cause, offer, count, asked, lost };
    });
  });
  return losses.sort((a, b) => compare(b.lost, a.lost) || (a.cause < b.cause ? -1 : 1));
}

const rank = ({ cause }: Reported): number => (cause === FIRST ? 0 : 1);
const compare = (a: bigint, b: bigint): number => (a === b ? 0 : a < b ? -1 : 1);

/** Of the given steps together. */
export function sumOfSteps(reported: readonly Reported[], ...steps: readonly string[]): Sum {
  return reported
    .filter(({ step }) => steps.includes(step))
    .reduce((sum, { count, amount }) => ({ count: sum.count + count, amount: sum.amount + amount }), {
      count: 0,
      amount: 0n,
    });
}
