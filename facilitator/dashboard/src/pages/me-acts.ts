/** A payer's acts on one subscription, in words, each by one signature and without gas. */
import type { ChangeAct, PlanWire, SubscriptionWire, SupportedWire } from "turnpike/facilitator";
import { type Address, actTypedData, type Hex, NO_PLAN, type SignedAct, type SignedTerms } from "turnpike/protocol";
import type { Api } from "../api";
import { formatTime } from "../format";
import { type Account, Problem, type Progress } from "../wallet/account";
import type { Wanted } from "../wallet/ask";

/** A subscription with its plan. */
export interface Mine {
  readonly subscription: SubscriptionWire;
  readonly plan: PlanWire;
  /** the plan's name, made harmless */
  readonly name: string;
}

/** What every act needs. */
export interface ActContext {
  readonly api: Api;
  readonly account: Account;
  readonly supported: SupportedWire;
  /** formats base units of a token */
  readonly money: (baseUnits: string, token?: string) => string;
}

const FREE = "You pay no gas.";

/** A signature that is not used within this time is worthless. */
const SIGNED_FOR_SEC = 600;

const MAX_ROUNDS = 90;

const ROUND_MS = 1_000;

/** Sends a signed body until its outcome is known: the same body is settled once. */
export async function settled<T extends object>(send: () => Promise<T>, progress: Progress): Promise<T> {
  progress.say("Signed. Waiting for the chain.");
  for (let round = 0; round < MAX_ROUNDS; round++) {
    const answer = await send();
    if (!("status" in answer) || answer.status !== "pending") return answer;
    await new Promise((resolve) => setTimeout(resolve, ROUND_MS));
  }
  throw new Problem("The chain has not confirmed it yet. Sign nothing again: look here later.");
}

type Fields = Readonly<Record<string, string | number | boolean | object>>;

/** Signs and sends one change. @param fields of the body; `signed`: of the typed data */
async function change(
  { api, account, supported }: ActContext,
  { subscription }: Mine,
  progress: Progress,
  act: { readonly name: SignedAct; readonly path: ChangeAct; readonly body?: Fields; readonly signed?: object },
): Promise<void> {
  const { idHash, subscriber } = subscription;
  // As it is now: another act may have raised the version.
  const { version, chainTimeSec } = await api.get(`/subscriptions/${idHash}`);
  const deadline = String(laterOf(chainTimeSec, supported.network) + SIGNED_FOR_SEC);
  const { chainId, turnpike } = supported;
  const message = { subscriber: subscriber as Address, idHash: idHash as Hex, version, deadline: BigInt(deadline) };
  const data = actTypedData({ chainId, turnpike: turnpike as Address }, act.name, {
    ...message,
    ...act.signed,
  } as never);
  const signature = await account.sign(data, progress);
  const body = { version, deadline, signature, ...act.body };
  await settled(() => api.send("POST", `/subscriptions/${idHash}/${act.path}`, body), progress);
}

/** The chain's time. A local chain that is quiet is behind. */
export const laterOf = (chainSec: number, network: string): number =>
  network.startsWith("local-") ? Math.max(chainSec, Math.floor(Date.now() / 1_000)) : chainSec;

export const cancelNow = (at: ActContext, mine: Mine, progress: Progress): Promise<void> =>
  change(at, mine, progress, {
    name: "Cancel",
    path: "cancel",
    body: { atPeriodEnd: false },
    signed: { atPeriodEnd: false },
  });

/** Ends the subscription at once, or with the paid period. */
export function cancelAct(at: ActContext, mine: Mine, atPeriodEnd: boolean): Wanted {
  const { name, subscription } = mine;
  const end = formatTime(subscription.paidThrough);
  return {
    title: atPeriodEnd ? `Cancel ${name} at the end of its period` : `Cancel ${name} now`,
    words: [
      atPeriodEnd
        ? `It is served until ${end} and is charged for no further period. Use up to your cap is still charged until then.`
        : `It ends at once and is charged nothing any more. What is paid until ${end} is not returned.`,
      FREE,
    ],
    button: "Sign in your wallet",
    async run(progress) {
      if (!atPeriodEnd) await cancelNow(at, mine, progress);
      else
        await change(at, mine, progress, {
          name: "Cancel",
          path: "cancel",
          body: { atPeriodEnd },
          signed: { atPeriodEnd },
        });
      return atPeriodEnd ? `It ends on ${end}.` : "It is cancelled.";
    },
  };
}

