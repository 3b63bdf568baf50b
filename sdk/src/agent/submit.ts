/** Posts one signed change until its outcome is known or patience ends. Signs nothing. */
import type { ChangeOutcome, PermitOutcome, Refused } from "../facilitator";
import { type Hex, isTurnpikeError, PaymentPending } from "../protocol";
import { backoffMs, type Effects, Patience } from "./effects";

const MAX_TURNS = 60;

type Outcome = ChangeOutcome | PermitOutcome;
export type Known<O extends Outcome> = Exclude<O, { kind: "pending" }>;

/**
 * @returns what it led to, or the refusal; `wasUnsure` tells whether an earlier post may have been taken on
 * @throws PaymentPending when the outcome stays unknown: call again, which posts the same
 */
export async function submit<O extends Outcome>(
  effects: Effects,
  job: {
    readonly idHash: Hex | undefined;
    readonly post: () => Promise<O>;
    /** the outcome is awaited from now on; called once */
    readonly onPending?: () => void;
  },
): Promise<{ readonly outcome: Known<O>; readonly wasUnsure: boolean }> {
  const patience = new Patience({ budgetMs: effects.limits.settleMs, turns: MAX_TURNS, effects });
  let wasUnsure = false;
  for (let turn = 0; ; turn++) {
    let waitMs = backoffMs(turn);
    let cause: unknown;
    try {
      const outcome = await job.post();
      if (outcome.kind !== "pending") return { outcome: outcome as Known<O>, wasUnsure };
      waitMs = Math.max(100, Math.min(outcome.retryAfterSec * 1_000, 5_000));
    } catch (error) {
      if (!isTurnpikeError(error) || error.code !== "Unavailable") throw error;
      cause = error;
    }
    if (!wasUnsure) job.onPending?.();
    wasUnsure = true;
    if (await patience.wait(waitMs)) continue;
    throw new PaymentPending("The outcome of the change is not known yet. Repeat the call: it presents the same one.", {
      ...(cause === undefined ? {} : { cause }),
      ...(job.idHash === undefined ? {} : { details: { idHash: job.idHash } }),
    });
  }
}

export const isRefused = (outcome: { readonly kind: string }): outcome is Refused => outcome.kind === "refused";
