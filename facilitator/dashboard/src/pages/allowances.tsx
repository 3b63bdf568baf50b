/** Shows what subscribers allow beyond their plan, how much is used, and which allowances are nearly exhausted. */
import type { AllowanceListWire } from "turnpike/facilitator";
import { formatCount, formatDate } from "../format";
import {
  Bar,
  Choice,
  Controls,
  Download,
  Empty,
  Figure,
  Figures,
  Narrow,
  Pager,
  Panel,
  PlanLink,
  Shown,
  Status,
  SubscriptionLink,
  Table,
} from "../parts";
import { usePlanNames } from "../plan-names";
import { useGet, useMoney, useQueryField, useSigned, useTrail } from "../use";

/** From this share of the cap on, the next calls may be answered 402. */
const AT_RISK_PERCENT = 80;

type Row = AllowanceListWire["allowances"][number];

export function Allowances() {
  const money = useMoney();
  const plans = usePlanNames();
  const [planId, setPlanId] = useQueryField("plan", "");
  const trail = useTrail(planId);
  const filter = { planId: planId || undefined };
  const list = useGet("/analytics/allowances", { ...filter, cursor: trail.cursor, limit: 50 });
  return (
    <>
      <Controls>
        <Choice label="Plan" value={planId} options={plans.options} onChange={setPlanId} />
        <Download path="/analytics/allowances.csv" query={filter} name="turnpike-allowances.csv" />
      </Controls>
      <Shown of={list}>
        {({ allowances, next }) => (
          <>
            <Key rows={allowances} isWhole={!next && !trail.hasBack} />
            <Panel note="Each cycle a subscriber can be charged up to its cap for use beyond the plan. At the cap, calls return 402 until the cap is raised or the next cycle begins.">
              <Table
                caption="Allowances"
                empty={
                  <Empty title={planId ? "Nobody allows overage of this plan." : "Nobody allows overage yet."}>
                    A subscriber sets a cap when it subscribes to a metered plan (<code>maxOverage</code>).
                  </Empty>
                }
                rows={allowances}
                columns={[
                  {
                    title: "Subscription",
                    cell: (row) => (
                      <>
                        <SubscriptionLink of={row.idHash} />
                        <Narrow>
                          {plans.nameOf(row.planId)} <Status of={stateOf(row)} />
                        </Narrow>
                      </>
                    ),
                  },
                  {
                    title: "Plan",
                    isMinor: true,
                    cell: (row) => <PlanLink of={row.planId} name={plans.nameOf(row.planId)} />,
                  },
                  { title: "State", isMinor: true, cell: (row) => <Status of={stateOf(row)} /> },
                  {
                    title: "Used",
                    cell: (row) => (
                      <>
                        <span class="meter">
                          <Bar share={row.usedPercent / 100} tone={toneOf(row)} />
                          {row.usedPercent} %
                        </span>
                        <Narrow>
                          {money(row.spent, row.token)} of {money(row.cap, row.token)}
                        </Narrow>
                      </>
                    ),
                  },
                  { title: "Spent", isNumber: true, isMinor: true, cell: (row) => money(row.spent, row.token) },
                  { title: "Cap", isNumber: true, isMinor: true, cell: (row) => money(row.cap, row.token) },
                  { title: "Left", isNumber: true, isSpare: true, cell: (row) => money(row.remaining, row.token) },
                  { title: "Debits", isNumber: true, isSpare: true, cell: (row) => formatCount(row.debits) },
                  { title: "Cycle ends", isMinor: true, cell: (row) => formatDate(row.cycleEnds) },
                ]}
              />
              <Pager trail={trail} next={next} />
            </Panel>
          </>
        )}
      </Shown>
    </>
  );
}

function Key({ rows, isWhole }: { rows: readonly Row[]; isWhole: boolean }) {
  const money = useMoney();
  const { supported } = useSigned();
  // Amounts of two tokens are never added up.
  const token = rows[0]?.token;
  const live = rows.filter((row) => row.status === "ACTIVE" && row.cap !== "0" && row.token === token);
  const sum = (field: "cap" | "spent" | "remaining"): string =>
    live.reduce((total, row) => total + BigInt(row[field]), 0n).toString();
  const atRisk = live.filter((row) => stateOf(row) === "at risk").length;
  const exhausted = live.filter((row) => stateOf(row) === "exhausted").length;
  const name = supported.tokens.find(({ address }) => address === token)?.name;
  const inToken = supported.tokens.length > 1 && name ? ` in ${name}` : "";
  const note = `${isWhole ? "of active subscriptions" : "of those on this page"}${inToken}`;
  return (
    <Figures>
      <Figure label="Total of caps" value={money(sum("cap"), token)} note={note} />
      <Figure label="Used this cycle" value={money(sum("spent"), token)} note={note} />
      <Figure label="Left" value={money(sum("remaining"), token)} note="can still be charged" />
      <Figure
        label="At risk"
        value={formatCount(atRisk)}
        tone={atRisk > 0 ? "waiting" : undefined}
        note={`used ${AT_RISK_PERCENT} % of their cap or more`}
      />
      <Figure
        label="Exhausted"
        value={formatCount(exhausted)}
        tone={exhausted > 0 ? "bad" : undefined}
        note="further use returns 402"
      />
    </Figures>
  );
}

function stateOf({ cap, remaining, usedPercent, status }: Row): string {
  if (status !== "ACTIVE") return status;
  if (cap === "0") return "no overage";
  if (remaining === "0") return "exhausted";
  return usedPercent >= AT_RISK_PERCENT ? "at risk" : "ok";
}

function toneOf(row: Row) {
  const state = stateOf(row);
  return state === "exhausted" ? ("bad" as const) : state === "at risk" ? ("waiting" as const) : undefined;
}