export function pauseAct(at: ActContext, mine: Mine): Wanted {
  return {
    title: `Pause ${mine.name}`,
    words: [
      "Nothing is charged and nothing is served until you resume it. The paid time that is left stays yours.",
      FREE,
    ],
    button: "Sign in your wallet",
    async run(progress) {
      await change(at, mine, progress, { name: "Pause", path: "pause" });
      return "It is paused.";
    },
  };
}

export function resumeAct(at: ActContext, mine: Mine): Wanted {
  const { plan, subscription } = mine;
  const price = at.money(plan.amount, plan.token);
  const mayCharge = subscription.status === "EXPIRED";
  return {
    title: `Resume ${mine.name}`,
    words: [
      mayCharge
        ? `A new period begins now and is charged: ${price}, and no more.`
        : `It is served again. If its paid time is over, a new period begins and is charged: ${price} at most.`,
      FREE,
    ],
    button: "Sign in your wallet",
    async run(progress) {
      const signed = { token: plan.token, maxCharge: BigInt(plan.amount) };
      await change(at, mine, progress, { name: "Resume", path: "resume", body: { maxCharge: plan.amount }, signed });
      return "It is resumed.";
    },
  };
}

/** @param cap base units */
export function capAct(at: ActContext, mine: Mine, cap: string): Wanted {
  const { plan } = mine;
  const { cap: old, spent } = mine.subscription.allowance;
  const amount = (units: string) => at.money(units, plan.token);
  return {
    title: `Cap ${mine.name} at ${amount(cap)}`,
    words: [
      `Its provider may charge you for use up to ${amount(cap)} each period, beside the price. Until now: ${amount(old)}; ${amount(spent)} of it is used.`,
      FREE,
    ],
    button: "Sign in your wallet",
    async run(progress) {
      const signed = { token: plan.token, cap: BigInt(cap) };
      await change(at, mine, progress, { name: "SetMaxOverage", path: "max-overage", body: { cap }, signed });
      return `The cap is ${amount(cap)}.`;
    },
  };
}

/** @param until unix seconds; 0: no end. A scheduled change of the plan stays. */
export function untilAct(at: ActContext, mine: Mine, until: number): Wanted {
  return {
    title: until === 0 ? `Remove the end of ${mine.name}` : `End ${mine.name} on ${formatTime(until)}`,
    words: [
      until === 0
        ? "It is charged for each period again, until you cancel it."
        : `From ${formatTime(until)} on no period is charged. A period that is paid before is served to its end.`,
      FREE,
    ],
    button: "Sign in your wallet",
    async run(progress) {
      const { nextPlanId = NO_PLAN } = mine.subscription;
      const next = nextPlanId === NO_PLAN ? undefined : await at.api.get(`/plans/${nextPlanId}`);
      const terms = next && termsOf(next);
      await change(at, mine, progress, {
        name: "SetNext",
        path: "next",
        body: { until, nextPlanId, ...(terms && next && { terms: wireTerms(next) }) },
        signed: { until, nextPlanId, ...(terms && { terms }) },
      });
      return until === 0 ? "It has no end." : `It ends on ${formatTime(until)}.`;
    },
  };
}

const termsOf = ({ token, payTo, amount, interval, period }: PlanWire): SignedTerms => ({
  token: token as Address,
  payTo: payTo as Address,
  amount: BigInt(amount),
  intervalSec: interval,
  months: period.unit === "month" ? period.count : 0,
});

const wireTerms = ({ token, payTo, amount, period }: PlanWire) => ({
  token,
  payTo,
  amount,
  interval: period.count,
  unit: `${period.unit}s`,
});
