/** One subscription of a payer, and its acts. */
import { useState } from "preact/hooks";
import { formatPeriod, formatTime, shorten } from "../format";
import { Status } from "../parts";
import { useMoney, useUnit } from "../use";
import type { Wanted } from "../wallet/ask";
import { baseUnits } from "../wallet/values";
import { type ActContext, cancelAct, capAct, type Mine, pauseAct, resumeAct, untilAct } from "./me-acts";

interface SubscriptionProps {
  readonly of: Mine;
  /** absent: there is no wallet to act with */
  readonly at: ActContext | undefined;
  readonly onWanted: (wanted: Wanted) => void;
}

export function Subscription({ of, at, onWanted }: SubscriptionProps) {
  const money = useMoney();
  const { subscription, plan, name } = of;
  const { status, paidThrough, until, ending, allowance } = subscription;
  return (
    <article class="card">
      <h3>
        <bdi>{name}</bdi> <Status of={status} />
      </h3>
      <p class="note">
        {money(plan.amount, plan.token)} every {formatPeriod(plan.period)} to{" "}
        <span title={plan.provider}>{shorten(plan.provider)}</span>. Paid until {formatTime(paidThrough)}
        {ending && ", then it ends"}
        {until !== undefined && `; no charge from ${formatTime(until)} on`}.{" "}
        {allowance.cap === "0"
          ? "Nothing beside the price may be charged."
          : `Use: ${money(allowance.spent, plan.token)} of at most ${money(allowance.cap, plan.token)} this period.`}
      </p>
      {at && status !== "CANCELLED" && <Acts of={of} at={at} onWanted={onWanted} />}
    </article>
  );
}

function Acts({ of, at, onWanted }: SubscriptionProps & { readonly at: ActContext }) {
  const { subscription, plan, name } = of;
  const { status, ending, until } = subscription;
  const { decimals } = useUnit()(plan.token);
  const [cap, setCap] = useState("");
  const [day, setDay] = useState("");
  const units = baseUnits(cap, decimals);
  const untilSec = Date.parse(`${day}T00:00:00Z`) / 1_000;
  const isPaused = status === "PAUSED" || status === "EXPIRED";
  const button = (label: string, wanted: () => Wanted) => (
    <button type="button" onClick={() => onWanted(wanted())}>
      {label}
      <span class="hidden"> {name}</span>
    </button>
  );
  return (
    <details class="act">
      <summary>
        Change<span class="hidden"> {name}</span>
      </summary>
      <p class="buttons">
        {isPaused ? button("Resume", () => resumeAct(at, of)) : button("Pause", () => pauseAct(at, of))}
        {!ending && status === "ACTIVE" && button("Cancel at the period's end", () => cancelAct(at, of, true))}
        {button("Cancel now", () => cancelAct(at, of, false))}
      </p>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          if (units !== undefined) onWanted(capAct(at, of, units));
        }}
      >
        <label>
          Cap of use each period, in tokens
          <input inputMode="decimal" required value={cap} onInput={(event) => setCap(event.currentTarget.value)} />
        </label>
        <button type="submit" disabled={units === undefined}>
          Set the cap
        </button>
      </form>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          if (untilSec > 0) onWanted(untilAct(at, of, untilSec));
        }}
      >
        <label>
          No charge from this day on (UTC)
          <input type="date" required value={day} onInput={(event) => setDay(event.currentTarget.value)} />
        </label>
        <p class="buttons">
          <button type="submit" disabled={!(untilSec > 0)}>
            Set the end
          </button>
          {until !== undefined && (
            <button type="button" onClick={() => onWanted(untilAct(at, of, 0))}>
              Remove the end
            </button>
          )}
        </p>
      </form>
    </details>
  );
}
