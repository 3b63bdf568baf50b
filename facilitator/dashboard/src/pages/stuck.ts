/** Says why a payment has not settled, and the one action that helps. */
import type { PaymentStoryWire, Readiness } from "turnpike/facilitator";
import { formatMoment } from "../format";

export interface Why {
  readonly reason: string;
  readonly action: string;
}

const ASK_AGAIN = "Ask the payer to request the route again: the gate names a new price, and the agent signs again.";

const FAILURES: Readonly<Record<string, string>> = {
  expired: "Its window ended before it was in a block. No money moved.",
  cancelled: "The payer cancelled the authorization. No money moved.",
  nonce_spent_elsewhere: "The payer used the authorization for another transfer: you were not paid.",
  settled_before_acceptance: "The authorization had been used before the service accepted it: it buys nothing again.",
};

/** @returns undefined for a payment that is settled */
export function whyOf(story: PaymentStoryWire, readiness: Readiness | undefined): Why | undefined {
  const { status, stage, reason = "unknown", detail } = story;
  if (status === "settled" || stage === "waived") return undefined;
  if (status === "failed") {
    return { reason: FAILURES[detail ?? ""] ?? `It failed: ${detail ?? reason}.`, action: ASK_AGAIN };
  }
  const until = formatMoment(story.validBefore);
  if (stage === "parked") {
    return {
      reason: "Its transaction is in a block, and the token moved nothing: most likely the payer lacks the money.",
      action: `Ask the payer to have the amount at hand and to send the same request again before ${until}.`,
    };
  }
  const broken = readiness?.checks.find(({ ok }) => !ok);
  if (broken) {
    return {
      reason: `The service is not ready: ${broken.name}: ${broken.detail}.`,
      action: `Report it to the service's operator, who sees every check on System. It is sent as soon as the service is ready, until ${until}.`,
    };
  }
  if (status === "reversed") {
    return { reason: "The chain gave up its block.", action: `Wait: the service sends it again, until ${until}.` };
  }
  return stage === "sent"
    ? {
        reason: "Its transaction is sent, and no block has it yet.",
        action: `Wait for a block. It can settle until ${until}.`,
      }
    : {
        reason: "It waits for the next transaction.",
        action: `Wait: it is sent in turn. It can settle until ${until}.`,
      };
}
