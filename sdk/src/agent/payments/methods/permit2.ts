/**
 * Signs payments over Permit2, and the permit by which a wallet without gas approves Permit2. The contracts' addresses
 * are constants: nothing that a server says names a spender.
 */
import { RpcAnswerError } from "../../../chain/json-rpc";
import {
  type Address,
  EIP2612_GAS_SPONSORING,
  isTurnpikeError,
  PERMIT2,
  permitTypedData,
  SIGNATURE_65,
  type TokenDomain,
  TurnpikeError,
} from "../../../protocol";
import { proxiedTransfer, TRANSFER_METHODS } from "../../../protocol/transfer-methods";
import type { AgentContext } from "../../core/context";
import type { PaymentOption, StandardOption } from "../quote";
import { payloadHeader } from "../standard";
import type { AgentMethod, Approval, ApprovalFacts } from "./method";
import { tokenDomain } from "./token-domain";

/** The EIP-2612 permit that has to come with a payment. */
interface NeededPermit {
  readonly domain: TokenDomain;
  /** The token counts its permits in sequence. */
  readonly nonce: bigint;
}

/**
 * Returns the permit that the payment needs; undefined when Permit2's allowance suffices, or the agent has no RPC that
 * shows it: the provider then checks the allowance.
 * @throws TurnpikeError InsufficientApproval, with the remedy, when the allowance is too small and nothing can raise it
 */
async function neededPermit(
  context: AgentContext,
  option: PaymentOption,
  payer: Address,
): Promise<NeededPermit | undefined> {
  const { chainId, token, amount, tokenDomain: reported } = option;
  const chain = context.chainOf(chainId);
  if (!chain) return undefined;
  const approval = await chain.approval(token, payer, PERMIT2);
  if (approval >= amount) return undefined;
  const lacking = (why: string) => insufficientApproval({ payer, token, amount, approval, why });
  if (!isSponsored(option)) throw lacking("the provider does not sponsor an approval");
  try {
    const nonce = await chain.permitNonce(token, payer);
    return { nonce, domain: await tokenDomain(context, { chainId, token, reported }) };
  } catch (error) {
    const isRevert = isTurnpikeError(error) && error.cause instanceof RpcAnswerError;
    throw isRevert ? lacking("the token has no permits (EIP-2612)") : error;
  }
}

function insufficientApproval(facts: ApprovalFacts): TurnpikeError {
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

const isSponsored = (option: PaymentOption): boolean => option.dialect === "x402-v2" && option.sponsoring !== undefined;

const approval: Approval = {
  async isThere(context, option, payer) {
    if (isSponsored(option)) return true;
    const approved = await context.chainOf(option.chainId)?.approval(option.token, payer, PERMIT2);
    return approved === undefined || approved >= option.amount;
  },
  // The next permit's nonce is known only when this one has been used. The same queue as of permits for subscriptions.
  async queueOf(context, option) {
    if (!isSponsored(option)) return undefined;
    const payer = await context.signer.address();
    if ((await neededPermit(context, option, payer)) === undefined) return undefined;
    return `permit:${option.chainId}:${option.token.toLowerCase()}:${payer.toLowerCase()}`;
  },
  lacking: insufficientApproval,
};

export const permit2: AgentMethod = {
  ...TRANSFER_METHODS.permit2,
  approval,
  async prepare(context, given, payer) {
    // Other dialects offer no such payment.
    const option = given as StandardOption;
    const permit = await neededPermit(context, option, payer);
    return async ({ validBeforeSec: deadlineSec }, nonce) => {
      const { token, amount, payTo, facilitatorAddress } = option;
      const { typedData, payload } = proxiedTransfer(option.chainId, {
        from: payer,
        token,
        amount,
        nonce: BigInt(nonce),
        deadline: BigInt(deadlineSec),
        to: payTo,
        ...(facilitatorAddress && { facilitator: facilitatorAddress }),
      });
      const signature = await context.signer.sign(typedData);
      const extensions = permit && (await sponsoredApproval(context, option, { payer, deadlineSec, permit }));
      return { header: payloadHeader(option, payload(signature), extensions) };
    };
  },
};

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
  const info = sponsoring?.info;
  return { [EIP2612_GAS_SPONSORING]: { ...sponsoring, info: { ...(typeof info === "object" && info), ...ours } } };
}
