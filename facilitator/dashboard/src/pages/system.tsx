/** Shows whether the Facilitator can work now; for its operators also its internals and costs. */
import type { Readiness, ServiceCostsWire, System as SystemWire } from "turnpike/facilitator";
import type { AnswerAt, Query } from "../api";
import { Chart } from "../chart";
import { formatCents, formatCoin, formatCount, formatMs, formatSpan, formatTime, plural } from "../format";
import { Bar, Cut, Empty, Figure, Figures, Hex, Narrow, Panel, Shown, Status, Table } from "../parts";
import { type Range, stepsOf, useRange } from "../range";
import { useGet, useMoney, useRound, useSigned } from "../use";

const LONG_DAYS = 3_650;

/** A failing node or lane emits no event. */
const POLL_MS = 5_000;

export function System() {
  const { who } = useSigned();
  return who.isOperator ? <OperatorView /> : <ProviderView />;
}

function ProviderView() {
  const readiness = useGet("/analytics/system", {}, useRound(POLL_MS));
  return <Shown of={readiness}>{(data) => <Health data={data} />}</Shown>;
}

function Health({ data: { ready, checks } }: { data: Readiness }) {
  return (
    <Panel
      title="Health"
      note="Database, chain, indexer, relayer keys and their gas balance, as /readyz reports them."
      aside={<Status of={ready ? "ready" : "not ready"} />}
    >
      <Table
        caption="Checks"
        empty="No checks."
        rows={checks}
        columns={[
          {
            title: "Check",
            cell: ({ name }) =>
              name.startsWith("lane 0x") ? (
                <>
                  relayer key <Hex value={name.slice(5)} />
                </>
              ) : (
                name
              ),
          },
          { title: "State", cell: (row) => <Status of={row.ok ? "ok" : "fails"} /> },
          { title: "Detail", isProse: true, cell: (row) => row.detail },
        ]}
      />
    </Panel>
  );
}

function OperatorView() {
  const system = useGet("/operator/system", {}, useRound(POLL_MS));
  const { query, choices } = useRange();
  return (
    <>
      <Shown of={system}>
        {(data) => {
          const lag = data.chain.head === undefined ? undefined : data.chain.head - data.chain.applied;
          return (
            <>
              <Figures>
                <Figure
                  label="Chain"
                  value={data.chain.head === undefined ? "–" : `#${formatCount(data.chain.head)}`}
                  note={`${plural(data.chain.nodes, "node")}, last response ${formatSpan(data.chain.silentSec)} ago`}
                />
                <Figure
                  label="Indexer lag"
                  value={lag === undefined ? "–" : plural(lag, "block")}
                  note={`waits for ${plural(data.chain.confirmations, "confirmation")}`}
                />
                <Figure
                  label="Payments waiting"
                  value={formatCount(data.payments.queued)}
                  note={
                    data.payments.queued > 0
                      ? `oldest: ${formatSpan(data.payments.oldestQueuedSec)}`
                      : `${plural(
                          data.lanes.reduce((sum, lane) => sum + lane.inFlight, 0),
                          "transaction",
                        )} sent, in no block yet`
                  }
                />
                <Figure
                  label="Renewals due"
                  value={formatCount(data.renewalsDue + data.renewalsUnderWay)}
                  note={
                    data.nextRenewalAt
                      ? `next attempt ${formatTime(data.nextRenewalAt)}, including retries`
                      : "none scheduled"
                  }
                />
                <Figure label="Webhooks waiting" value={formatCount(data.webhooksPending)} note="to be delivered" />
              </Figures>
              <Nodes nodes={data.rpcNodes} />
              <Lanes lanes={data.lanes} />
              <Health data={data} />
            </>
          );
        }}
      </Shown>
      <Costs query={query} choices={choices} />
      <Providers query={query} />
    </>
  );
}

/** Lag in blocks from which a node's answers may lack what another node has. */
const FAR_BEHIND = 5;

