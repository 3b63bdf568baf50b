/** One-time payments, filtered and ordered by the API. */
import type { ComponentChildren } from "preact";
import type { PaymentListWire } from "turnpike/facilitator";
import { formatTime } from "../format";
import { OnChain } from "../links";
import {
  Choice,
  Controls,
  Cut,
  Download,
  Empty,
  Narrow,
  Pager,
  Panel,
  PayerLink,
  Shown,
  Status,
  Table,
} from "../parts";
import { PayerField, TextField } from "../text-field";
import { useGet, useMoney, useQueryField, useTrail } from "../use";

const DAY_SEC = 86_400;
const STATUSES = { all: "All", settled: "Settled", pending: "Pending", failed: "Failed" };

export function Payments() {
  const [status, setStatus] = useQueryField("status", "all");
  const [payer, setPayer] = useQueryField("payer", "");
  const [route, setRoute] = useQueryField("route", "");
  const [since, setSince] = useQueryField("since", "");
  const [until, setUntil] = useQueryField("until", "");
  const [sort, setSort] = useQueryField("sort", "newest");
  const filter = {
    status: status === "all" ? undefined : status,
    payer: payer || undefined,
    route: route || undefined,
    from: dayOf(since),
    to: dayOf(until, DAY_SEC),
    sort,
  };
  const trail = useTrail(JSON.stringify(filter));
  const list = useGet("/analytics/payments", { ...filter, cursor: trail.cursor, limit: 50 });
  const isFiltered = status !== "all" || route !== "" || since !== "" || until !== "";
  return (
    <>
      <Controls areMany>
        <Choice label="Status" value={status} options={STATUSES} onChange={setStatus} />
        <TextField label="From" type="date" value={since} onChange={setSince} />
        <TextField label="To" type="date" value={until} onChange={setUntil} />
        <PayerField value={payer} onChange={setPayer} />
        <TextField label="Route" value={route} onChange={setRoute} />
        <Download path="/analytics/payments.csv" query={filter} name="turnpike-payments.csv" />
      </Controls>
      <Panel
        title="One-time payments"
        note={
          <>
            Days are UTC. Sums of what settled are in the <a href="#/account?kind=one-time">ledger</a>.
          </>
        }
      >
        <Shown of={list}>
          {({ payments, next }) => (
            <>
              <PaymentTable
                payments={payments}
                sort={sort}
                onSort={setSort}
                empty={
                  payer ? (
                    <Empty title="No one-time payment by this payer.">
                      Its page lists <a href={`#/payers/${payer}`}>everything that it paid</a>, with subscriptions.
                    </Empty>
                  ) : isFiltered ? (
                    <Empty title="No payment is like this.">
                      Show <a href="#/payments">all payments</a>.
                    </Empty>
                  ) : (
                    <Empty title="No payment yet.">
                      A payment for one of your gated routes appears here one block later.
                    </Empty>
                  )
                }
              />
              <Pager trail={trail} next={next} {...(sort === "oldest" && { names: ["← Older", "Newer →"] })} />
            </>
          )}
        </Shown>
      </Panel>
    </>
  );
}

/** @returns undefined for no day */
function dayOf(day: string, plusSec = 0): number | undefined {
  const at = Date.parse(`${day}T00:00:00Z`);
  return Number.isNaN(at) ? undefined : at / 1_000 + plusSec;
}

interface PaymentTableProps {
  readonly payments: PaymentListWire["payments"];
  readonly empty: ComponentChildren;
  readonly sort?: string;
  readonly onSort?: (sort: string) => void;
}

export function PaymentTable({ payments, empty, ...order }: PaymentTableProps) {
  const money = useMoney();
  return (
    <Table
      caption="One-time payments"
      {...order}
      empty={empty}
      rows={payments}
      id={({ id }) => id}
      columns={[
        {
          title: "Accepted",
          sort: ["newest", "oldest"],
          cell: (row) => (
            <>
              <a href={`#/payments/${row.id}`}>{formatTime(row.acceptedAt)}</a>
              <Narrow>
                <Resource of={row.resource} />
              </Narrow>
              <Narrow>
                <PayerLink of={row.payer} />
              </Narrow>
              {row.transaction && (
                <Narrow>
                  <OnChain of="tx" value={row.transaction} short />
                </Narrow>
              )}
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
          cell: (row) => (row.transaction ? <OnChain of="tx" value={row.transaction} short /> : "–"),
        },
      ]}
    />
  );
}

/** The path distinguishes resources; the full URL is shown on hover. */
function Resource({ of }: { of: string }) {
  return <Cut text={URL.canParse(of) ? new URL(of).pathname : of} whole={of} />;
}
