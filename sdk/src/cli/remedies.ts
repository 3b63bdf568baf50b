/** What a user of the command line does about a refusal of the agent, by its reason. */
import { isTurnpikeError, TurnpikeError } from "../protocol";
import { TRANSFER_METHODS } from "../protocol/transfer-methods";
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

/** Returns the error in the command line's own words, where it has some; else the error itself. */
export function withCliRemedy(error: unknown): unknown {
  if (!isTurnpikeError(error)) return error;
  const { code, reason, retryAfterSec, details } = error;
  const message = messageOf(error) ?? error.message;
  const remedy = remedyOf(error) ?? error.remedy;
  if (message === error.message && remedy === error.remedy) return error;
  return new TurnpikeError(code, message, {
    cause: error,
    details,
    remedy,
    ...(reason !== undefined && { reason }),
    ...(retryAfterSec !== undefined && { retryAfterSec }),
  });
}

const APPROVED = Object.values(TRANSFER_METHODS).flatMap(({ approved }) => approved?.title ?? []);

const SPENT = "{spent} of {limit} are taken, and this would add {amount}.";

/**
 * By an error's reason, else its code, with the error's details: the agent speaks of its options and of base units, the
 * command line of its settings and of whole tokens. The first whose details are all there counts.
 */
const MESSAGES: Readonly<Record<string, readonly string[]>> = {
  max_amount: ["The price is {amount}, above --max, which is {limit}."],
  price_raised: ["The price is {amount}, above the {limit} that was quoted first."],
  limit: [
    "{amount} for each of {periods} periods in a day is above the limit, which is {limit}.",
    "{amount} is above the limit, which is {limit}.",
  ],
  first_charge: ["The first charge of {amount} is above the limit, which is {limit}."],
  per_day: [`The day's budget is spent: ${SPENT}`],
  per_payee: [`The day's budget for this payee is spent: ${SPENT}`],
  allowance: [`${APPROVED.join(" or ")} may move {available} of {required}: approve it.`],
  no_deployment: ["Turnpike's contract on chain {chainId} is not known."],
  InsufficientFunds: [
    "The wallet {wallet} has {available} of {required}, in token {token}.",
    "The wallet has {available} of {required}.",
  ],
};

const AMOUNTS: ReadonlySet<string> = new Set(["amount", "limit", "spent", "required", "available"]);

/** @returns undefined where the agent's own message will do */
function messageOf({ code, reason = "", details }: TurnpikeError): string | undefined {
  const key = [reason, code].find((each) => Object.hasOwn(MESSAGES, each)) ?? "";
  const shown = (name: string): string => {
    const value = String(details[name]);
    return AMOUNTS.has(name) && /^\d+$/.test(value) ? shownMoney(BigInt(value)) : value;
  };
  return MESSAGES[key]
    ?.find((message) => [...message.matchAll(FIELD)].every(([, name = ""]) => Object.hasOwn(details, name)))
    ?.replace(FIELD, (_all, name: string) => shown(name));
}

const FIELD = /\{(\w+)\}/g;

function remedyOf({ code, reason }: TurnpikeError): string | undefined {
  if (reason === "no_deployment")
    return "Set TURNPIKE_NETWORK and TURNPIKE_ADDRESS to the network and the contract that the Facilitator names.";
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
