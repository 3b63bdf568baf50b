/** Shows what fell due and was not charged: lost, still retried, or collected later. */
import type { FailedRenewalsWire } from "turnpike/facilitator";
import type { Query } from "../api";
import { formatCount } from "../format";
import { Download, Empty, Narrow, Panel, Shown, Table } from "../parts";
import { useGet, useMoney } from "../use";
import { CAUSES } from "./causes";

type Sum = FailedRenewalsWire["lost"];

export function FailedRenewals({ query }: { query: Query }) {
  const money = useMoney("short");
  const figures = useGet("/analytics/failed-renewals", query);
  const renewals = useGet("/analytics/renewals", query);
  const renewed = renewals.data?.renewed;
  const name = "turnpike-failed-renewals.csv";
  return (
    <Panel
      title="Renewals that failed"
      note="The price of each period that could not be charged when due, by the cause of its first failed attempt. Gate reports are not used."
      aside={<Download path="/analytics/failed-renewals.csv" query={query} name={name} title="Save renewals as CSV" />}
    >
      <Shown of={figures}>
        {({ causes, token, lost, open, recovered }) => {
          const cell = ({ count, amount }: Sum) =>
            count === 0 ? (
              "–"
            ) : (
              <>
                {money(amount, token)} <span class="note">({formatCount(count)})</span>
              </>
            );
          return (
            <Table
              caption="Renewals that failed, by cause"
              empty={
                <Empty
                  title={
                    renewed === undefined
                      ? "No renewal failed in this range."
                      : renewed === 0
                        ? "No renewal fell due in this range."
                        : "Every renewal of this range was charged when it fell due."
                  }
                />
              }
              rows={causes}
              columns={[
                {
                  title: "Cause",
                  isProse: true,
                  cell: ({ cause, open, recovered }) => (
                    <>
                      {CAUSES[cause] ?? "Refused"} <code>{cause}</code>
                      {open.count > 0 && <Narrow>{money(open.amount, token)} still retried</Narrow>}
                      {recovered.count > 0 && <Narrow>{money(recovered.amount, token)} recovered</Narrow>}
                    </>
                  ),
                  total: "Total",
                },
                { title: "Lost", isNumber: true, cell: (row) => cell(row.lost), total: cell(lost) },
                {
                  title: "Still retried",
                  isNumber: true,
                  isMinor: true,
                  cell: (row) => cell(row.open),
                  total: cell(open),
                },
                {
                  title: "Recovered",
                  isNumber: true,
                  isMinor: true,
                  cell: (row) => cell(row.recovered),
                  total: cell(recovered),
                },
              ]}
            />
          );
        }}
      </Shown>
    </Panel>
  );
}
