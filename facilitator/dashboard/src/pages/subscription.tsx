/** Shows one subscription: its status, whether it can pay the next charge, and its history. */
import type { ComponentChildren } from "preact";
import type { SubscriptionWire } from "turnpike/facilitator";
import type { AnswerAt } from "../api";
import { formatDate, formatPeriod, formatTime, plural, shorten } from "../format";
import { ActLink, OnChain } from "../links";
import { Bar, Empty, Figure, Figures, Hex, Panel, PayerLink, PlanLink, Shown, Status } from "../parts";
import { usePlanNames } from "../plan-names";
import { useGet, useHeading, useLoad, useMoney, useSigned } from "../use";

type Event = AnswerAt<"GET", "/events">["events"][number];

const PAGE = 200;
/** maximum depth of the history */
const MOST = 2_000;

export function SubscriptionPage({ idHash }: { idHash: string }) {
  const record = useGet(`/subscriptions/${idHash}`);
  const story = useStory(idHash);
  return (
    <>
      <Shown of={record}>{(subscription) => <Standing of={subscription} />}</Shown>
      <Panel title="Timeline" note="Newest first.">
        <Shown of={story}>
          {(events) =>
            events.length === 0 ? (
              <Empty title="No event of this subscription yet." />
            ) : (
              <ol class="timeline">
                {together([...events].reverse()).map(([event, ...before]) =>
                  event && before.length > 0 ? (
                    <Tries key={event.id} of={[event, ...before]} />
                  ) : (
                    event && <Moment key={event.id} of={event} />
                  ),
                )}
              </ol>
            )
          }
        </Shown>
      </Panel>
    </>
  );
}

/** Loads the whole history, of any length: the newest entries are in the last page. */
function useStory(idHash: string) {
  const { api, tick, signOut } = useSigned();
  return useLoad<readonly Event[]>({
    name: idHash,
    async load() {
      const events: Event[] = [];
      for (let cursor = "0"; ; ) {
        const page = await api.get("/events", { subject: idHash, limit: PAGE, cursor });
        events.push(...page.events);
        if (page.events.length < PAGE || events.length >= MOST) return events;
        cursor = page.next;
      }
    },
    again: String(tick),
    signOut,
  });
}

/** Merges consecutive failed attempts with the same reason into one entry. */
function together(events: readonly Event[]): Event[][] {
  const pieces: Event[][] = [];
  for (const event of events) {
    const last = pieces.at(-1);
    const first = last?.[0];
    const isSame = first && isTry(first) && isTry(event) && first.data.reason === event.data.reason;
    if (last && isSame) last.push(event);
    else pieces.push([event]);
  }
  return pieces;
}

const isTry = ({ type, reverted }: Event): boolean => type === "subscription.renewal_failed" && !reverted;

/** Newest first, like the other lists. */
function Tries({ of }: { of: readonly Event[] }) {
  const [newest, oldest] = [of[0], of.at(-1)];
  if (!newest || !oldest) return null;
  const next = newest.data.nextAttemptAt;
  return (
    <li class="bad">
      <time dateTime={new Date(newest.occurredAt * 1_000).toISOString()}>
        {formatTime(oldest.occurredAt)} to {formatTime(newest.occurredAt)}
      </time>
      <strong>renewal failed</strong> · {plural(of.length, "attempt")} · {String(newest.data.reason)}
      {typeof next === "number" && ` · next attempt ${formatTime(next)}`}
      <details>
        <summary>Each attempt</summary>
        {of.map(({ id, occurredAt }) => (
          <time key={id} dateTime={new Date(occurredAt * 1_000).toISOString()}>
            {formatTime(occurredAt)}
          </time>
        ))}
      </details>
    </li>
  );
}

