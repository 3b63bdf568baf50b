/** Shows the funnel from an offered price to a served request: counts at each step, and losses with their cause. */
import type { FunnelWire } from "turnpike/facilitator";
import { formatCount, formatShare, plural } from "../format";
import { Bar, Controls, Cut, Download, Empty, Figure, Figures, Panel, Shown, Table } from "../parts";
import { useRange } from "../range";
import { useGet, useMoney, useRound } from "../use";
import { CAUSES } from "./causes";
import { FailedRenewals } from "./failed-renewals";

/** A gate's report is not an event: nothing signals it. */
const LOOK_MS = 10_000;

/** Shown below each figure that only gates count. */
const NO_REPORTS = "no gate reports";

type Step = FunnelWire["steps"][number];

const STEPS: Readonly<Record<Step["step"], readonly [title: string, about: string]>> = {
  asked: ["Asked", "402 with a price, told by your gates"],
  signed: ["Signed", "one-time payments that reached the Facilitator"],
  settled: ["Settled", "of these, proven on the chain"],
  paid: ["Accepted", "payments that your gates accepted"],
  served: ["Served", "answered by your handler"],
};

export function Funnel() {
  const { query, choices } = useRange();
  const funnel = useGet<FunnelWire>("/analytics/funnel", query, useRound(LOOK_MS));
  return (
    <>
      <Controls>
        {choices}
        <Download path="/analytics/funnel.csv" query={query} name="turnpike-lost-revenue.csv" />
      </Controls>
      <Shown of={funnel}>{(data) => <Told data={data} />}</Shown>
      <FailedRenewals query={query} />
    </>
  );
}