function Nodes({ nodes }: { nodes: SystemWire["rpcNodes"] }) {
  return (
    <Panel title="RPC nodes" note="Requests go to the first node that answers; the others are fallbacks.">
      <Table
        caption="RPC nodes"
        empty="No node is configured."
        rows={nodes}
        columns={[
          { title: "No.", isMinor: true, cell: (row) => String(row.position) },
          {
            title: "Host",
            cell: (row) => (
              <>
                <Cut text={row.host} />
                {row.lastFault && <Narrow>{row.lastFault.code}</Narrow>}
                {row.latencyMs !== undefined && <Narrow>answers in {formatMs(row.latencyMs)}</Narrow>}
              </>
            ),
          },
          { title: "State", cell: (row) => <Status of={row.status} /> },
          {
            title: "Head",
            isNumber: true,
            isMinor: true,
            cell: (row) => (row.head === undefined ? "–" : `#${formatCount(row.head)}`),
          },
          {
            title: "Behind",
            isNumber: true,
            cell: (row) =>
              row.behind === undefined ? (
                "–"
              ) : (
                <span class={row.behind < FAR_BEHIND ? undefined : "note waiting"}>{plural(row.behind, "block")}</span>
              ),
          },
          {
            title: "Latency",
            isNumber: true,
            isMinor: true,
            cell: (row) => (row.latencyMs === undefined ? "–" : formatMs(row.latencyMs)),
          },
          {
            title: "Last answer",
            isMinor: true,
            cell: (row) => (row.answeredSec === undefined ? "never" : `${formatSpan(row.answeredSec)} ago`),
          },
          {
            title: "Last error",
            isMinor: true,
            cell: ({ lastFault }) =>
              lastFault ? (
                <>
                  <code>{lastFault.code}</code> {formatSpan(lastFault.agoSec)} ago
                </>
              ) : (
                "none"
              ),
          },
        ]}
      />
    </Panel>
  );
}

function Lanes({ lanes }: { lanes: AnswerAt<"GET", "/operator/system">["lanes"] }) {
  return (
    <Panel title="Relayer keys" note="Each sends transactions by itself and pays gas from its balance.">
      <Table
        caption="Relayer keys"
        empty="None: no process has the relayer role."
        rows={lanes}
        columns={[
          {
            title: "Key",
            isProse: true,
            cell: (row) => (
              <>
                <Hex value={row.address} />
                {row.daysLeft !== undefined && (
                  <span class="note line">
                    gas for {row.daysLeft > LONG_DAYS ? "more than ten years" : plural(row.daysLeft, "day")}
                  </span>
                )}
                <Narrow>
                  {formatCount(row.inFlight)} in flight, {formatCount(row.queued)} queued
                </Narrow>
                {row.reason && <span class="note line bad">{row.reason}</span>}
              </>
            ),
          },
          { title: "State", cell: (row) => <Status of={row.isWell ? row.status : "fails"} /> },
          {
            title: "Balance",
            isNumber: true,
            cell: (row) => (row.balanceWei === undefined ? "–" : formatCoin(row.balanceWei)),
          },
          { title: "In flight", isNumber: true, isMinor: true, cell: (row) => formatCount(row.inFlight) },
          { title: "Queued", isNumber: true, isMinor: true, cell: (row) => formatCount(row.queued) },
          {
            title: "Oldest",
            isNumber: true,
            isMinor: true,
            cell: (row) => (row.inFlight + row.queued === 0 ? "–" : formatSpan(row.oldestPendingSec)),
          },
        ]}
      />
    </Panel>
  );
}

