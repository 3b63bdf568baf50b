/**
 * Follows requests from the first 402 to the response: gates' counts, this service's settlements, and prices that no
 * access followed.
 */
import { sql } from "kysely";
import type { Db } from "../db/open";
import { inSpans, type Sum } from "./queries";
import type { Range, Scope } from "./ranges";
import { ALL_RESOURCES } from "./reported-sums";
import { EVERYONE } from "./rollups";

export interface Reported extends Sum {
  /** a path's template; empty for all paths together */
  readonly resource: string;
  readonly step: string;
  readonly cause: string;
  readonly offer: string;
}

type Row = Omit<Reported, "amount"> & { readonly amount: string };

/**
 * Sums the range by resource, step, cause and offer, in the scope's token and in none. Every figure of a funnel derives
 * from these rows. Those of all providers together are kept without resources.
 */
export async function reportedIn(db: Db, scope: Scope, range: Range): Promise<Reported[]> {
  const { chainId, provider, token } = scope;
  const ofToken = sql`token in (${token}, '')`;
  const rowsOf =
    provider === undefined
      ? inSpans(
          range,
          (within) => sql`select resource, step, cause, offer, count, amount from rollup_funnel
            where chain_id = ${chainId} and provider = ${EVERYONE} and resource = ${ALL_RESOURCES} and ${ofToken}
              and ${within}`,
        )
      : inSpans(
          range,
          (within) => sql`select f.resource, f.step, f.cause, f.offer, f.count, f.amount from gate_resources g
            join rollup_funnel f on f.chain_id = g.chain_id and f.provider = g.provider and f.resource = g.resource
            where g.chain_id = ${chainId} and g.provider = ${provider} and ${ofToken} and ${within}`,
        );
  const { rows } = await sql<Row>`
    select resource, step, cause, offer, sum(count)::int8 as count, sum(amount) as amount from (${rowsOf}) f
    group by resource, step, cause, offer order by resource, step, cause, offer`.execute(db);
  return rows.map((row) => ({ ...row, amount: BigInt(row.amount) }));
}

export type OfferKind = "one-time" | "subscription";

/** A 402 to a request without payment: the first of two requests in a successful purchase. */
const FIRST = "PaymentRequired";

/** Reasons of InvalidPaymentProof that imply an earlier payment: for an earlier request, or for another one. */
const REPLAYED =
  /^(?:PaymentAlreadyUsed\/already_used|InvalidPaymentProof\/(?:already_\w+|payment_already_granted|authorization_used|expired|resource))$/;

/** Returns whether the 402 requested a new price: a payment that is presented again is already paid. */
export const isAsked = ({ step, cause }: Reported): boolean =>
  step === "asked" || (step === "refused" && !REPLAYED.test(cause));

export const isReplay = ({ step, cause }: Reported): boolean => step === "refused" && REPLAYED.test(cause);

export interface Outcome {
  readonly resource: string;
  readonly cause: string;
  readonly offer: OfferKind;
  readonly count: number;
  readonly asked: bigint;
  /** the part of the requested amount that access followed: the rest is lost */
  readonly answered: bigint;
}

interface Open {
  readonly row: Reported;
  readonly offer: OfferKind;
  count: number;
  amount: bigint;
}

export interface Begun {
  /** signups and plan changes by the plan's price; undefined when the sums do not contain it */
  readonly signups: readonly { readonly price: bigint | undefined; readonly count: number }[];
  readonly resumed: number;
  readonly prices: ReadonlySet<bigint>;
}

/** A subscriber who paused: resuming opens access again. */
const PAUSED = "SubscriptionNotActive/paused";

/**
 * Computes which requested prices were followed by access. Pure. A payment matches a price of its own resource, by
 * amount: a first request before a refusal, and the refusal with the highest amount first. A subscription matches only
 * prices of resources that served subscribers, one price each. A resumption matches the prices of paused subscriptions.
 * A signup or plan change matches in this order: its plan's price, one of several prices, a resource that offers both.
 */
