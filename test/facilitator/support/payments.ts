/** Signed payments in their wire form. */
import type { X402RequestWire } from "turnpike/facilitator";
import type { Hex, SignedPayment, SignedPaymentWire } from "turnpike/protocol";
import type { Core } from "../../../facilitator/src/app/core";
import type { AuthorizeOutcome, ExactRequest } from "../../../facilitator/src/payments";
import { type FacilitatorWorld, fund, type Payer, until, walletOf } from "../../support/facilitator";

export const paymentToWire = (payment: SignedPayment): SignedPaymentWire => ({
  ...payment,
  authorization: authorizationToWire(payment.authorization),
});
export const authorizationToWire = (authorization: SignedPayment["authorization"]) => ({
  ...authorization,
  value: String(authorization.value),
  validAfter: String(authorization.validAfter),
  validBefore: String(authorization.validBefore),
});

/** The body of `/verify` and `/settle`, as a server of either version sends it. */
export function settleBody(
  request: ExactRequest,
  version: 1 | 2,
  chainId: number,
  more: SettleMore = {},
): X402RequestWire {
  const { network, token: asset, payTo, amount, resource, maxTimeoutSec: maxTimeoutSeconds } = request;
  const { url = resource, extra = {}, grant } = more;
  const payload = { signature: request.signature, authorization: authorizationToWire(request.authorization) };
  const common = {
    scheme: "exact" as const,
    asset,
    payTo,
    maxTimeoutSeconds,
    extra: { name: "Test USD", version: "1", ...extra },
  };
  const asked = grant ? { grant } : {};
  if (version === 1) {
    const terms = { network, maxAmountRequired: String(amount), resource, description: "", mimeType: "" };
    return {
      paymentPayload: { x402Version: 1, scheme: "exact", network, payload },
      paymentRequirements: { ...common, ...terms },
      ...asked,
    };
  }
  const requirements = { ...common, network: `eip155:${chainId}`, amount: String(amount) };
  const named = url === null ? {} : { resource: { url } };
  return {
    paymentPayload: { x402Version: 2, payload, accepted: requirements, ...named },
    paymentRequirements: requirements,
    ...asked,
  };
}

export interface SettleMore {
  /** `resource.url` of a version 2 payload; null: it names none */
  readonly url?: string | null;
  readonly extra?: Readonly<Record<string, unknown>>;
  readonly grant?: { readonly id: Hex; readonly resource: string };
}

/** Authorizes a payment of 0.25 and has the payer's own transfer of the money mined before it, in the same block. */
export async function authorizeAndDrain(
  world: FacilitatorWorld,
  core: Core,
  payer: Payer,
  signed: SignedPayment,
): Promise<AuthorizeOutcome> {
  const wallet = walletOf(world.chain, payer.key);
  await fund(world.chain, payer.address);
  await world.chain.provider.send("evm_setIntervalMining", [0]);
  const answer = core.payments.authorize(signed);
  const isSent = async () =>
    (await core.payments.status(world.idOf(signed))).status === "pending" &&
    core.relayer.health().lanes.some(({ inFlight }) => inFlight === 1);
  await until(isSent, "ours is on its way");
  const drained = (world.token.connect(wallet) as typeof world.token).getFunction("transfer");
  await drained(world.contracts.turnpike, 250_000n, {
    maxFeePerGas: 10n ** 11n,
    maxPriorityFeePerGas: 10n ** 10n,
    gasLimit: 100_000n,
  });
  await world.chain.provider.send("evm_setIntervalMining", [100]);
  return answer;
}
