/** Shows the totals and the steps of the funnel, then its losses. */
import { formatCount, formatShare, plural } from "../format";
import { Bar, Figure, Figures, Panel } from "../parts";
import { useMoney } from "../use";
import { hasGateReports, type Step, stepOf, type ViewProps } from "./funnel-data";
import { ByResource, LossesByCause } from "./funnel-losses";

/** Shown below each figure that only gates count. */
const NO_REPORTS = "no gate reports";

const STEPS: Readonly<Record<Step["step"], readonly [title: string, about: string]>> = {
  asked: ["Asked", "402 with a price, reported by your gates"],
  signed: ["Signed", "one-time payments that reached the Facilitator"],
  settled: ["Settled", "of these, proven on the chain"],
  paid: ["Accepted", "payments that your gates accepted"],
  served: ["Served", "answered by your handler"],
};

export function FunnelReport({ data }: ViewProps) {
  return (
    <>
      {!hasGateReports(data) && <NoReports />}
      <Totals data={data} />
      <Steps data={data} />
      <LossesByCause data={data} />
      <ByResource data={data} />
    </>
  );
}

function NoReports() {
  return (
    <Panel title="Your gates reported nothing in this range">
      <p class="note">
        A refused request never reaches the chain: only the gate can report it. Create an API key with the scope{" "}
        <code>reports</code> and start the gate with <code>TURNPIKE_REPORTS_KEY</code>. The gate sends counts, never the
        requests, and never delays one.
      </p>
    </Panel>
  );
}

function Totals({ data }: ViewProps) {
  const money = useMoney("short");
  const { token } = data;
  const asked = stepOf(data, "asked");
  const served = stepOf(data, "served");
  const hasReports = hasGateReports(data);
  const received = (BigInt(data.received["one-time"]) + BigInt(data.received.subscription)).toString();
  return (
    <Figures>
      <Figure
        label="Asked for"
        value={hasReports ? money(asked?.amount ?? "0", token) : "–"}
        note={hasReports ? plural(asked?.count ?? 0, "price quoted", "prices quoted") : NO_REPORTS}
      />
      <Figure
        label="Followed by access"
        value={hasReports ? money(data.answered, token) : "–"}
        note={hasReports ? "prices followed by a payment or a subscription" : NO_REPORTS}
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
        note={`same as Gross: ${money(data.received["one-time"], token)} one-time, ${money(data.received.subscription, token)} from subscriptions`}
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
          label="Failed after payment"
          value={formatCount(data.failed)}
          tone="bad"
          note="your handler returned 5xx; the payment was released"
        />
      )}
    </Figures>
  );
}

function Steps({ data: { steps, token } }: ViewProps) {
  const money = useMoney("short");
  const most = Math.max(1, ...steps.map(({ count }) => count));
  return (
    <Panel
      title="Steps"
      note="Your gates count what they quoted, accepted and served; the Facilitator counts what was signed and settled."
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
  );
}