function Costs({ query, choices }: Pick<Range, "query" | "choices">) {
  const costs = useGet("/operator/costs", query);
  return (
    <Panel
      title="Costs"
      aside={choices}
      note="Gas used times gas price, from the receipts of final transactions, by purpose; in cents at the coin price that the operator set."
    >
      <Shown of={costs}>
        {(data) => {
          const total = (of: "transactions" | "failed" | "items") =>
            formatCount(data.purposes.reduce((sum, row) => sum + row[of], 0));
          const { times, placeOf, formatAt } = stepsOf(data, "day");
          const names = seriesNames(data.purposes.map(({ purpose }) => purpose));
          const series = names.map((name, index) => {
            const values = times.map(() => 0);
            for (const point of data.points) {
              const place = placeOf(point.at);
              const isOwn = point.purpose === name || (name === OTHERS && !names.includes(point.purpose));
              if (isOwn && place >= 0) values[place] = (values[place] ?? 0) + point.transactions;
            }
            return { name, color: `--s${index + 1}`, values, texts: values.map(formatCount) };
          });
          return (
            <>
              <Table
                caption="Costs by purpose"
                empty={<Empty title="No transaction was final in this range." />}
                rows={data.purposes}
                columns={[
                  {
                    title: "Purpose",
                    cell: (row) => (
                      <>
                        <Cut text={row.purpose} />
                        <Narrow>
                          {plural(row.transactions, "transaction")}, {formatCount(row.failed)} failed
                        </Narrow>
                      </>
                    ),
                    total: "Total",
                  },
                  {
                    title: "Transactions",
                    isNumber: true,
                    isMinor: true,
                    cell: (row) => formatCount(row.transactions),
                    total: total("transactions"),
                  },
                  {
                    title: "Failed",
                    isNumber: true,
                    isMinor: true,
                    cell: (row) => formatCount(row.failed),
                    total: total("failed"),
                  },
                  { title: "Items", isNumber: true, cell: (row) => formatCount(row.items), total: total("items") },
                  {
                    title: "Gas each",
                    isNumber: true,
                    isMinor: true,
                    cell: (row) => (row.gasPerItem === undefined ? "–" : formatCount(row.gasPerItem)),
                  },
                  { title: "Cost each", isNumber: true, cell: (row) => costOf(row) },
                  {
                    title: "vs 1 ¢",
                    isMinor: true,
                    cell: (row) =>
                      row.centsPerItem !== undefined && (
                        <Bar share={row.centsPerItem} tone={row.centsPerItem < 1 ? "good" : "bad"} />
                      ),
                  },
                ]}
              />
              <Chart
                title="Transactions"
                unit="transactions"
                height={160}
                empty=""
                times={times}
                series={series}
                formatAt={formatAt}
              />
            </>
          );
        }}
      </Shown>
    </Panel>
  );
}

/** Colours of a chart. */
const MOST_SERIES = 6;
const OTHERS = "others";

/** Every purpose; when there are too many, the last one combines the rest. */
const seriesNames = (purposes: readonly string[]): readonly string[] =>
  purposes.length <= MOST_SERIES ? purposes : [...purposes.slice(0, MOST_SERIES - 1), OTHERS];

function costOf({ centsPerItem, weiPerItem }: ServiceCostsWire["purposes"][number]): string {
  if (centsPerItem !== undefined) return formatCents(centsPerItem);
  return weiPerItem === undefined ? "–" : `${formatCoin(weiPerItem)} coins`;
}

function Providers({ query }: { query: Query }) {
  const money = useMoney("short");
  const providers = useGet("/operator/providers", { ...query, limit: 50 });
  return (
    <Panel title="Providers" note="Payments received in the same range.">
      <Shown of={providers}>
        {(data) => (
          <Table
            caption="Providers"
            empty={<Empty title="Nobody was paid in this range." />}
            rows={data.providers}
            columns={[
              { title: "Provider", cell: (row) => <Hex value={row.provider} /> },
              { title: "Payments", isNumber: true, cell: (row) => formatCount(row.count) },
              { title: "Volume", isNumber: true, cell: (row) => money(row.amount, data.token) },
              {
                title: "Compared with the first",
                isMinor: true,
                cell: (row) => <Bar share={Number(row.amount) / Number(data.providers[0]?.amount ?? 1)} />,
              },
            ]}
          />
        )}
      </Shown>
    </Panel>
  );
}