function Told({ data }: { data: FunnelWire }) {
  const money = useMoney("short");
  const { steps, causes, turnedAway, resources, token } = data;
  const of = (step: Step["step"]): Step | undefined => steps.find((one) => one.step === step);
  const asked = of("asked");
  const served = of("served");
  const shown = resources.filter(
    ({ asked: { count }, paid, served: done, bySubscription }) =>
      count + paid.count + done.count + bySubscription.count > 0,
  );
  const hasReports =
    (asked?.count ?? 0) > 0 || (of("paid")?.count ?? 0) > 0 || data.bySubscription.count > 0 || turnedAway.length > 0;
  const received = (BigInt(data.received["one-time"]) + BigInt(data.received.subscription)).toString();
  const most = Math.max(1, ...steps.map(({ count }) => count));
  const worst = causes.reduce((max, { lost }) => Math.max(max, Number(lost)), 1);
  return (
    <>
      {!hasReports && (
        <Panel title="Your gates told nothing in this range">
          <p class="note">
            What a gate refuses never reaches the chain: only the gate can tell it. Make an API key with the scope{" "}
            <code>reports</code> and start the gate with <code>TURNPIKE_REPORTS_KEY</code>. It sends counts now and
            then, never requests, and never makes one wait.
          </p>
        </Panel>
      )}
      <Figures>
        <Figure
          label="Asked for"
          value={hasReports ? money(asked?.amount ?? "0", token) : "–"}
          note={hasReports ? plural(asked?.count ?? 0, "price told", "prices told") : NO_REPORTS}
        />
        <Figure
          label="Followed by access"
          value={hasReports ? money(data.answered, token) : "–"}
          note={hasReports ? "asked prices that a payment or a subscription answered" : NO_REPORTS}
        />
        <Figure
          label="Lost"
          value={hasReports ? money(data.lost, token) : "–"}
          tone={data.lost === "0" ? undefined : "bad"}
          note={
            hasReports
              ? `${formatShare(Number(data.lost), Number(asked?.amount ?? 0)) ?? "nothing"} of what was asked for`
              : NO_REPORTS
          }
        />
        <Figure
          label="Received"
          value={money(received, token)}
          note={`money that moved, as Volume: ${money(data.received["one-time"], token)} at once, ${money(data.received.subscription, token)} by subscriptions`}
        />
        <Figure
          label="Served, paid at once"
          value={hasReports ? formatCount(served?.count ?? 0) : "–"}
          note={hasReports ? money(served?.amount ?? "0", token) : NO_REPORTS}
        />
        <Figure
          label="Served by subscription"
          value={hasReports ? formatCount(data.bySubscription.count) : "–"}
          note={hasReports ? "without a payment of their own" : NO_REPORTS}
        />
        {data.failed > 0 && (
          <Figure
            label="Paid, then failed"
            value={formatCount(data.failed)}
            tone="bad"
            note="your handler answered 5xx; the payment was released"
          />
        )}
      </Figures>
      <Panel
        title="How far requests came"
        note="Your gates count what they asked, accepted and served; the Facilitator counts what was signed and settled."
      >
        <table class="ranked steps">
          <caption class="hidden">Steps from a price to a served request</caption>
          <thead>
            <tr>
              <th scope="col">Step</th>
              <th scope="col">
                <span class="hidden">Share</span>
              </th>
              <th scope="col" class="number">
                Requests
              </th>
              <th scope="col" class="number">
                Worth
              </th>
            </tr>
          </thead>
          <tbody>
            {steps.map(({ step, count, amount }) => (
              <tr key={step}>
                <th scope="row">
                  {STEPS[step][0]} <span class="note">{STEPS[step][1]}</span>
                </th>
                <td>
                  <Bar share={count / most} />
                </td>
                <td class="number">{formatCount(count)}</td>
                <td class="number">{money(amount, token)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </Panel>
      <Panel
        title="Lost revenue by cause"
        note="What was asked for and never followed by access, worst first. A payment answers a price of its own resource; a signup one of its plan's price, and a resumption one of a paused subscription. No column counts money that moved: that is Received."
      >
        <Table
          caption="Lost revenue by cause"
          empty={
            <Empty title={hasReports ? "Nothing was lost in this range." : "Nothing is known: no gate reports."} />
          }
          rows={causes}
          columns={[
            {
              title: "Cause",
              isProse: true,
              cell: ({ cause }) => (
                <>
                  {CAUSES[cause.split("/")[0] ?? cause] ?? "Refused"} <code>{cause}</code>
                </>
              ),
              total: "Together",
            },
            { title: "Offer", isMinor: true, cell: (row) => row.offer },
            {
              title: "Requests",
              isNumber: true,
              cell: (row) => formatCount(row.count),
              total: formatCount(asked?.count ?? 0),
            },
            {
              title: "Asked",
              isNumber: true,
              isMinor: true,
              cell: (row) => money(row.asked, token),
              total: money(asked?.amount ?? "0", token),
            },
            {
              title: "Followed by access",
              isNumber: true,
              isMinor: true,
              cell: (row) => money(row.answered, token),
              total: money(data.answered, token),
            },
            {
              title: "Lost",
              isNumber: true,
              cell: (row) => money(row.lost, token),
              total: money(data.lost, token),
            },
            { title: "Share", isSpare: true, cell: (row) => <Bar share={Number(row.lost) / worst} tone="bad" /> },
          ]}
        />
        {turnedAway.length > 0 && (
          <p class="note">
            Turned away without a price, or with a payment that was presented again:{" "}
            {turnedAway.map(({ cause, count }) => `${cause} (${formatCount(count)})`).join(", ")}.
          </p>
        )}
        {data.lostReports > 0 && (
          <p class="note">{plural(data.lostReports, "observation was", "observations were")} dropped by a busy gate.</p>
        )}
      </Panel>
      <Panel title="By resource" note="Those that were asked for most first.">
        <Table
          caption="Funnel by resource"
          empty={<Empty title="No gate told of a resource." />}
          rows={shown}
          columns={[
            {
              title: "Resource",
              cell: (row) => <Cut text={row.resource} />,
              total: "Together",
            },
            {
              title: "Requests",
              isNumber: true,
              cell: (row) => formatCount(row.asked.count),
              total: formatCount(asked?.count ?? 0),
            },
            {
              title: "Served",
              isNumber: true,
              isMinor: true,
              cell: (row) => formatCount(row.served.count),
              total: formatCount(served?.count ?? 0),
            },
            {
              title: "By subscription",
              isNumber: true,
              isSpare: true,
              cell: (row) => formatCount(row.bySubscription.count),
              total: formatCount(data.bySubscription.count),
            },
            {
              title: "Asked",
              isNumber: true,
              isMinor: true,
              cell: (row) => money(row.asked.amount, token),
              total: money(asked?.amount ?? "0", token),
            },
            {
              title: "Followed by access",
              isNumber: true,
              isMinor: true,
              cell: (row) => money(row.answered, token),
              total: money(data.answered, token),
            },
            {
              title: "Lost",
              isNumber: true,
              cell: (row) => money(row.lost, token),
              total: money(data.lost, token),
            },
          ]}
        />
      </Panel>
    </>
  );
}
