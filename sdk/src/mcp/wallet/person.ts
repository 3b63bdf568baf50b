/**
 * Asks the person at the host, by MCP elicitation. A question holds facts alone: no text that a server wrote. No answer,
 * and a host that cannot ask, are a no.
 */
import type { SpendIntent } from "../../agent/core/policy-options";
import { formatAmount, knownToken, networkOfChain, PolicyRefused, requireNetwork } from "../../protocol";

/** `unsupported`: the host cannot ask. */
export type Answer = "approved" | "declined" | "unsupported";

/** The person at the host. */
export interface Person {
  ask(question: string, signal: AbortSignal): Promise<Answer>;
}

/** What a person is asked, and why: the reason is an own sentence of the wallet. */
export interface Inquiry {
  readonly question: string;
  readonly why: string;
}

/** @throws PolicyRefused, reason `not_approved` or `cannot_ask`, unless the person approves */
export async function requireApproval(person: Person, { question, why }: Inquiry, signal: AbortSignal): Promise<void> {
  const answer = await person.ask(question, signal);
  if (answer === "approved") return;
  if (answer === "declined") {
    throw new PolicyRefused("The person was asked and did not approve. Nothing was signed.", {
      reason: "not_approved",
    });
  }
  throw new PolicyRefused(
    `${why} This needs a person's approval, and this host cannot ask (it lacks MCP elicitation). Nothing was signed.`,
    { reason: "cannot_ask" },
  );
}

/** How many different spends one call may ask about: a subscription asks for its plan now and for a scheduled one. */
const MAX_QUESTIONS = 3;

/** @throws PolicyRefused where one more question would be asked for ever. @param approved how many were, in this call */
export function requireFewQuestions(approved: number): void {
  if (approved < MAX_QUESTIONS) return;
  throw new PolicyRefused("What is to be spent changes with each question. Nothing was signed.", {
    reason: "not_approved",
  });
}

const MAX_RESOURCE = 200;

const DAY_SEC = 86_400;

const ASKED_BY: Readonly<Record<SpendIntent["reasons"][number], string>> = {
  amount: "policy.askAbove of the wallet's file asks above its amount.",
  new_payee: "policy.askNewPayees of the wallet's file asks before the first payment to a payee.",
};

/** Returns the question about one spend, and which limits of the file ask it. */
export const inquiryOf = (intent: SpendIntent): Inquiry => ({
  question: questionOf(intent),
  why: intent.reasons.map((reason) => ASKED_BY[reason]).join(" "),
});

function questionOf(intent: SpendIntent): string {
  const { kind, amount, firstAmount, periodSec, payTo, resource, method, reasons } = intent;
  const lines =
    kind === "payment"
      ? [`Pay ${method === "upto" ? "up to " : ""}${amountText(amount, intent)}?`]
      : [
          `Allow a subscription to cost up to ${amountText(amount, intent)} per ${periodText(periodSec)}?`,
          ...(firstAmount === undefined ? [] : [`Charged now: ${amountText(firstAmount, intent)}.`]),
        ];
  if (resource !== undefined) lines.push(`For: ${resource.slice(0, MAX_RESOURCE)}`);
  lines.push(`To: ${payTo}`);
  if (reasons.includes("amount")) lines.push("Asked because the amount is above policy.askAbove.");
  if (reasons.includes("new_payee")) lines.push("Asked because this payee was never paid before.");
  return lines.join("\n");
}

function amountText(amount: bigint, { network, token }: SpendIntent): string {
  const name = knownToken(networkOfChain(requireNetwork(network).chainId), token)?.symbol ?? `of token ${token}`;
  return `${formatAmount(amount)} ${name} (${amount} base units) on ${network}`;
}

const periodText = (periodSec = 30 * DAY_SEC): string =>
  periodSec % DAY_SEC === 0 ? `${periodSec / DAY_SEC} days` : `${periodSec} seconds`;

/** Returns whether an approval covers a spend: the same in everything, and not dearer. */
export function covers(approved: SpendIntent, intent: SpendIntent): boolean {
  const { amount, firstAmount = 0n, ...facts } = intent;
  const { amount: most, firstAmount: mostFirst = 0n, ...approvedFacts } = approved;
  return amount <= most && firstAmount <= mostFirst && keyOf(facts) === keyOf(approvedFacts);
}

function keyOf(facts: Omit<SpendIntent, "amount" | "firstAmount">): string {
  const { kind, periodSec, network, token, payTo, resource, method, facilitatorAddress } = facts;
  return JSON.stringify([kind, periodSec, network, token, payTo, resource, method, facilitatorAddress]);
}
