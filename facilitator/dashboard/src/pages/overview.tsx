/** Shows revenue, expected revenue, costs and losses. */
import type { FailedRenewalsWire, OverviewWire } from "turnpike/facilitator";
import type { Query } from "../api";
import { Chart } from "../chart";
import { formatCents, formatChange, formatCount, formatMs, formatShare, formatTime, plural, toNumber } from "../format";
import { Bar, Controls, Download, Empty, Figure, Figures, Hex, Panel, Shown } from "../parts";
import { usePlanNames } from "../plan-names";
import { stepsOf, useRange } from "../range";
import { useGet, useMoney, useRound, useUnit } from "../use";
import { actAt } from "../wallet/act-list";
import { Attention } from "./attention";
import { FirstSteps } from "./first-steps";
import { TopPayers } from "./payers";
import { hasTimeBefore, Volume } from "./volume";

/** Finality and gates' reports emit no event. */
const POLL_MS = 10_000;

export function Overview() {
  const { query, grain, choices } = useRange();
  const overview = useGet("/analytics/overview", query, useRound(POLL_MS));
  // Queried once, so that all parts of the page show the same number.
  const { data: unpaid } = useGet("/analytics/failed-renewals", query, useRound(POLL_MS));
  return (
    <>
      <Controls>
        {choices}
        <Download path="/analytics/volume.csv" query={{ ...query, grain }} name="turnpike-volume.csv" />
      </Controls>
      <Shown of={overview}>
        {(data) => (
          <>
            <Headline data={data} />
            <FirstSteps isEmpty={data.since === undefined} />
          </>
        )}
      </Shown>
      <Attention />
      <Shown of={overview}>{(data) => <Proposals data={data} />}</Shown>
      <Volume overview={overview.data} query={query} grain={grain} />
      <Shown of={overview}>{(data) => <Key data={data} query={query} unpaid={unpaid} />}</Shown>
      <div class="columns">
        <Recurring query={query} />
        <Renewals query={query} unpaid={unpaid} />
      </div>
      <div class="columns">
        <TopPayers limit={5} />
        <Latency query={query} />
      </div>
    </>
  );
}

/** What came in and what stays of it, each beside the period of the same length before. */
function Headline({ data }: { data: OverviewWire }) {
  const money = useMoney("short");
  const { from, to, token, subscriptions } = data;
  const { data: before } = useGet("/analytics/overview", { from: 2 * from - to, to: from, token });
  const figure = (label: string, read: (of: OverviewWire) => string | number, isMoney = true, isGood = true) => {
    const now = String(read(data));
    const change = before && formatChange(now, String(read(before)));
    const tone = !change || change.startsWith("±") ? undefined : change.startsWith("+") === isGood ? "good" : "bad";
    return (
      <Figure
        label={label}
        value={isMoney ? money(now, token) : formatCount(Number(now))}
        {...(hasTimeBefore(data)
          ? { note: before ? (change ?? "none before") : "…", tone }
          : { note: "in this range" })}
      />
    );
  };
  return (
    <Figures>
      {figure("Gross", ({ volume }) => volume.amount)}
      {figure("Refunds", ({ refunds }) => refunds.amount, true, false)}
      {figure("Net", ({ net }) => net)}
      {figure("Payments", ({ volume }) => volume.count, false)}
      <Figure
        label="Subscriptions"
        value={formatCount(subscriptions.active)}
        note={`${formatCount(subscriptions.created)} new, ${formatCount(subscriptions.ended)} ended${trialsOf(subscriptions.trials)}`}
      />
      {figure("Fell past due", ({ renewals }) => renewals.pastDue, false, false)}
    </Figures>
  );
}

/** What a provider has to see within seven days, whichever page it opens. */
function Proposals({ data }: { data: OverviewWire }) {
  const plans = usePlanNames();
  if (data.payeeProposals.length === 0) return null;
  return (
    <Panel title="Another payee is proposed">
      {data.payeeProposals.map(({ planId, payTo, effectiveAt }) => (
        <p key={planId} class="note bad">
          {plans.nameOf(planId)}: <Hex value={payTo} /> can be paid from {formatTime(effectiveAt)} on. Unless it is
          yours, withdraw it before, as the provider or as the present payee.{" "}
          <a href={actAt("change-payee", { plan: planId, how: "withdraw" })}>Withdraw it</a>
        </p>
      ))}
    </Panel>
  );
}

