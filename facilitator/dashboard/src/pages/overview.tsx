/** What came in, what will come in, what it cost, and what was lost. */
import type { LatencyWire, OverviewWire, RecurringWire, RenewalFiguresWire, VolumeWire } from "turnpike/facilitator";
import { Chart } from "../chart";
import { formatCents, formatChange, formatCount, formatMs, formatShare, plural, toNumber } from "../format";
import { Bar, Choice, Controls, Download, Empty, Figure, Figures, Panel, Shown } from "../parts";
import { RANGES, stepsOf, useRange } from "../range";
import { SCHEME_COLORS, SCHEME_NAMES, type SchemeName } from "../schemes";
import { useGet, useMoney, useUnit } from "../use";
import { TopPayers } from "./payers";

export function Overview() {
  const { days, set, grain } = useRange();
  const overview = useGet<OverviewWire>("/analytics/overview", { days });
  const volume = useGet<VolumeWire>("/analytics/volume", { days, grain });
  return (
    <>
      <Controls>
        <Choice label="Range" value={days} options={RANGES} onChange={set} />
        <Download path="/analytics/volume.csv" query={{ days, grain }} name="turnpike-volume.csv" />
      </Controls>
      <Shown of={overview}>{(data) => <Key data={data} />}</Shown>
      <Panel title="Volume" note="What was paid to you, by how it was paid.">
        <Shown of={volume}>{(data) => <VolumeChart data={data} />}</Shown>
      </Panel>
      <div class="columns">
        <Recurring days={days} />
        <Renewals days={days} />
      </div>
      <div class="columns">
        <TopPayers limit={5} />
        <Latency days={days} />
      </div>
    </>
  );
}

function Key({ data }: { data: OverviewWire }) {
  const money = useMoney("short");
  const { volume, volumeBefore, subscriptions, renewals, payments, token } = data;
  const change = formatChange(volume.amount, volumeBefore.amount);
  const due = renewals.renewed + renewals.pastDue;
  const tried = payments.settled + payments.failed;
  const ended = subscriptions.cancelled + subscriptions.expired;
  const cents = data.settlementCost?.centsPerPayment;
  return (
    <Figures>
      <Figure
        label="Volume"
        value={money(volume.amount, token)}
        tone={change?.startsWith("+") ? "good" : change?.startsWith("−") ? "bad" : undefined}
        note={change ? `${change} on the time before` : plural(volume.count, "payment")}
      />
      <Figure
        label="Subscriptions"
        value={formatCount(subscriptions.active)}
        note={`active; ${formatCount(subscriptions.created)} new, ${formatCount(ended)} ended`}
      />
      <Figure label="Recurring" value={money(subscriptions.recurring, token)} note="every 30 days" />
      <Figure
        label="Renewals collected"
        value={formatShare(renewals.renewed, due) ?? "–"}
        note={due === 0 ? "none was due" : `${formatCount(renewals.renewed)} of ${formatCount(due)} due`}
      />
      <Figure
        label="One-time settled"
        value={formatShare(payments.settled, tried) ?? "–"}
        note={tried === 0 ? "none was tried" : `${formatCount(payments.settled)} of ${formatCount(tried)}`}
      />
      <Figure
        label="Settlement cost"
        value={cents === undefined ? "–" : formatCents(cents)}
        tone={cents === undefined ? undefined : cents < 1 ? "good" : "bad"}
        note={
          cents === undefined
            ? "no payment yet, or no price is set for gas"
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

function VolumeChart({ data }: { data: VolumeWire }) {
  const money = useMoney();
  const { sign } = useUnit()(data.token);
  const { times, placeOf, formatAt } = stepsOf(data, data.grain);
  const series = (Object.keys(SCHEME_NAMES) as SchemeName[]).map((scheme) => {
    const sums = times.map(() => ({ amount: 0n, count: 0 }));
    for (const point of data.points) {
      const sum = sums[placeOf(point.at)];
      if (point.scheme !== scheme || !sum) continue;
      sum.amount += BigInt(point.amount);
      sum.count += point.count;
    }
    return {
      name: SCHEME_NAMES[scheme],
      color: SCHEME_COLORS[scheme],
      values: sums.map(({ amount }) => toNumber(amount.toString(), data.decimals)),
      texts: sums.map(({ amount, count }) => `${money(amount.toString(), data.token)} (${formatCount(count)})`),
    };
  });
  return (
    <Chart
      title="Volume"
      unit={`${sign || "token units"}, in brackets how many`}
      sign={sign}
      empty="Nothing was paid in this range. A longer one may show more."
      {...{ times, series, formatAt }}
    />
  );
}

function Recurring({ days }: { days: string }) {
  const money = useMoney("short");
  const unit = useUnit();
  const figures = useGet<RecurringWire>("/analytics/recurring", { days });
  return (
    <Panel title="Recurring revenue" note="What active subscriptions pay every 30 days.">
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
                {...{ times, series }}
              />
              {data.churn.rate !== undefined && (
                <p class="note">
                  Churn: {formatCount(data.churn.lost)} of {plural(data.churn.atStart, "subscription")} that stood at
                  the beginning of the range, {(data.churn.rate * 100).toFixed(1)} %.
                </p>
              )}
            </>
          );
        }}
      </Shown>
    </Panel>
  );
}

const OUTCOMES = [
  ["renewed", "Collected", "--good"],
  ["failedAttempts", "Attempt failed", "--s4"],
  ["pastDue", "Past due", "--s6"],
  ["expired", "Expired", "--bad"],
] as const;

function Renewals({ days }: { days: string }) {
  const figures = useGet<RenewalFiguresWire>("/analytics/renewals", { days });
  return (
    <Panel title="Renewals" note="By the clock, without the agent.">
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
                unit="how many"
                height={180}
                empty="No renewal fell due in this range."
                {...{ times, series, formatAt }}
              />
              {data.causes.length > 0 && (
                <p class="note">
                  Attempts failed by{" "}
                  {data.causes.map(({ cause, count }) => `${cause} (${formatCount(count)})`).join(", ")}.
                </p>
              )}
            </>
          );
        }}
      </Shown>
    </Panel>
  );
}

function Latency({ days }: { days: string }) {
  const figures = useGet<LatencyWire>("/analytics/latency", { days });
  return (
    <Panel title="Time to settle" note="From a payment's acceptance to the block that proves it.">
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
                    <th scope="col">Within</th>
                    <th scope="col">Share</th>
                    <th scope="col">Payments</th>
                  </tr>
                </thead>
                <tbody>
                  {histogram
                    .filter(({ count }) => count > 0)
                    .map(({ upToMs, count }) => (
                      <tr key={upToMs ?? "more"}>
                        <th scope="row">{upToMs === undefined ? "longer" : `within ${formatMs(upToMs)}`}</th>
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
