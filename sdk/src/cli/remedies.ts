/** What a user of the command line does about a refusal of the agent, by its reason. */
import { isTurnpikeError, TurnpikeError } from "../protocol";
import { shownMoney } from "./money";

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
  subscription_only:
    "Run `npx turnpike pay URL --subscription` where you have one (`npx turnpike list`), else `npx turnpike subscribe URL` to sign up.",
  quote: "Run `npx turnpike validate URL` to see what is wrong with the server's answer.",
  no_plan: "Run `npx turnpike quote URL` to see the plans that the URL offers.",
};

/** Returns the error with the remedy of the command line, where there is one; else the error itself. */
export function withCliRemedy(error: unknown): unknown {
  if (!isTurnpikeError(error)) return error;
  const { code, reason, retryAfterSec, details } = error;
  const { message, remedy = remedyOf(error) ?? error.remedy } = inOwnWords(error);
  if (message === error.message && remedy === error.remedy) return error;
  const options = {
    cause: error,
    details,
    ...(reason !== undefined && { reason }),
    ...(retryAfterSec !== undefined && { retryAfterSec }),
  };
  return Object.assign(new TurnpikeError(code, message, options), { remedy });
}

const OF_AMOUNTS: ReadonlySet<string | undefined> = new Set(["max_amount", "limit", "first_charge"]);

/** An amount that stands alone; a number of periods is none. */
const AMOUNT = /(?<![\w.-])(\d+)(?: base units)?(?![\w.]*\w| periods)/g;

/** The agent speaks of its options and of base units, the command line of its settings and of whole tokens. */
function inOwnWords({ code, message, reason }: TurnpikeError): { readonly message: string; readonly remedy?: string } {
  const [, chainId] = /^no deployment is known on chain (\d+)/.exec(message) ?? [];
  if (chainId !== undefined) {
    const remedy =
      "Set TURNPIKE_NETWORK and TURNPIKE_ADDRESS to the network and the contract that the Facilitator names.";
    return { message: `Turnpike's contract on chain ${chainId} is not known`, remedy };
  }
  if (code !== "InsufficientFunds" && !(code === "PolicyRefused" && OF_AMOUNTS.has(reason))) return { message };
  return { message: message.replace(AMOUNT, (_all, digits: string) => shownMoney(BigInt(digits))) };
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