type Unpaid = FailedRenewalsWire | undefined;

function Key({ data, query, unpaid }: { data: OverviewWire; query: Query; unpaid: Unpaid }) {
  const money = useMoney("short");
  const { subscriptions, renewals, payments, token } = data;
  const { data: lost } = useGet("/analytics/funnel", query, useRound(POLL_MS));
  const asked = lost?.steps.find(({ step }) => step === "asked");
  // A recovered period counts as renewed.
  const due = renewals.renewed + (unpaid?.lost.count ?? 0) + (unpaid?.open.count ?? 0);
  const tried = payments.settled + payments.failed;
  const cents = data.settlementCost?.centsPerPayment;
  return (
    <Figures>
      <Figure label="Recurring" value={money(subscriptions.recurring, token)} note="every 30 days" />
      <Figure
        label="Renewals collected"
        value={formatShare(renewals.renewed, due) ?? "–"}
        note={due === 0 ? "none due" : `${formatCount(renewals.renewed)} of ${formatCount(due)} due`}
      />
      <Figure
        label="One-time settled"
        value={formatShare(payments.settled, tried) ?? "–"}
        note={tried === 0 ? "no attempts" : `${formatCount(payments.settled)} of ${formatCount(tried)}`}
      />
      <Figure
        label="Lost"
        value={asked && asked.count > 0 ? money(lost?.lost ?? "0", token) : "–"}
        note={
          <a href="#/funnel">
            {asked && asked.count > 0
              ? `${formatShare(Number(lost?.lost), Number(asked.amount)) ?? "0 %"} of what your gates asked for`
              : "needs gate reports"}
          </a>
        }
      />
      <Figure
        label="Settlement cost"
        value={cents === undefined ? "–" : formatCents(cents)}
        tone={cents === undefined ? undefined : cents < 1 ? "good" : "bad"}
        note={
          cents === undefined
            ? "none final yet, or no gas price set"
            : cents < 1
              ? "on average, under one cent"
              : "on average, above one cent"
        }
      >
        {cents !== undefined && <Bar share={cents} tone={cents < 1 ? "good" : "bad"} />}
      </Figure>
    </Figures>
  );
}

function trialsOf({ begun, converted }: OverviewWire["subscriptions"]["trials"]): string {
  if (begun + converted === 0) return "";
  return `; ${plural(begun, "trial")}, ${formatCount(converted)} converted`;
}

function Recurring({ query }: { query: Query }) {
  const money = useMoney("short");
  const unit = useUnit();
  const figures = useGet("/analytics/recurring", query);
  return (
    <Panel
      title="Recurring revenue"
      note="Active subscriptions on each day, scaled to 30 days. A cancelled subscription counts until its period ends; a changed plan counts once, at the new price."
    >
      <Shown of={figures}>
        {(data) => {
          const { sign } = unit(data.token);
          const times = data.points.map(({ at }) => at);
          const series = [
            {
              name: "Recurring",
              color: "--s3",
              values: data.points.map(({ recurring }) => toNumber(recurring, data.decimals)),
              texts: data.points.map(
                ({ recurring, subscriptions }) =>
                  `${money(recurring, data.token)} from ${plural(subscriptions, "subscription")}`,
              ),
            },
          ];
          return (
            <>
              <Chart
                kind="line"
                title="Recurring revenue"
                unit={sign || "token units"}
                sign={sign}
                height={180}
                empty="Nobody subscribed in this range."
                formatAt={stepsOf({ from: 0, to: 86_400 * 30 }, "day").formatAt}
                times={times}
                series={series}
              />
              {data.churn.rate !== undefined && (
                <p class="note">
                  Churn: of {plural(data.churn.atStart, "subscription")} active at the start of the range,{" "}
                  {formatCount(data.churn.lost)} ended and did not return ({(data.churn.rate * 100).toFixed(1)} %).
                </p>
              )}
            </>
          );
        }}
      </Shown>
    </Panel>
  );
}

