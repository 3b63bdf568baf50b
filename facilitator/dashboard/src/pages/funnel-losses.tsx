/** Shows what the funnel lost: by cause and by resource. */
import { formatCount, plural } from "../format";
import { Bar, type Column, Cut, Empty, Narrow, Panel, Table } from "../parts";
import { useMoney } from "../use";
import { CAUSES } from "./causes";
import { hasGateReports, stepOf, type ViewProps } from "./funnel-data";

export function LossesByCause({ data }: ViewProps) {
  const money = useMoney("short");
  const { causes, turnedAway } = data;
  const asked = stepOf(data, "asked");
  const hasReports = hasGateReports(data);
  const worst = causes.reduce((max, { lost }) => Math.max(max, Number(lost)), 1);
  return (
    <Panel
      title="Lost revenue by cause"
      note="Quoted prices that were not followed by access, largest loss first. A payment counts against a price of its resource, a signup against its plan's price, and a resumption against the price of a paused subscription. These are not amounts that moved; see Received."
    >
      <Table
        caption="Lost revenue by cause"
        empty={<Empty title={hasReports ? "Nothing was lost in this range." : "No data: no gate reports."} />}
        rows={causes}
        columns={[
          {
            title: "Cause",
            isProse: true,
            cell: (row) => {
              const [code = "", ...detail] = row.cause.split("/");
              return (
                <>
                  {CAUSES[code] ?? "Refused"}{" "}
                  <code>
                    {code}
                    {detail.map((part) => (
                      <>
                        /<wbr />
                        {part}
                      </>
                    ))}
                  </code>
                  <Narrow>
                    {row.offer}, {money(row.asked, data.token)} asked
                  </Narrow>
                </>
              );
            },
            total: "Total",
          },
          { title: "Offer", isMinor: true, cell: (row) => row.offer },
          {
            title: "Requests",
            isNumber: true,
            cell: (row) => formatCount(row.count),
            total: formatCount(asked?.count ?? 0),
          },
          ...amountColumns<(typeof causes)[number]>(data, money, (row) => row.asked),
          { title: "Share", isSpare: true, cell: (row) => <Bar share={Number(row.lost) / worst} tone="bad" /> },
        ]}
      />
      {turnedAway.length > 0 && (
        <p class="note">
          Refused without a price, or because a payment was presented again:{" "}
          {turnedAway.map(({ cause, count }) => `${cause} (${formatCount(count)})`).join(", ")}.
        </p>
      )}
      {data.lostReports > 0 && (
        <p class="note">{plural(data.lostReports, "observation was", "observations were")} dropped by a busy gate.</p>
      )}
    </Panel>
  );
}

export function ByResource({ data }: ViewProps) {
  const money = useMoney("short");
  const { resources } = data;
  const asked = stepOf(data, "asked");
  const served = stepOf(data, "served");
  const shown = resources.filter(
    ({ asked: { count }, paid, served: done, bySubscription }) =>
      count + paid.count + done.count + bySubscription.count > 0,
  );
  return (
    <Panel title="By resource" note="Most requested first.">
      <Table
        caption="Conversion by resource"
        empty={<Empty title="No gate reported a resource." />}
        rows={shown}
        columns={[
          {
            title: "Resource",
            cell: (row) => (
              <>
                <Cut text={row.resource} />
                <Narrow>
                  {formatCount(row.served.count)} served, {formatCount(row.bySubscription.count)} by subscription
                </Narrow>
                <Narrow>{money(row.asked.amount, data.token)} asked</Narrow>
              </>
            ),
            total: "Total",
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
          ...amountColumns<(typeof shown)[number]>(data, money, (row) => row.asked.amount),
        ]}
      />
    </Panel>
  );
}

type Amounts = Readonly<Record<"answered" | "lost", string>>;

/** Columns of the amounts asked for, followed by access, and lost. */
function amountColumns<T extends Amounts>(
  data: ViewProps["data"],
  money: ReturnType<typeof useMoney>,
  askedOf: (row: T) => string,
): Column<T>[] {
  const { token, answered, lost } = data;
  const asked = stepOf(data, "asked")?.amount ?? "0";
  return [
    {
      title: "Asked",
      isNumber: true,
      isMinor: true,
      cell: (row) => money(askedOf(row), token),
      total: money(asked, token),
    },
    {
      title: "Followed by access",
      isNumber: true,
      isMinor: true,
      cell: (row) => money(row.answered, token),
      total: money(answered, token),
    },
    { title: "Lost", isNumber: true, cell: (row) => money(row.lost, token), total: money(lost, token) },
  ];
}
