/** What a user of the command line does about a refusal of the agent, by its reason. */
import { isTurnpikeError, TurnpikeError } from "../protocol";

const REMEDIES: Readonly<Record<string, string>> = {
  max_amount: "Raise --max if the price is right.",
  limit: "Raise --max, or the limit of the policy file, if the price is right.",
  first_charge: "Raise --max, or perFirstCharge in the policy file, if the price is right.",
  per_day: "Wait, or raise perDay in the policy file.",
  per_payee: "Wait, or raise perPayee in the policy file.",
  not_approved: "The command line does not ask: run it with a policy file without askAbove and askNewPayees.",
  token: "Add the token to TURNPIKE_TOKEN, or to `tokens` in the policy file, if you trust it.",
  network: "Set TURNPIKE_NETWORK, or add the network to `networks` in the policy file.",
  payee: "Add the payee to `payees` in the policy file if you trust it.",
  facilitator: "Set TURNPIKE_FACILITATOR_URL to the server's Facilitator if you trust it.",
  redirect: "Nothing was paid. Run the command with the URL that the server redirects to if you trust it.",
  insecure_origin: "Use https. The policy file's allowHttp allows plain http to other machines.",
  subscription_only: "Run `npx turnpike quote URL` to see the plans, and `npx turnpike subscribe URL` to sign up.",
  quote: "Run `npx turnpike validate URL` to see what is wrong with the server's answer.",
  no_plan: "Run `npx turnpike quote URL` to see the plans that the URL offers.",
};

/** Returns the error with the remedy of the command line, where there is one; else the error itself. */
export function withCliRemedy(error: unknown): unknown {
  if (!isTurnpikeError(error)) return error;
  const remedy = remedyOf(error);
  if (remedy === undefined) return error;
  const { code, message, reason, retryAfterSec, details } = error;
  const options = {
    cause: error,
    details,
    ...(reason !== undefined && { reason }),
    ...(retryAfterSec !== undefined && { retryAfterSec }),
  };
  return Object.assign(new TurnpikeError(code, message, options), { remedy });
}

function remedyOf({ code, reason }: TurnpikeError): string | undefined {
  if (code === "LedgerLocked") return "Wait until the other command or agent with this TURNPIKE_HOME has ended.";
  if (code === "PaymentPending" || code === "InvalidPaymentProof") {
    return "Repeat the same command later: it presents the same payment, and never pays twice.";
  }
  if (code !== "PolicyRefused") return undefined;
  return remedyOfReason(reason);
}

/** @returns undefined where the reason has no remedy of the command line */
export const remedyOfReason = (reason: string | undefined): string | undefined =>
  reason !== undefined && Object.hasOwn(REMEDIES, reason) ? REMEDIES[reason] : undefined;
