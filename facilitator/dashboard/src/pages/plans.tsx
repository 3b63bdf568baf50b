/** Each plan's price, subscribers and revenue. */
import type { PlanFiguresWire } from "turnpike/facilitator";
import { formatAmount, formatCount, formatInterval, planName } from "../format";
import { Choice, Hex, Panel, Shown, Table } from "../parts";
import { useGet, useQueryField } from "../use";

const RANGES = { "7": "7 days", "30": "30 days", "90": "90 days", "365": "1 year" };

export function Plans() {
  const [days, setDays] = useQueryField("days", "30");
  const plans = useGet<PlanFiguresWire>("/analytics/plans", { days, limit: 100 });
  return (
    <>
      <div class="controls">
        <Choice label="Range" value={days} options={RANGES} onChange={setDays} />
      </div>
      <Panel title="Plans" note="Highest revenue in the range first.">
        <Shown of={plans}>
          {({ plans: rows, decimals }) => {
            const most = rows.reduce((max, { amount }) => (BigInt(amount) > max ? BigInt(amount) : max), 1n);
            return (
              <Table
                caption="Plans"
                empty="No plan yet. `npm run plan:create` makes one."
                rows={rows}
                columns={[
                  { title: "Plan", cell: (row) => planName(row.metadata, row.planId) },
                  { title: "Id", cell: (row) => <Hex value={row.planId} /> },
                  {
                    title: "Price",
                    isNumber: true,
                    cell: (row) => `${formatAmount(row.price, decimals)} / ${formatInterval(row.interval)}`,
                  },
                  { title: "Active", isNumber: true, cell: (row) => formatCount(row.active) },
                  { title: "Recurring, 30 days", isNumber: true, cell: (row) => formatAmount(row.recurring, decimals) },
                  { title: "Revenue", isNumber: true, cell: (row) => formatAmount(row.amount, decimals) },
                  {
                    title: "of which overage",
                    isNumber: true,
                    cell: (row) => formatAmount(row.byScheme.overage?.amount ?? "0", decimals),
                  },
                  { title: "Share", cell: (row) => <Share part={BigInt(row.amount)} whole={most} /> },
                  { title: "Note", cell: (row) => (row.deprecated ? "deprecated" : "") },
                ]}
              />
            );
          }}
        </Shown>
      </Panel>
    </>
  );
}

function Share({ part, whole }: { part: bigint; whole: bigint }) {
  const percent = Number((part * 100n) / whole);
  return (
    <svg class="bar" viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true">
      <rect width={percent} height="8" fill="var(--s3)" />
    </svg>
  );
}
