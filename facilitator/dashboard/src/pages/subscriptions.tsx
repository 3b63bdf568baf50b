/** Who subscribes, how each stands, its allowance, and the story of one. */

import { useState } from "preact/hooks";
import type { EventList, PlanFiguresWire, SubscriberListWire, SubscriptionWire } from "turnpike/facilitator";
import { formatAmount, formatCount, formatTime, planName } from "../format";
import { Figure, Figures, Hex, Pager, Panel, Shown, Status, Table } from "../parts";
import { useGet } from "../use";

export function Subscriptions() {
  const [trail, setTrail] = useState<readonly string[]>([]);
  const list = useGet<SubscriberListWire>("/analytics/subscriptions", { cursor: trail.at(-1), limit: 50 });
  const plans = useGet<PlanFiguresWire>("/analytics/plans", { limit: 200 });
  const decimals = plans.kind === "ready" ? plans.data.decimals : 6;
  const nameOf = (planId: string): string => {
    const plan = plans.kind === "ready" ? plans.data.plans.find((entry) => entry.planId === planId) : undefined;
    return planName(plan?.metadata ?? "", planId);
  };
  return (
    <Panel
      title="Subscriptions and their allowances"
      note="Newest first. Rekeyed records are shown under their new name."
    >
      <Shown of={list}>
        {({ subscriptions, next }) => (
          <>
            <Table
              caption="Subscriptions"
              empty="Nobody subscribes yet."
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
                { title: "Plan", cell: (row) => nameOf(row.planId) },
                { title: "Subscriber", cell: (row) => <Hex value={row.subscriber} /> },
                { title: "Since", cell: (row) => formatTime(row.createdAt) },
                { title: "Paid through", cell: (row) => formatTime(row.paidThrough) },
                {
                  title: "Allowance used",
                  isNumber: true,
                  cell: ({ allowance }) =>
                    allowance.cap === "0"
                      ? "–"
                      : `${formatAmount(allowance.spent, decimals)} of ${formatAmount(allowance.cap, decimals)}`,
                },
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
  );
}

export function SubscriptionPage({ idHash }: { idHash: string }) {
  const record = useGet<SubscriptionWire>(`/subscriptions/${idHash}`);
  const story = useGet<EventList>("/events", { subject: idHash, limit: 200 });
  return (
    <>
      <p>
        <a href="#/subscriptions">All subscriptions</a>
      </p>
      <Shown of={record}>
        {({ status, paidThrough, allowance, version, subscriber, ending }) => (
          <>
            <p>
              <Status of={status} /> {ending && "ends with its period"} · subscriber <Hex value={subscriber} /> · known
              as <Hex value={idHash} />
            </p>
            <Figures>
              <Figure label="Paid through" value={formatTime(paidThrough)} />
              <Figure
                label="Allowance"
                value={formatAmount(allowance.remaining, 6)}
                note={`left of ${formatAmount(allowance.cap, 6)} this cycle, ${formatCount(allowance.debits)} debits ever`}
              />
              <Figure label="Version" value={String(version)} note="counts the subscriber's own acts" />
            </Figures>
          </>
        )}
      </Shown>
      <Panel title="Timeline">
        <Shown of={story}>
          {({ events }) =>
            events.length === 0 ? (
              <p class="empty">Nothing is told of it.</p>
            ) : (
              <ol class="timeline">
                {[...events].reverse().map(({ id, type, occurredAt, data, reverted, transaction }) => (
                  <li key={id}>
                    <time dateTime={new Date(occurredAt * 1_000).toISOString()}>{formatTime(occurredAt)}</time>
                    <strong>{sayWhat(type)}</strong>
                    {typeof data.charged === "string" && ` · charged ${formatAmount(data.charged, 6)}`}
                    {typeof data.amount === "string" && ` · ${formatAmount(data.amount, 6)}`}
                    {typeof data.reason === "string" && ` · ${data.reason}`}
                    {reverted && " · taken back by a reorganisation"}
                    {transaction && (
                      <>
                        {" · "}
                        <Hex value={transaction} />
                      </>
                    )}
                  </li>
                ))}
              </ol>
            )
          }
        </Shown>
      </Panel>
    </>
  );
}

function sayWhat(type: string): string {
  const words = type.replace(/^[a-z]+\./, "").replaceAll("_", " ");
  return type.startsWith("allowance.") ? `allowance ${words}` : words;
}
