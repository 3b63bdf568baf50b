/** Shows each plan's price, payee, subscribers and revenue. */
import type { OverviewWire, PlanFiguresWire } from "turnpike/facilitator";
import { formatCount, formatPeriod, formatTime, planName } from "../format";
import { ActLink } from "../links";
import {
  Bar,
  Controls,
  Download,
  Empty,
  Hex,
  Narrow,
  orderedBy,
  Pager,
  Panel,
  PlanLink,
  Shown,
  Status,
  Table,
} from "../parts";
import { useRange } from "../range";
import { useGet, useMoney, useQueryField, useTrail } from "../use";

type Row = PlanFiguresWire["plans"][number];

/** Whatever is stopped is deprecated, too. */
export const stateOf = ({ stopped, deprecated }: Row): string =>
  stopped ? "stopped" : deprecated ? "deprecated" : "open";

/** All that was received, but for one-time payments. */
const ofPlans = ({ volume, byScheme }: OverviewWire): string =>
  (BigInt(volume.amount) - BigInt(byScheme["one-time"]?.amount ?? "0")).toString();

export function Plans() {
  const money = useMoney("short");
  const { query, choices } = useRange();
  const [sort, setSort] = useQueryField("sort", "revenue");
  const ordered = { ...query, ...orderedBy(sort) };
  const trail = useTrail(JSON.stringify(ordered));
  const plans = useGet("/analytics/plans", { ...ordered, cursor: trail.cursor, limit: 50 });
  const { data: all } = useGet("/analytics/overview", query);
  return (
    <>
      <Controls>
        {choices}
        <ActLink act="create-plan">Create a plan</ActLink>
        <Download path="/analytics/plans.csv" query={query} name="turnpike-plans.csv" />
      </Controls>
      <Panel note="Revenue is that of the range. Net is revenue without the refunds that settled in the range. Active subscriptions, and what they pay every 30 days, are as of now.">
        <Shown of={plans}>
          {({ plans: rows, token, next }) => (
            <>
              <Table
                caption="Plans"
                empty={
                  <Empty title="No plan yet.">
                    <code>createPlan</code> on the contract makes one, too; it shows up here a block later.
                  </Empty>
                }
                rows={rows}
                id={({ planId }) => planId}
                sort={sort}
                onSort={setSort}
                columns={[
                  {
                    title: "Plan",
                    cell: (row) => (
                      <>
                        <PlanLink of={row.planId} name={planName(row.metadata, row.planId)} />
                        <span class="note line">
                          {money(row.price, token)} / {formatPeriod(row.period)}
                        </span>
                        {row.proposedPayTo && (
                          <span class="note line bad">
                            Another payee is proposed: <Hex value={row.proposedPayTo.payTo} /> can be paid from{" "}
                            {formatTime(row.proposedPayTo.effectiveAt)} on. Withdraw it by <code>withdrawPayTo</code>{" "}
                            unless it is yours.
                          </span>
                        )}
                        {row.transferredTo && (
                          <span class="note line">
                            Transferred to <Hex value={row.transferredTo} />
                          </span>
                        )}
                        {row.recurring !== "0" && <Narrow>{money(row.recurring, token)} recurring</Narrow>}
                        {row.deprecated && <Narrow>{stateOf(row)}</Narrow>}
                      </>
                    ),
                    total: "All plans",
                  },
                  {
                    title: "Active",
                    sort: ["active", "-active"],
                    isNumber: true,
                    cell: (row) => formatCount(row.active),
                    total: all && formatCount(all.subscriptions.active),
                  },
                  {
                    title: "Recurring",
                    sort: ["recurring", "-recurring"],
                    isNumber: true,
                    isMinor: true,
                    cell: (row) => money(row.recurring, token),
                    total: all && money(all.subscriptions.recurring, token),
                  },
                  {
                    title: "Revenue",
                    sort: ["revenue", "-revenue"],
                    isNumber: true,
                    cell: (row) => (
                      <>
                        {money(row.amount, token)}
                        {row.refunds.count > 0 && <span class="note line">net {money(row.net, token)}</span>}
                      </>
                    ),
                    total: all && money(ofPlans(all), token),
                  },
                  {
                    title: "Share",
                    isSpare: true,
                    cell: (row) => <Bar share={all ? Number(row.amount) / (Number(ofPlans(all)) || 1) : 0} />,
                  },
                  {
                    title: "Of which overage",
                    isNumber: true,
                    isSpare: true,
                    cell: (row) => money(row.byScheme.overage?.amount ?? "0", token),
                  },
                  {
                    title: "State",
                    isMinor: true,
                    cell: (row) => <Status of={stateOf(row)} />,
                  },
                ]}
              />
              <Pager trail={trail} next={next} names={["← Back", "More →"]} />
            </>
          )}
        </Shown>
      </Panel>
    </>
  );
}
