/** One subscription: how it stands, whether it can pay what comes next, and its story. */
import type { ComponentChildren } from "preact";
import type { EventList, SubscriptionWire } from "turnpike/facilitator";
import { formatDate, formatInterval, formatTime, plural } from "../format";
import { Bar, Empty, Figure, Figures, Hex, Panel, Shown, Status } from "../parts";
import { usePlanNames } from "../plan-names";
import { useGet, useMoney } from "../use";

type Event = EventList["events"][number];

export function SubscriptionPage({ idHash }: { idHash: string }) {
  const record = useGet<SubscriptionWire>(`/subscriptions/${idHash}`);
  const story = useGet<EventList>("/events", { subject: idHash, limit: 200 });
  return (
    <>
      <p class="back">
        <a href="#/subscriptions">← All subscriptions</a>
      </p>
      <Shown of={record}>{(subscription) => <Standing of={subscription} />}</Shown>
      <Panel title="Timeline" note="Newest first.">
        <Shown of={story}>
          {({ events }) =>
            events.length === 0 ? (
              <Empty title="Nothing is told of it." />
            ) : (
              <ol class="timeline">
                {[...events].reverse().map((event) => (
                  <Moment key={event.id} of={event} />
                ))}
              </ol>
            )
          }
        </Shown>
      </Panel>
    </>
  );
}

function Standing({ of }: { of: SubscriptionWire }) {
  const money = useMoney();
  const plans = usePlanNames();
  const { idHash, status, planId, paidThrough, allowance, subscriber, ending } = of;
  const plan = plans.find(planId);
  const used = allowance.cap === "0" ? 0 : Number((BigInt(allowance.spent) * 1_000n) / BigInt(allowance.cap)) / 1_000;
  return (
    <>
      <p class="facts">
        <Status of={status} />
        {ending && <span>ends with its period</span>}
        <span>
          known as <Hex value={idHash} />
        </span>
        <span>
          subscriber <Hex value={subscriber} />
        </span>
      </p>
      <Figures>
        <Figure
          label="Plan"
          value={plans.nameOf(planId)}
          note={plan && `${money(plan.price)} every ${formatInterval(plan.interval)}`}
        />
        <Figure label="Paid through" value={formatDate(paidThrough)} note={formatTime(paidThrough)} />
        <Figure
          label="Overage this cycle"
          value={allowance.cap === "0" ? "none allowed" : money(allowance.spent)}
          note={
            allowance.cap === "0"
              ? "the subscriber set no cap"
              : `of ${money(allowance.cap)}; ${money(allowance.remaining)} left, ${plural(allowance.debits, "debit")} ever`
          }
        >
          {allowance.cap !== "0" && <Bar share={used} tone={used >= 1 ? "bad" : used >= 0.8 ? "waiting" : undefined} />}
        </Figure>
      </Figures>
    </>
  );
}

function Moment({ of }: { of: Event }) {
  const money = useMoney();
  const { type, occurredAt, data, reverted, transaction } = of;
  const facts: ComponentChildren[] = [];
  if (typeof data.charged === "string") facts.push(`charged ${money(data.charged)}`);
  if (typeof data.amount === "string") facts.push(money(data.amount));
  if (typeof data.reason === "string") facts.push(data.reason);
  if (typeof data.nextAttemptAt === "number") facts.push(`next attempt ${formatTime(data.nextAttemptAt)}`);
  if (reverted) facts.push("taken back by a reorganisation");
  return (
    <li class={toneOf(type)}>
      <time dateTime={new Date(occurredAt * 1_000).toISOString()}>{formatTime(occurredAt)}</time>
      <strong>{sayWhat(type)}</strong>
      {facts.map((fact) => (
        <> · {fact}</>
      ))}
      {transaction && (
        <span class="note">
          {" "}
          <Hex value={transaction} />
        </span>
      )}
    </li>
  );
}

function toneOf(type: string): string {
  if (/failed|past_due|expired|exhausted/.test(type)) return "bad";
  if (/at_risk|paused|threshold|cancelled/.test(type)) return "waiting";
  return "good";
}

function sayWhat(type: string): string {
  const words = type.replace(/^[a-z]+\./, "").replaceAll("_", " ");
  return type.startsWith("allowance.") ? `allowance ${words}` : words;
}
