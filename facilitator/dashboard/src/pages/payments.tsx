/** One-time payments, newest first. */
import type { PaymentListWire } from "turnpike/facilitator";
import { formatTime } from "../format";
import { Choice, Controls, Cut, Download, Empty, Hex, Narrow, Pager, Panel, Shown, Status, Table } from "../parts";
import { useGet, useMoney, useQueryField, useTrail } from "../use";

const STATUSES = { all: "All", settled: "Settled", pending: "Pending", failed: "Failed" };

export function Payments() {
  const money = useMoney();
  const [status, setStatus] = useQueryField("status", "all");
  const [payer, setPayer] = useQueryField("payer", "");
  const trail = useTrail(`${status} ${payer}`);
  const filter = { status: status === "all" ? undefined : status, payer: payer || undefined };
  const list = useGet<PaymentListWire>("/analytics/payments", { ...filter, cursor: trail.cursor, limit: 50 });
  return (
    <>
      <Controls>
        <Choice label="Status" value={status} options={STATUSES} onChange={setStatus} />
        <Download path="/analytics/payments.csv" query={filter} name="turnpike-payments.csv" />
        {payer && (
          <button type="button" class="quiet" onClick={() => setPayer("")}>
            Everyone's, not only <Hex value={payer} />
          </button>
        )}
      </Controls>
      <Panel title="One-time payments" note="Newest first.">
        <Shown of={list}>
          {({ payments, next }) => (
            <>
              <Table
                caption="One-time payments, newest first"
                empty={
                  <Empty title="No payment yet.">
                    {status === "all"
                      ? "Whoever pays a gated route of yours once shows up here, a block later."
                      : "No payment has this status."}
                  </Empty>
                }
                rows={payments}
                columns={[
                  {
                    title: "Accepted",
                    cell: (row) => (
                      <>
                        {formatTime(row.acceptedAt)}
                        <Narrow>
                          <Resource of={row.resource} />
                        </Narrow>
                      </>
                    ),
                  },
                  {
                    title: "Status",
                    cell: (row) => (
                      <>
                        <Status of={row.status} />
                        {row.reason && <span class="note line">{row.reason}</span>}
                      </>
                    ),
                  },
                  { title: "Amount", isNumber: true, cell: (row) => money(row.amount, row.token) },
                  { title: "Resource", isMinor: true, cell: (row) => <Resource of={row.resource} /> },
                  {
                    title: "Payer",
                    isMinor: true,
                    cell: (row) => (
                      <a href={`#/payments?payer=${row.payer}`}>
                        <Hex value={row.payer} />
                      </a>
                    ),
                  },
                  {
                    title: "Transaction",
                    isMinor: true,
                    cell: (row) => (row.transaction ? <Hex value={row.transaction} /> : "–"),
                  },
                ]}
              />
              <Pager trail={trail} next={next} />
            </>
          )}
        </Shown>
      </Panel>
    </>
  );
}

/** The path is what tells them apart; the whole is one hover away. */
function Resource({ of }: { of: string }) {
  return <Cut text={URL.canParse(of) ? new URL(of).pathname : of} whole={of} />;
}
