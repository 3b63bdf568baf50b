/**
 * Signs payments over Permit2, and the permit by which a wallet without gas approves Permit2. The contracts' addresses
 * are constants: nothing that a server says names a spender.
 */
import { RpcAnswerError } from "../../chain/json-rpc";
import {
  type Address,
  EIP2612_GAS_SPONSORING,
  EXACT_PERMIT2_PROXY,
  type Hex,
  isTurnpikeError,
  PERMIT2,
  type Permit2Authorization,
  permit2TypedData,
  permitTypedData,
  SIGNATURE_65,
  type TokenDomain,
  TurnpikeError,
  UPTO_PERMIT2_PROXY,
} from "../../protocol";
import type { AgentContext } from "../core/context";
import type { PaymentOption, StandardOption } from "./quote";
import { payloadHeader } from "./standard";
import { tokenDomain } from "./token-domain";

/** The EIP-2612 permit that has to come with a payment. */
export interface NeededPermit {
  readonly domain: TokenDomain;
  /** The token counts its permits in sequence. */
  readonly nonce: bigint;
}

/**
 * Returns the permit that the payment needs; undefined when Permit2's allowance suffices, or the agent has no RPC that
 * shows it: the provider then checks the allowance.
 * @throws TurnpikeError InsufficientApproval, with the remedy, when the allowance is too small and nothing can raise it
 */
export async function neededPermit(
  context: AgentContext,
  option: StandardOption,
  payer: Address,
): Promise<NeededPermit | undefined> {
  const { chainId, token, amount, tokenDomain: reported, sponsoring } = option;
  const chain = context.chainOf(chainId);
  if (!chain) return undefined;
  const approval = await chain.approval(token, payer, PERMIT2);
  if (approval >= amount) return undefined;
  const lacking = (why: string) => insufficientApproval({ payer, token, amount, approval, why });
  if (!sponsoring) throw lacking("the provider does not sponsor an approval");
  try {
    const nonce = await chain.permitNonce(token, payer);
    return { nonce, domain: await tokenDomain(context, { chainId, token, reported }) };
  } catch (error) {
    const isRevert = isTurnpikeError(error) && error.cause instanceof RpcAnswerError;
    throw isRevert ? lacking("the token has no permits (EIP-2612)") : error;
  }
}

/** Creates the error for a payment that Permit2 cannot move. */
export function insufficientApproval(facts: {
  readonly payer: Address;
  readonly token: Address;
  readonly amount: bigint;
  /** undefined when it is not known */
  readonly approval: bigint | undefined;
  readonly why: string;
  readonly paymentId?: Hex;
}): TurnpikeError {
  const { payer, token, amount, approval, why, paymentId } = facts;
  const remedy = `From the wallet, call approve(${PERMIT2}, amount) of the token, with an amount of at least ${amount}, and repeat the call.`;
  return new TurnpikeError(
    "InsufficientApproval",
    `The wallet ${payer} has not approved Permit2 for ${amount} base units of ${token}, and ${why}. ${remedy}`,
    {
      details: {
        wallet: payer,
        token,
        spender: PERMIT2,
        required: amount.toString(),
        ...(approval !== undefined && { available: approval.toString() }),
        ...(paymentId && { paymentId }),
      },
    },
  );
}

/**
 * Names the queue in which a payment waits that needs a permit; undefined where it needs none. The next permit's nonce
 * is known only when this one has been used. The same queue as of permits for subscriptions.
 */
export async function permitQueueOf(context: AgentContext, option: SponsoredOption): Promise<string | undefined> {
  const payer = await context.signer.address();
  if ((await neededPermit(context, option, payer)) === undefined) return undefined;
  return `permit:${option.chainId}:${option.token.toLowerCase()}:${payer.toLowerCase()}`;
}

type SponsoredOption = StandardOption & Required<Pick<StandardOption, "sponsoring">>;

/** Returns whether the server pays for an approval of Permit2 that the payment lacks. */
export const isSponsored = (option: PaymentOption): option is SponsoredOption =>
  option.dialect === "x402-v2" && option.sponsoring !== undefined;

/** Returns whether the payment's approval is there or can come with it; true where no RPC shows otherwise. */
export async function isApproved(context: AgentContext, option: PaymentOption, payer: Address): Promise<boolean> {
  if (option.method === "eip3009" || isSponsored(option)) return true;
  const approval = await context.chainOf(option.chainId)?.approval(option.token, payer, PERMIT2);
  return approval === undefined || approval >= option.amount;
}

/** Signs the transfer, and the permit where one is needed. @returns the header that pays */
export async function signPermit2(
  context: AgentContext,
  option: StandardOption,
  facts: {
    readonly payer: Address;
    readonly nonce: Hex;
    readonly deadlineSec: number;
    readonly permit: NeededPermit | undefined;
  },
): Promise<{ name: string; value: string }> {
  const { payer, nonce, deadlineSec, permit } = facts;
  const { token, amount, payTo, facilitatorAddress } = option;
  const transfer: Permit2Authorization = {
    from: payer,
    token,
    amount,
    spender: facilitatorAddress ? UPTO_PERMIT2_PROXY : EXACT_PERMIT2_PROXY,
    nonce: BigInt(nonce),
    deadline: BigInt(deadlineSec),
    to: payTo,
    validAfter: 0n,
    ...(facilitatorAddress && { facilitator: facilitatorAddress }),
  };
  const signature = await context.signer.sign(permit2TypedData(option.chainId, transfer));
  const extensions = permit && (await sponsoredApproval(context, option, { payer, deadlineSec, permit }));
  const { from, spender } = transfer;
  const witness = { to: payTo, ...(facilitatorAddress && { facilitator: facilitatorAddress }), validAfter: "0" };
  const permitted = { token, amount: `${amount}` };
  const numbers = { nonce: `${transfer.nonce}`, deadline: `${deadlineSec}` };
  const permit2Authorization = { from, permitted, spender, ...numbers, witness };
  return payloadHeader(option, { signature, permit2Authorization }, extensions);
}

/** Signs the permit over exactly the payment's amount: the proxy takes no other, and more is never approved. */
async function sponsoredApproval(
  context: AgentContext,
  { token, amount, sponsoring }: StandardOption,
  facts: { readonly payer: Address; readonly deadlineSec: number; readonly permit: NeededPermit },
): Promise<Readonly<Record<string, unknown>>> {
  const { payer, deadlineSec, permit } = facts;
  const { nonce, domain } = permit;
  const message = { owner: payer, spender: PERMIT2, value: amount, nonce, deadline: BigInt(deadlineSec) };
  context.effects.emit({ type: "approval.signing", token, value: amount });
  const signature = await context.signer.sign(permitTypedData(domain, message));
  if (!SIGNATURE_65.test(signature)) {
    const why = "the permit of a contract wallet cannot be sponsored";
    throw insufficientApproval({ payer, token, amount, approval: undefined, why });
  }
  context.effects.emit({ type: "approval.raised", token, value: amount });
  const ours = {
    from: payer,
    asset: token,
    spender: PERMIT2,
    amount: `${amount}`,
    nonce: `${nonce}`,
    deadline: `${deadlineSec}`,
    signature,
    version: "1",
  };
  // Stock servers refuse an echo that lacks what they advertised.
  return { [EIP2612_GAS_SPONSORING]: { ...sponsoring, info: { ...infoOf(sponsoring), ...ours } } };
}

function infoOf(sponsoring: StandardOption["sponsoring"]): object {
  const info = sponsoring?.info;
  return typeof info === "object" && info !== null ? info : {};
}
