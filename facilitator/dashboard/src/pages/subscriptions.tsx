/** Who subscribes and how each stands. */
import type { SubscriberListWire } from "turnpike/facilitator";
import { formatDate } from "../format";
import { Bar, Choice, Controls, Download, Empty, Hex, Pager, Panel, Shown, Status, Table } from "../parts";
import { usePlanNames } from "../plan-names";
import { useGet, useQueryField, useTrail } from "../use";

export function Subscriptions() {
  const [planId, setPlanId] = useQueryField("plan", "");
  const trail = useTrail(planId);
  const filter = { planId: planId || undefined };
  const list = useGet<SubscriberListWire>("/analytics/subscriptions", { ...filter, cursor: trail.cursor, limit: 50 });
  const plans = usePlanNames();
  return (
    <>
      <Controls>
        <Choice label="Plan" value={planId} options={plans.options} onChange={setPlanId} />
        <Download path="/analytics/subscriptions.csv" query={filter} name="turnpike-subscriptions.csv" />
      </Controls>
      <Panel title="Subscriptions" note="Newest first. A record that was rekeyed is shown under its new name.">
        <Shown of={list}>
          {({ subscriptions, next }) => (
            <>
              <Table
                caption="Subscriptions"
                empty={
                  <Empty title="Nobody subscribes yet.">
                    A gate that names one of your plans offers it in every 402; an agent's <code>subscribe()</code>{" "}
                    shows up here.
                  </Empty>
                }
                rows={subscriptions}
                columns={[
                  {
                    title: "Subscription",
                    cell: (row) => (
                      <a href={`#/subscriptions/${row.idHash}`}>
                        <Hex value={row.idHash} />
                      </a>
                    ),
                  },
                  { title: "Status", cell: (row) => <Status of={row.status} /> },
                  { title: "Plan", cell: (row) => plans.nameOf(row.planId) },
                  { title: "Since", cell: (row) => formatDate(row.createdAt) },
                  {
                    title: "Paid through",
                    cell: (row) => `${formatDate(row.paidThrough)}${row.ending ? ", then ends" : ""}`,
                  },
                  { title: "Subscriber", isMinor: true, cell: (row) => <Hex value={row.subscriber} /> },
                  {
                    title: "Allowance",
                    isMinor: true,
                    cell: ({ allowance: { cap, spent } }) =>
                      cap === "0" ? "–" : <Bar share={Number((BigInt(spent) * 1_000n) / BigInt(cap)) / 1_000} />,
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
