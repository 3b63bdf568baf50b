/** One-time payments, newest first. */

import { useState } from "preact/hooks";
import type { PaymentListWire, SupportedWire } from "turnpike/facilitator";
import { formatAmount, formatTime } from "../format";
import { Choice, Download, Hex, Pager, Panel, Shown, Status, Table } from "../parts";
import { useGet, useQueryField } from "../use";

const STATUSES = { all: "All", settled: "Settled", pending: "Pending", failed: "Failed" };
const DEFAULT_DECIMALS = 6;

export function Payments() {
  const [status, setStatus] = useQueryField("status", "all");
  const [trail, setTrail] = useState<readonly string[]>([]);
  const filter = { status: status === "all" ? undefined : status };
  const list = useGet<PaymentListWire>("/analytics/payments", { ...filter, cursor: trail.at(-1), limit: 50 });
  const supported = useGet<SupportedWire>("/supported");
  const decimalsOf = (token: string): number =>
    (supported.kind === "ready" && supported.data.tokens.find(({ address }) => address === token)?.decimals) ||
    DEFAULT_DECIMALS;
  return (
    <>
      <div class="controls">
        <Choice
          label="Status"
          value={status}
          options={STATUSES}
          onChange={(next) => {
            setTrail([]);
            setStatus(next);
          }}
        />
        <Download path="/analytics/payments.csv" query={filter} name="turnpike-payments.csv" />
      </div>
      <Panel title="One-time payments">
        <Shown of={list}>
          {({ payments, next }) => (
            <>
              <Table
                caption="One-time payments, newest first"
                empty="No payment yet. Whoever pays a gated route of yours once shows up here."
                rows={payments}
                columns={[
                  { title: "Accepted", cell: (row) => formatTime(row.acceptedAt) },
                  { title: "Status", cell: (row) => <Status of={row.status} /> },
                  { title: "Amount", isNumber: true, cell: (row) => formatAmount(row.amount, decimalsOf(row.token)) },
                  { title: "Payer", cell: (row) => <Hex value={row.payer} /> },
                  { title: "Resource", cell: (row) => row.resource },
                  { title: "Transaction", cell: (row) => (row.transaction ? <Hex value={row.transaction} /> : "–") },
                  { title: "Reason", cell: (row) => row.reason ?? "" },
                ]}
              />
              <Pager
                next={next}
                hasBack={trail.length > 0}
                onMore={() => next && setTrail([...trail, next])}
                onBack={() => setTrail(trail.slice(0, -1))}
              />
            </>
          )}
        </Shown>
      </Panel>
    </>
  );
}
