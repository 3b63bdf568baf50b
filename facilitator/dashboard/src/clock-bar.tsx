/** Shows the sandbox's clock, moves the chain's time, and reports the events on the way. */
import { useEffect, useRef, useState } from "preact/hooks";
import { ApiProblem } from "./api";
import { formatSpan, formatTime, plural } from "./format";
import { Alert, Bar } from "./parts";
import { useAnswer, useSigned } from "./use";

type Move = { readonly seconds: number } | { readonly to: "next-renewal" };

const DAY_SEC = 86_400;
const MOVES: readonly (readonly [text: string, to: Move])[] = [
  ["+1 day", { seconds: DAY_SEC }],
  ["+30 days", { seconds: 30 * DAY_SEC }],
  ["+1 year", { seconds: 365 * DAY_SEC }],
  ["To the next renewal", { to: "next-renewal" }],
];
const POLL_MS = 700;
const PAGE = 200;

const LABELS: Readonly<Record<string, readonly [string, string]>> = {
  "subscription.renewed": ["renewal", "renewals"],
  "subscription.renewal_failed": ["failed renewal", "failed renewals"],
  "subscription.renewal_at_risk": ["warning", "warnings"],
  "subscription.past_due": ["past due", "past due"],
  "subscription.expired": ["expired", "expired"],
  "subscription.cancelled": ["cancelled", "cancelled"],
  "allowance.debited": ["debit", "debits"],
};

export function ClockBar() {
  const { api, tick, signOut } = useSigned();
  const [round, setRound] = useState(0);
  const [isMoving, setMoving] = useState(false);
  const [problem, setProblem] = useState<string>();
  const [summary, setSummary] = useState<string>();
  /** the end of the feed when the clock started; absent before the first time */
  const cursor = useRef<string>();
  const { data: known } = useAnswer(api, { path: "/sandbox/clock", again: `${tick} ${round}`, signOut });
  // Another client may move the clock too.
  const isRunning = isMoving || known?.target !== undefined;
  /** the time of the clock when it last was stopped */
  const began = useRef(0);
  if (known && known.target === undefined) began.current = known.now;

  // Reports events while the clock runs, and the ones that still follow from it.
  useEffect(() => {
    if (cursor.current === undefined) return;
    feed(cursor.current).then(({ counts }) => setSummary((current) => summaryOf(counts) ?? current), ignore);
  }, [tick]);

  async function feed(from: string): Promise<{ counts: Map<string, number>; next: string }> {
    const counts = new Map<string, number>();
    let next = from;
    for (;;) {
      const page = await api.get("/events", { cursor: next, limit: PAGE });
      next = page.next;
      for (const { type } of page.events) counts.set(type, (counts.get(type) ?? 0) + 1);
      if (page.events.length < PAGE) return { counts, next };
    }
  }

  async function move(to: Move): Promise<void> {
    setMoving(true);
    setProblem(undefined);
    setSummary(undefined);
    try {
      const from = (await feed(cursor.current ?? "0")).next;
      cursor.current = from;
      let clock = await api.send("POST", "/sandbox/clock", to);
      while (clock.target !== undefined) {
        setRound((now) => now + 1);
        await new Promise((resolve) => setTimeout(resolve, POLL_MS));
        clock = await api.get("/sandbox/clock");
      }
      setSummary(summaryOf((await feed(from)).counts) ?? "Nothing was due.");
    } catch (error) {
      setProblem(error instanceof ApiProblem ? error.message : "The clock did not move.");
    } finally {
      setMoving(false);
      setRound((now) => now + 1);
    }
  }

  return (
    <section class="clock" aria-label="Sandbox clock">
      <p>
        <strong>Sandbox clock</strong>{" "}
        {known ? <time dateTime={new Date(known.now * 1_000).toISOString()}>{formatTime(known.now)}</time> : "…"}
        <span class="note" role="status">
          {known?.target !== undefined && known.target > 0 && ` running to ${formatTime(known.target)} `}
          {!isRunning &&
            known?.nextRenewalAt &&
            ` next renewal in ${formatSpan(known.nextRenewalAt - known.now)}, ${formatTime(known.nextRenewalAt)} `}
          {summary && ` ${summary}`}
        </span>
      </p>
      {known && known.target !== undefined && known.target > 0 && (
        <Bar share={(known.now - began.current) / Math.max(1, known.target - began.current)} />
      )}
      <div class="buttons">
        {MOVES.map(([text, to]) => (
          <button
            key={text}
            type="button"
            disabled={isRunning || ("to" in to && !known?.nextRenewalAt)}
            onClick={() => move(to)}
          >
            {text}
          </button>
        ))}
        {known?.inboxUrl && (
          <a href={known.inboxUrl} target="_blank" rel="noreferrer">
            Webhook inbox
          </a>
        )}
      </div>
      <Alert text={problem ?? known?.problem} />
    </section>
  );
}

/** The same query runs again when the clock stops. */
const ignore = (): void => undefined;

/** @returns undefined when there is nothing to report */
function summaryOf(counts: ReadonlyMap<string, number>): string | undefined {
  const parts = [...counts].flatMap(([type, count]) => {
    const words = LABELS[type];
    return words ? [plural(count, words[0], words[1])] : [];
  });
  return parts.length === 0 ? undefined : `Since then: ${parts.join(", ")}.`;
}
