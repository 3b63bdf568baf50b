/** Asks for a voucher, and refuses one that the contract would refuse: a signup with it would block the next one. */
import { type Voucher, voucherSchema } from "../../facilitator/subscriptions";
import {
  type Address,
  type Hex,
  InvalidRequest,
  keySignature,
  PolicyRefused,
  recoverSigner,
  typedDataDigest,
  voucherTypedData,
} from "../../protocol";
import type { AgentContext } from "../core/context";
import { isoOf } from "./ends";
import type { SubscribeOptions } from "./offers";
import type { VerifiedPlan } from "./subscription";

interface VoucherJob {
  readonly plan: VerifiedPlan;
  readonly askVoucher: SubscribeOptions["voucher"];
}

/** Whom and what the signup is for: a voucher names both. */
interface Beneficiary {
  readonly subscriber: Address;
  readonly secretHash: Hex;
}

/** @throws PolicyRefused for a voucher that would cost more than the plan, or is signed over another signup */
export async function voucherFor(
  context: AgentContext,
  { plan, askVoucher }: VoucherJob,
  beneficiary: Beneficiary,
): Promise<Voucher | undefined> {
  const { chainId, turnpike } = plan.deployment;
  const { planId, token } = plan;
  const answer = await askVoucher?.({ chainId, turnpike, planId, ...beneficiary, token });
  if (answer === undefined) return undefined;
  const parsed = voucherSchema.safeParse(answer);
  if (!parsed.success) {
    const field = parsed.error.issues[0]?.path.join(".") || "it";
    throw new InvalidRequest(`The voucher cannot be used: ${field} is missing or malformed.`);
  }
  const { firstAmount, firstInterval } = parsed.data;
  if (firstAmount > plan.amount) throw refused("The voucher's first amount is above the plan's price.");
  const isRegular = firstInterval === 0 || (plan.period.unit === "second" && firstInterval === plan.period.count);
  if (firstAmount === plan.amount && isRegular)
    throw refused("The voucher offers what the plan has without it. Subscribe without it.");
  return signedVoucher(context, plan, beneficiary, parsed.data);
}

/** @throws PolicyRefused for a voucher that is over */
export function requireLive({ deadline }: Voucher, nowSec: number): void {
  if (deadline >= BigInt(nowSec)) return;
  throw refused(
    `The voucher's deadline is ${deadline}, and the chain's time is ${nowSec} (${isoOf(nowSec)}). Nothing was signed. Ask the provider for another voucher.`,
  );
}

/**
 * Returns the voucher with its signature as contracts read it.
 * A contract may accept any signature as its own, and only the chain says whether the signer is one. Without it nothing is
 * signed: a signup with a voucher that the contract refuses blocks the next one until the voucher's end.
 */
async function signedVoucher(
  context: AgentContext,
  { planId, chainId, token, deployment }: VerifiedPlan,
  beneficiary: Beneficiary,
  voucher: Voucher,
): Promise<Voucher> {
  const { signer, signature: given, ...terms } = voucher;
  const digest = typedDataDigest(voucherTypedData(deployment, { planId, ...beneficiary, token, ...terms }));
  const isOwn = (signature: Hex): boolean => recoverSigner(digest, signature) === signer;
  const signature = keySignature(given, isOwn);
  if (isOwn(signature)) return { ...voucher, signature };
  const chain = context.chainOf(chainId);
  if (!chain)
    throw refused(
      `The voucher is not signed by the key of ${signer} over this plan, subscriber and secret. Nothing was signed. Ask the provider for a voucher with the \`planId\`, \`subscriber\` and \`secretHash\` of the request; where ${signer} is a contract, configure \`rpc\` for the plan's chain: only the chain shows that.`,
    );
  if (await chain.hasCode(signer)) return voucher;
  throw refused(
    `The voucher is not signed by ${signer} over this plan, subscriber and secret. Nothing was signed. Ask the provider for a voucher with the \`planId\`, \`subscriber\` and \`secretHash\` of the request.`,
  );
}

const refused = (message: string): PolicyRefused => new PolicyRefused(message, { reason: "voucher" });
