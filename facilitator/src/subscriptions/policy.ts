/**
 * Decides for which plans this Facilitator spends gas: anyone can create plans for free, so it requires a listed token
 * and a minimum price. Pure.
 */
import { type Address, TurnpikeError } from "turnpike/protocol";
import { type FacilitatorConfig, findToken } from "../config";
import type { PlanRow } from "./rows";

type Terms = Pick<PlanRow, "token" | "amount" | "pay_to">;

/** @returns the reason to refuse it */
export function policyAgainst(plan: Terms, config: FacilitatorConfig): TurnpikeError | undefined {
  const token = findToken(config, plan.token as Address);
  if (!token) return refused(`token ${plan.token} is not served here`, "token");
  if (BigInt(plan.amount) < token.minAmount)
    return refused(`the price is below ${token.minAmount} base units`, "amount");
  if (config.payTo && !config.payTo.includes(plan.pay_to as Address)) {
    return refused(`payee ${plan.pay_to} is not served here`, "payTo");
  }
  return undefined;
}

const refused = (message: string, reason: string) => new TurnpikeError("PaymentNotAllowed", message, { reason });
