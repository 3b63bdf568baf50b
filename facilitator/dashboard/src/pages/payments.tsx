/** One-time payments, newest first. */
import type { ComponentChildren } from "preact";
import type { PaymentListWire } from "turnpike/facilitator";
import { formatTime } from "../format";
import {
  Choice,
  Controls,
  Cut,
  Download,
  Empty,
  Hex,
  Narrow,
  Pager,
  Panel,
  PayerLink,
  Shown,
  Status,
  Table,
} from "../parts";
import { useGet, useMoney, useQueryField, useTrail } from "../use";

const STATUSES = { all: "All", settled: "Settled", pending: "Pending", failed: "Failed" };

export function Payments() {
  const [status, setStatus] = useQueryField("status", "all");
  const [payer, setPayer] = useQueryField("payer", "");
  const trail = useTrail(`${status} ${payer}`);
  const filter = { status: status === "all" ? undefined : status, payer: payer || undefined };
  const list = useGet("/analytics/payments", { ...filter, cursor: trail.cursor, limit: 50 });
  return (
    <>
      <Controls>
        <Choice label="Status" value={status} options={STATUSES} onChange={setStatus} />
        <Download path="/analytics/payments.csv" query={filter} name="turnpike-payments.csv" />
        {payer && (
          <button type="button" class="quiet" onClick={() => setPayer("")}>
            All payers, not only <Hex value={payer} />
          </button>
        )}
      </Controls>
      <Panel title="One-time payments" note="Newest first.">
        <Shown of={list}>
          {({ payments, next }) => (
            <>
              <PaymentTable
                payments={payments}
                empty={
                  payer ? (
                    <Empty title="No one-time payment by this payer.">
                      Its page lists <a href={`#/payers/${payer}`}>everything that it paid</a>, with subscriptions.
                    </Empty>
                  ) : status === "all" ? (
                    <Empty title="No payment yet.">
                      A payment for one of your gated routes appears here one block later.
                    </Empty>
                  ) : (
                    <Empty title="No payment has this status." />
                  )
                }
              />
              <Pager trail={trail} next={next} />
            </>
          )}
        </Shown>
      </Panel>
    </>
  );
}

export function PaymentTable({ payments, empty }: { payments: PaymentListWire["payments"]; empty: ComponentChildren }) {
  const money = useMoney();
  return (
    <Table
      caption="One-time payments, newest first"
      empty={empty}
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
              {row.refunded && <span class="note line">{money(row.refunded, row.token)} refunded</span>}
            </>
          ),
        },
        { title: "Amount", isNumber: true, cell: (row) => money(row.amount, row.token) },
        { title: "Resource", isMinor: true, cell: (row) => <Resource of={row.resource} /> },
        { title: "Payer", isMinor: true, cell: (row) => <PayerLink of={row.payer} /> },
        {
          title: "Transaction",
          isSpare: true,
          cell: (row) => (row.transaction ? <Hex value={row.transaction} /> : "–"),
        },
      ]}
    />
  );
}

/** The path distinguishes resources; the full URL is shown on hover. */
function Resource({ of }: { of: string }) {
  return <Cut text={URL.canParse(of) ? new URL(of).pathname : of} whole={of} />;
}