export function outcomesOf(reported: readonly Reported[], begun: Begun): Outcome[] {
  const open = reported
    .filter(isAsked)
    .map((row): Open => ({ row, offer: offerOf(row), count: row.count, amount: row.amount }))
    .sort((a, b) => rank(a.row) - rank(b.row) || compare(b.amount, a.amount) || (a.row.cause < b.row.cause ? -1 : 1));
  const spare = new Map<string, number>();
  for (const { resource, count, amount } of reported.filter(({ step }) => step === "paid")) {
    let left = amount;
    for (const cell of open)
      if (cell.row.resource === resource && cell.offer === "one-time") left -= byAmount(cell, left);
    // When the first 402 offered only plans, the remaining payments match those offers, by count.
    if (amount > 0n) spare.set(resource, Number((BigInt(count) * left) / amount));
  }
  const plans = open.filter(({ offer }) => offer === "subscription");
  for (const cell of plans) {
    const left = spare.get(cell.row.resource) ?? 0;
    spare.set(cell.row.resource, left - byCount(cell, left));
  }
  const accesses = new Map<string, number>();
  for (const { step, resource, count } of reported)
    if (step === "subscribed") accesses.set(resource, (accesses.get(resource) ?? 0) + count);
  const answer = (cells: readonly Open[], available: number): number => {
    let left = available;
    for (const cell of cells) {
      const served = accesses.get(cell.row.resource) ?? 0;
      const taken = byCount(cell, Math.min(left, served));
      accesses.set(cell.row.resource, served - taken);
      left -= taken;
    }
    return left;
  };
  answer(
    open.filter(({ row }) => row.cause === PAUSED),
    begun.resumed,
  );
  const isMixed = ({ row }: Open): boolean => !begun.prices.has(unitOf(row));
  for (const { price, count } of begun.signups) {
    const ofItsPrice = plans.filter(({ row }) => price !== undefined && unitOf(row) === price);
    const left = answer(plans.filter(isMixed), answer(ofItsPrice, count));
    answer(
      open.filter(({ offer }) => offer === "one-time"),
      left,
    );
  }
  return open.map(({ row: { resource, cause, count, amount: asked }, offer, amount }) => ({
    resource,
    cause,
    offer,
    count,
    asked,
    answered: asked - amount,
  }));
}

/** Returns the price of one request when all requests of the sum had the same one; -1 otherwise. */
const unitOf = ({ count, amount }: Sum): bigint =>
  count > 0 && amount % BigInt(count) === 0n ? amount / BigInt(count) : -1n;

/** @returns the part of the amount that it used */
function byAmount(cell: Open, available: bigint): bigint {
  const taken = cell.amount < available ? cell.amount : available;
  if (cell.amount > 0n) cell.count -= Number((BigInt(cell.count) * taken) / cell.amount);
  cell.amount -= taken;
  return taken;
}

/** @returns the number of prices that it used */
function byCount(cell: Open, available: number): number {
  const taken = cell.amount === 0n ? 0 : Math.min(cell.count, available);
  if (taken === 0) return 0;
  cell.amount -= (cell.amount * BigInt(taken)) / BigInt(cell.count);
  cell.count -= taken;
  return taken;
}

const offerOf = ({ offer }: Reported): OfferKind => (offer === "subscription" ? "subscription" : "one-time");

const rank = ({ cause }: Reported): number => (cause === FIRST ? 0 : 1);

const compare = (a: bigint, b: bigint): number => (a === b ? 0 : a < b ? -1 : 1);

/** Groups the outcomes by name, largest loss first. */
export function together<N extends string>(
  outcomes: readonly Outcome[],
  nameOf: (outcome: Outcome) => N,
): (Outcome & { readonly lost: bigint })[] {
  const sums = new Map<N, Outcome>();
  for (const one of outcomes) {
    const name = nameOf(one);
    const sum = sums.get(name);
    sums.set(name, {
      ...(sum ?? one),
      count: (sum?.count ?? 0) + one.count,
      asked: (sum?.asked ?? 0n) + one.asked,
      answered: (sum?.answered ?? 0n) + one.answered,
    });
  }
  return [...sums]
    .map(([name, sum]) => ({ name, ...sum, lost: sum.asked - sum.answered }))
    .sort((a, b) => compare(b.lost, a.lost) || compare(b.asked, a.asked) || (a.name < b.name ? -1 : 1));
}

export function sumOf(reported: readonly Reported[], isWanted: (row: Reported) => boolean): Sum {
  return reported
    .filter(isWanted)
    .reduce((sum, { count, amount }) => ({ count: sum.count + count, amount: sum.amount + amount }), {
      count: 0,
      amount: 0n,
    });
}