function Standing({ of }: { of: SubscriptionWire }) {
  const money = useMoney();
  const plans = usePlanNames();
  const { idHash, status, planId, paidThrough, allowance, subscriber, ending, until, nextPlanId } = of;
  const plan = plans.find(planId);
  const next = nextPlanId === undefined ? undefined : plans.find(nextPlanId);
  const amount = (baseUnits: string): string => money(baseUnits, plan?.token);
  const canEnd = !ending && status !== "CANCELLED" && status !== "EXPIRED";
  useHeading(`${plans.nameOf(planId)} of ${shorten(subscriber)}`);
  const used = allowance.cap === "0" ? 0 : Number((BigInt(allowance.spent) * 1_000n) / BigInt(allowance.cap)) / 1_000;
  return (
    <>
      <p class="facts">
        <Status of={status} />
        {ending && <span>ends with its period</span>}
        {until !== undefined && (
          <span>
            {until > paidThrough ? "no charge from" : "ends with its period: no charge from"} {formatTime(until)} on
          </span>
        )}
        {nextPlanId !== undefined && (
          <span>
            changes to {plans.nameOf(nextPlanId)} at the next charge
            {next && `: ${money(next.price, next.token)} every ${formatPeriod(next.period)}`}
          </span>
        )}
        <span>
          known as <Hex value={idHash} />
        </span>
        <span>
          subscriber <PayerLink of={subscriber} />
        </span>
        {canEnd && (
          <ActLink act="end-subscription" about={{ chosen: idHash }}>
            End it at its period's end
          </ActLink>
        )}
      </p>
      <Figures>
        <Figure
          label="Plan"
          value={<PlanLink of={planId} name={plans.nameOf(planId)} />}
          note={plan && `${money(plan.price, plan.token)} every ${formatPeriod(plan.period)}`}
        />
        <Figure label="Paid through" value={formatDate(paidThrough)} note={formatTime(paidThrough)} />
        <Figure
          label="Overage this cycle"
          value={allowance.cap === "0" ? "none allowed" : amount(allowance.spent)}
          note={
            allowance.cap === "0"
              ? "the subscriber set no cap"
              : `of ${amount(allowance.cap)}; ${amount(allowance.remaining)} left, ${plural(allowance.debits, "debit")} ever`
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
  const token = typeof data.token === "string" ? data.token : undefined;
  if (typeof data.charged === "string") facts.push(`charged ${money(data.charged, token)}`);
  if (typeof data.amount === "string") facts.push(money(data.amount, token));
  if (typeof data.reason === "string") facts.push(data.reason);
  if (type === "subscription.next_set") {
    facts.push(typeof data.until === "number" ? `no charge from ${formatTime(data.until)} on` : "no end");
    if (typeof data.nextPlanId === "string") facts.push("another plan from the next charge on");
  }
  if (typeof data.nextAttemptAt === "number") facts.push(`next attempt ${formatTime(data.nextAttemptAt)}`);
  if (reverted) facts.push("taken back by a reorganisation");
  return (
    <li class={toneOf(type)}>
      <time dateTime={new Date(occurredAt * 1_000).toISOString()}>{formatTime(occurredAt)}</time>
      <strong>{isCharge(of) ? <a href={`#/charges/${of.id}`}>{sayWhat(type)}</a> : sayWhat(type)}</strong>
      {facts.map((fact) => (
        <> · {fact}</>
      ))}
      {transaction && (
        <span class="note">
          {" "}
          <OnChain of="tx" value={transaction} short />
        </span>
      )}
    </li>
  );
}

/** Whether money moved: such an event has a page. */
const isCharge = ({ type, data }: Event): boolean =>
  type === "allowance.debited" || (typeof data.charged === "string" && data.charged !== "0");

function toneOf(type: string): string {
  if (/failed|past_due|expired|exhausted/.test(type)) return "bad";
  if (/at_risk|paused|threshold|cancelled/.test(type)) return "waiting";
  return "good";
}

function sayWhat(type: string): string {
  const words = type.replace(/^[a-z]+\./, "").replaceAll("_", " ");
  return type.startsWith("allowance.") ? `allowance ${words}` : words;
}
