/** What the ledger is asked for, all of it in the URL: month, time zone, kind, token, plan, payer and route. */

import type { Query } from "../api";
import { Choice } from "../parts";
import type { PlanNames } from "../plan-names";
import { SCHEME_NAMES } from "../schemes";
import { PayerField, TextField } from "../text-field";
import { useQueryField, useSigned } from "../use";

const ALL = "all";

const KINDS = { "": "All", ...SCHEME_NAMES, refund: "Refund" };

type Field = readonly [value: string, set: (value: string) => void];

export interface AccountFilter {
  /** `2026-11`; empty: all times */
  readonly month: string;
  readonly zone: string;
  readonly query: Query;
  /** whether it leaves out a part of the month */
  readonly isNarrowed: boolean;
  readonly fields: Readonly<Record<"month" | "zone" | "kind" | "token" | "plan" | "payer" | "route", Field>>;
  timeOf(timeSec: number): string;
}

export function useAccountFilter(nowSec: number): AccountFilter {
  const zone = useQueryField("zone", "UTC");
  const month = useQueryField("month", monthOf(nowSec, zone[0]));
  const kind = useQueryField("kind", "");
  const token = useQueryField("token", "");
  const plan = useQueryField("plan", "");
  const payer = useQueryField("payer", "");
  const route = useQueryField("route", "");
  const narrowing = { kind: kind[0], token: token[0], planId: plan[0], payer: payer[0], route: route[0] };
  const given = Object.entries(narrowing).filter(([, value]) => value !== "");
  const isAll = month[0] === ALL;
  return {
    month: isAll ? "" : month[0],
    zone: zone[0],
    query: { month: isAll ? undefined : month[0], zone: zone[0], ...Object.fromEntries(given) },
    isNarrowed: given.length > 0,
    fields: { month, zone, kind, token, plan, payer, route },
    timeOf: (timeSec) => formatIn(timeSec, zone[0]),
  };
}

export function Filters({
  of: { fields },
  since,
  until,
  plans,
}: {
  of: AccountFilter;
  since: number;
  until: number;
  plans: PlanNames;
}) {
  const { tokens } = useSigned().supported;
  const names = Object.fromEntries(tokens.map(({ address, name }) => [address, name]));
  const [zone] = fields.zone;
  const months = monthsBetween(monthOf(since, zone), monthOf(until, zone));
  return (
    <>
      <Choice
        label="Month"
        value={fields.month[0]}
        options={{ ...Object.fromEntries(months.map((month) => [month, monthName(month)])), [ALL]: "All times" }}
        onChange={fields.month[1]}
      />
      <Choice label="Time zone" value={zone} options={ZONES} onChange={fields.zone[1]} />
      <Choice label="Kind" value={fields.kind[0]} options={KINDS} onChange={fields.kind[1]} />
      {tokens.length > 1 && (
        <Choice label="Token" value={fields.token[0]} options={{ "": "All", ...names }} onChange={fields.token[1]} />
      )}
      <Choice label="Plan" value={fields.plan[0]} options={plans.options} onChange={fields.plan[1]} />
      <PayerField value={fields.payer[0]} onChange={fields.payer[1]} />
      <TextField label="Route" value={fields.route[0]} onChange={fields.route[1]} />
    </>
  );
}

const ZONES: Readonly<Record<string, string>> = Object.fromEntries(
  ["UTC", Intl.DateTimeFormat().resolvedOptions().timeZone, ...Intl.supportedValuesOf("timeZone")].map((zone) => [
    zone,
    zone.replaceAll("_", " "),
  ]),
);

/** A zone that this browser does not know is shown in UTC; the API refuses it. */
function formatIn(timeSec: number, timeZone: string): string {
  const style = { dateStyle: "medium", timeStyle: "medium" } as const;
  try {
    return new Intl.DateTimeFormat("en-GB", { ...style, timeZone }).format(timeSec * 1_000);
  } catch {
    return new Intl.DateTimeFormat("en-GB", { ...style, timeZone: "UTC" }).format(timeSec * 1_000);
  }
}

/** `2026-11` */
function monthOf(timeSec: number, timeZone: string): string {
  try {
    return new Intl.DateTimeFormat("en-CA", { year: "numeric", month: "2-digit", timeZone }).format(timeSec * 1_000);
  } catch {
    return monthOf(timeSec, "UTC");
  }
}

export function monthName(month: string): string {
  const at = Date.parse(`${month}-01T00:00:00Z`);
  if (Number.isNaN(at)) return month;
  return new Intl.DateTimeFormat("en-GB", { month: "long", year: "numeric", timeZone: "UTC" }).format(at);
}

/** Newest first. */
function monthsBetween(first: string, last: string): string[] {
  const months: string[] = [];
  for (let month = last; month >= first; month = before(month)) months.push(month);
  return months;
}

function before(month: string): string {
  const at = new Date(`${month}-01T00:00:00Z`);
  at.setUTCMonth(at.getUTCMonth() - 1);
  return at.toISOString().slice(0, 7);
}