const NONE = { count: 0, amount: "0" };
const NOTHING_FAILED = { lost: NONE, open: NONE, recovered: NONE, token: undefined };

const OUTCOMES = [
  ["renewed", "Collected", "--good"],
  ["failedAttempts", "Attempt failed", "--s4"],
  ["pastDue", "Fell past due", "--s6"],
  ["expired", "Expired", "--bad"],
] as const;

function Renewals({ query, unpaid }: { query: Query; unpaid: Unpaid }) {
  const money = useMoney("short");
  const figures = useGet("/analytics/renewals", query);
  const { lost, open, recovered, token } = unpaid ?? NOTHING_FAILED;
  const uncharged = [
    { ...lost, what: "lost" },
    { ...open, what: "still retried" },
    { ...recovered, what: "recovered" },
  ].flatMap(({ count, amount, what }) => (count > 0 ? [`${money(amount, token)} ${what}`] : []));
  return (
    <Panel title="Renewals" note="Charged automatically when due.">
      <Shown of={figures}>
        {(data) => {
          const { times, placeOf, formatAt } = stepsOf(data, "day");
          const series = OUTCOMES.map(([field, name, color]) => {
            const values = times.map(() => 0);
            for (const point of data.points) {
              const place = placeOf(point.at);
              if (place >= 0) values[place] = (values[place] ?? 0) + point[field];
            }
            return { name, color, values, texts: values.map(formatCount) };
          });
          return (
            <>
              <Chart
                title="Renewals"
                unit="renewals"
                height={180}
                empty="No renewal fell due in this range."
                times={times}
                series={series}
                formatAt={formatAt}
              />
              {data.causes.length > 0 && (
                <p class="note">
                  Failed attempts by cause:{" "}
                  {data.causes.map(({ cause, count }) => `${cause} (${formatCount(count)})`).join(", ")}.
                </p>
              )}
              {uncharged.length > 0 && (
                <p class="note">
                  <a href="#/funnel">Not charged when due</a>: {uncharged.join(", ")}.
                </p>
              )}
            </>
          );
        }}
      </Shown>
    </Panel>
  );
}

function Latency({ query }: { query: Query }) {
  const figures = useGet("/analytics/latency", query);
  return (
    <Panel title="Time to settle" note="From a payment's acceptance to the block that contains it.">
      <Shown of={figures}>
        {({ sampled, p50Ms, p95Ms, p99Ms, histogram }) => {
          if (sampled === 0) return <Empty title="No one-time payment settled in this range." />;
          const most = Math.max(1, ...histogram.map(({ count }) => count));
          return (
            <>
              <Figures>
                <Figure label="Half within" value={formatMs(p50Ms ?? 0)} />
                <Figure label="95 % within" value={formatMs(p95Ms ?? 0)} />
                <Figure label="99 % within" value={formatMs(p99Ms ?? 0)} />
              </Figures>
              <table class="ranked">
                <caption class="hidden">Payments by time to settle</caption>
                <thead class="hidden">
                  <tr>
                    <th scope="col">Took</th>
                    <th scope="col">Share</th>
                    <th scope="col">Payments</th>
                  </tr>
                </thead>
                <tbody>
                  {histogram
                    .map((bin, index) => ({ ...bin, overMs: histogram[index - 1]?.upToMs ?? 0 }))
                    .filter(({ count }) => count > 0)
                    .map(({ overMs, upToMs, count }) => (
                      <tr key={upToMs ?? "more"}>
                        <th scope="row">
                          {upToMs === undefined
                            ? `over ${formatMs(overMs)}`
                            : `${formatMs(overMs)} to ${formatMs(upToMs)}`}
                        </th>
                        <td>
                          <Bar share={count / most} />
                        </td>
                        <td class="number">{formatCount(count)}</td>
                      </tr>
                    ))}
                </tbody>
              </table>
            </>
          );
        }}
      </Shown>
    </Panel>
  );
}
