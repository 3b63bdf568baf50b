import { formatDate, formatShare } from "../format";
import {
  Bar,
  Choice,
  Controls,
  Download,
  Empty,
  Narrow,
  Pager,
  Panel,
  PayerLink,
  PlanLink,
  Shown,
  Status,
  SubscriptionLink,
  Table,
} from "../parts";
import { usePlanNames } from "../plan-names";
import { useGet, useQueryField, useTrail } from "../use";

export function Subscriptions() {
  const [planId, setPlanId] = useQueryField("plan", "");
  const trail = useTrail(planId);
  const filter = { planId: planId || undefined };
  const list = useGet("/analytics/subscriptions", { ...filter, cursor: trail.cursor, limit: 50 });
  const plans = usePlanNames();
  return (
    <>
      <Controls>
        <Choice label="Plan" value={planId} options={plans.options} onChange={setPlanId} />
        <Download path="/analytics/subscriptions.csv" query={filter} name="turnpike-subscriptions.csv" />
      </Controls>
      <Panel note="Newest first. A record that was rekeyed is shown under its new name.">
        <Shown of={list}>
          {({ subscriptions, next }) => (
            <>
              <Table
                caption="Subscriptions"
                empty={
                  <Empty title={planId ? "Nobody subscribed to this plan." : "Nobody subscribes yet."}>
                    A gate that names one of your plans offers it in every 402; an agent's <code>subscribe()</code>{" "}
                    shows up here.
                  </Empty>
                }
                rows={subscriptions}
                id={({ idHash }) => idHash}
                columns={[
                  {
                    title: "Subscription",
                    cell: (row) => (
                      <>
                        <SubscriptionLink of={row.idHash} />
                        <Narrow>
                          <PlanLink of={row.planId} name={plans.nameOf(row.planId)} />
                        </Narrow>
                        <Narrow>
                          <PayerLink of={row.subscriber} />
                        </Narrow>
                      </>
                    ),
                  },
                  { title: "Status", cell: (row) => <Status of={row.status} /> },
                  {
                    title: "Plan",
                    isMinor: true,
                    cell: (row) => <PlanLink of={row.planId} name={plans.nameOf(row.planId)} />,
                  },
                  { title: "Since", isMinor: true, cell: (row) => formatDate(row.createdAt) },
                  {
                    title: "Paid through",
                    cell: (row) => (
                      <>
                        {formatDate(row.paidThrough)}
                        {row.intro && <span class="note line">introductory period</span>}
                        {row.ending && <span class="note line">then ends</span>}
                        {row.until !== undefined && !row.ending && (
                          <span class="note line">
                            {row.until > row.paidThrough ? `ends ${formatDate(row.until)}` : "then ends"}
                          </span>
                        )}
                        {row.nextPlanId !== undefined && (
                          <span class="note line">then {plans.nameOf(row.nextPlanId)}</span>
                        )}
                      </>
                    ),
                  },
                  { title: "Subscriber", isMinor: true, cell: (row) => <PayerLink of={row.subscriber} /> },
                  {
                    title: "Allowance",
                    isMinor: true,
                    cell: ({ allowance: { cap, spent } }) =>
                      cap === "0" ? "–" : <Used share={Number((BigInt(spent) * 1_000n) / BigInt(cap)) / 1_000} />,
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

/** For sighted users and for screen readers. */
function Used({ share }: { share: number }) {
  const text = `${formatShare(share, 1)} used`;
  return (
    <span title={text}>
      <Bar share={share} />
      <span class="hidden">{text}</span>
    </span>
  );
}
