/**
 * Checks whether a payment is worth sending: window, signature, unused nonce, funds. Returns expected refusals, and
 * throws when the chain cannot be read, so that an outage is never mistaken for a refusal. Writes nothing.
 */
import { tokenInterface } from "turnpike/chain";
import { type Address, type Clock, type Hex, PERMIT2, TurnpikeError, Unavailable } from "turnpike/protocol";
import { isUsed, type NonceQuery, nonceCallOf } from "../chain/account-reads";
import { intrinsicGas } from "../chain/gas";
import { type TrialResult, tryDeployment, type WalletDeployment } from "../chain/undeployed-wallet";
import { isSignedByContract } from "../chain/wallet-signature";
import type { FacilitatorConfig } from "../config";
import type { Relayer } from "../relayer";
import { transferCalldata } from "./calldata";
import { digestOf, isSignedByKey, permit2PaymentOf } from "./payer-key";
import { type PaymentRequest, refusal } from "./payment-request";
import { type Permit2Payment, proxyCallOf } from "./transfer";

export type Judgement =
  | {
      readonly kind: "good";
      readonly balance: bigint;
      readonly hasCode: boolean;
      readonly atBlock: number;
      /** set when the payer's wallet must be deployed before the payment can settle */
      readonly deployment?: WalletDeployment;
    }
  | { readonly kind: "used" }
  | { readonly kind: "bad"; readonly error: TurnpikeError };

export interface JudgeContext {
  readonly config: FacilitatorConfig;
  readonly relayer: Relayer;
  readonly clock: Clock;
  /** last applied block; balances are read there, so that they agree with the rows of pending payments */
  applied(): number;
}

/** Gas that a contract wallet's signature check may use within one transfer. */
export const WALLET_GAS = 400_000n;

export function judgeWindow(
  config: FacilitatorConfig,
  request: PaymentRequest,
  nowSec: number,
): TurnpikeError | undefined {
  const { validAfter, validBefore } = request.authorization;
  if (validBefore <= BigInt(nowSec + config.minWindowSec)) {
    return refusal(
      "PaymentExpired",
      "expired",
      `validBefore ${validBefore} has passed or is too near: it is ${nowSec}`,
    );
  }
  if (validAfter >= BigInt(nowSec)) {
    return refusal("InvalidRequest", "not_yet_valid", `validAfter ${validAfter} has not passed: it is ${nowSec}`);
  }
  if (validBefore > BigInt(nowSec + config.maxWindowSec)) {
    return refusal("InvalidRequest", "window_too_long", `validBefore is more than ${config.maxWindowSec} seconds away`);
  }
  if (request.memoExpiresAtSec !== undefined && validBefore > BigInt(request.memoExpiresAtSec)) {
    return refusal("InvalidRequest", "window_too_long", "validBefore is after the memo's expiry");
  }
  return undefined;
}

/** @throws Unavailable when the chain cannot be read */
export async function isSignedByPayer(context: JudgeContext, request: PaymentRequest): Promise<boolean> {
  if (isSignedByKey(context.config, request)) return true;
  if ((await context.relayer.chain.code(request.authorization.from)) !== "0x") {
    return isSignedByPayersContract(context, request);
  }
  // A reorganisation may have removed the wallet of an accepted payment.
  const { deployment } = request;
  if (!deployment || whyFactoryRefused(context.config, request, deployment)) return false;
  return (await tryWallet(context, request, deployment)).isAccepted;
}

function isSignedByPayersContract({ config, relayer }: JudgeContext, request: PaymentRequest): Promise<boolean> {
  const { authorization, signature } = request;
  return isSignedByContract(relayer.chain, {
    wallet: authorization.from,
    digest: digestOf(config, request),
    signature,
  });
}

function whyFactoryRefused(
  { walletFactories }: FacilitatorConfig,
  { authorization: { from } }: PaymentRequest,
  { factory }: WalletDeployment,
): TurnpikeError | undefined {
  if (walletFactories?.includes(factory)) return undefined;
  return refusal(
    "PaymentNotAllowed",
    "wallet_factory",
    `the wallet ${from} is not deployed, and this Facilitator's setting WALLET_FACTORIES does not name its factory ${factory}; deploy the wallet first`,
  );
}

function tryWallet(
  { config, relayer }: JudgeContext,
  request: PaymentRequest,
  deployment: WalletDeployment,
): Promise<TrialResult> {
  const { authorization, signature } = request;
  const token = request.token.address;
  return tryDeployment(relayer.chain, {
    wallet: authorization.from,
    deployment,
    deployGas: config.walletDeployGas,
    signature,
    token,
    digest: digestOf(config, request),
    transfer: transferCalldata({ token, ...authorization, signature }),
  });
}

/** Tries an undeployed wallet. @returns why its payment is refused, when its signature or its deployment is the reason */
async function judgeDeployment(
  context: JudgeContext,
  request: PaymentRequest,
  deployment: WalletDeployment,
): Promise<TrialResult | TurnpikeError> {
  const refused = whyFactoryRefused(context.config, request, deployment);
  if (refused) return refused;
  const trial = await tryWallet(context, request, deployment);
  const { from } = request.authorization;
  if (!trial.isDeployed) {
    const { walletDeployGas } = context.config;
    const message = `the factory's call deploys no wallet at ${from} within ${walletDeployGas} gas (WALLET_DEPLOY_GAS)`;
    return refusal("InvalidSignature", "wallet_deployment", message);
  }
  return trial.isAccepted ? trial : wrongSigner();
}

const wrongSigner = (): TurnpikeError => refusal("InvalidSignature", "signature", "the signature is not the payer's");

const unsignable = (): TurnpikeError =>
  refusal(
    "PaymentNotAllowed",
    "method",
    "payers cannot sign for this token's domain: it is settled over Permit2 alone",
  );

/** Judges one request. @throws Unavailable when the chain cannot be read */
export async function judge(context: JudgeContext, request: PaymentRequest): Promise<Judgement> {
  const { config, relayer } = context;
  const bad = (error: TurnpikeError): Judgement => ({ kind: "bad", error });
  if (request.transfer.method === "eip3009" && relayer.permit2Only.has(request.token.address)) return bad(unsignable());
  const late = judgeWindow(config, request, context.clock.nowSec());
  // An expired authorization may have moved the money before. If so, the chain proves it, and the request is not refused.
  if (late && late.reason !== "expired") return bad(late);
  const { from, nonce } = request.authorization;
  const token = request.token.address;
  const atBlock = context.applied();
  // Starts before the signature check, so that the node answers meanwhile.
  const isPermit2 = request.transfer.method !== "eip3009";
  const asked = relayer.accounts.facts({ token, payer: from, nonce, isPermit2, balanceAtBlock: atBlock });
  const isByKey = isSignedByKey(config, request);
  const { hasCode, isNonceUsed: wasUsed, balance } = await asked;
  const deployment = isByKey || hasCode ? undefined : request.deployment;
  const trial = deployment && (await judgeDeployment(context, request, deployment));
  if (trial instanceof TurnpikeError) return bad(trial);
  const isSigned = isByKey || trial || (hasCode && (await isSignedByPayersContract(context, request)));
  if (!isSigned) return bad(wrongSigner());
  if (wasUsed) return { kind: "used" };
  if (late) return bad(late);
  if (balance < request.authorization.value) {
    return bad(
      refusal("InsufficientFunds", "funds", `the payer holds ${balance} of ${request.authorization.value} base units`, {
        details: { required: request.authorization.value.toString(), available: balance.toString() },
      }),
    );
  }
  const unmoved = await whyUnmoved(context, request, { hasCode, trial });
  if (unmoved) {
    // The trial is of a later block: the money may have moved since the nonce was read.
    const isUsedNow = await isNonceUsed(relayer, { token, payer: from, nonce, isPermit2 });
    return isUsedNow ? { kind: "used" } : bad(unmoved);
  }
  return { kind: "good", balance, hasCode, atBlock, ...(deployment && { deployment }) };
}

/** Simulates what more than the signature decides: Permit2's allowance, and the token's own check of a wallet. */
async function whyUnmoved(
  context: JudgeContext,
  request: PaymentRequest,
  { hasCode, trial }: { readonly hasCode: boolean; readonly trial: TrialResult | undefined },
): Promise<TurnpikeError | undefined> {
  const over = permit2PaymentOf(request);
  if (over) return judgePermit2(context, over);
  if (trial) {
    if (trial.isMoved) return undefined;
    return refusal("TransferFailed", "not_moved", "the token refuses the transfer of the deployed wallet");
  }
  if (!hasCode) return undefined;
  const token = request.token.address;
  const tried = await context.relayer.simulate({
    to: token,
    data: transferCalldata({ token, ...request.authorization, signature: request.signature }),
    gas: WALLET_GAS,
  });
  return tried.kind === "reverted" ? refusal("TransferFailed", "not_moved", tried.error.error.message) : undefined;
}

/**
 * Checks the allowance of Permit2, which the payer's own permit may bring, and simulates the settlement. Permit2 and the
 * proxy run more code than a token's transfer, and such a payment has a transaction of its own.
 */
async function judgePermit2(
  { config, relayer, clock }: JudgeContext,
  payment: Permit2Payment,
): Promise<TurnpikeError | undefined> {
  const { token, authorization, transfer } = payment;
  const { from: payer, value } = authorization;
  if (value === 0n) return undefined;
  const [funds] = await relayer.accounts.funds([{ token, payer, spender: PERMIT2 }]);
  const approval = funds?.approval ?? 0n;
  if (approval < value && !transfer.permit) {
    return refusal(
      "InsufficientFunds",
      "allowance",
      `Permit2 may move ${approval} of ${value} base units: approve it`,
      {
        details: { required: value.toString(), available: approval.toString() },
      },
    );
  }
  const isLate = transfer.permit && transfer.permit.deadline < BigInt(clock.nowSec() + config.minWindowSec);
  if (approval < value && isLate)
    return refusal("PaymentExpired", "permit_expired", "the permit for Permit2 has expired");
  const { to, data, extraGas } = proxyCallOf(payment);
  const trial = await relayer.simulate({
    to,
    data,
    gas: intrinsicGas(data) + BigInt(config.gasPerItem + extraGas) + WALLET_GAS,
    ...(transfer.method === "upto" && { from: transfer.sender }),
  });
  return trial.kind === "reverted" ? refusal("TransferFailed", "not_moved", trial.error.error.message) : undefined;
}

/** Returns whether the nonce is used. Also true after a cancellation, so it proves nothing about money. */
export async function isNonceUsed(relayer: Relayer, query: NonceQuery): Promise<boolean> {
  return isUsed(query, wordOf(await relayer.read(nonceCallOf(query))));
}

export async function balanceAt(relayer: Relayer, token: Address, payer: Address, block: number): Promise<bigint> {
  const data = tokenInterface.encodeFunctionData("balanceOf", [payer]) as Hex;
  return wordOf(await relayer.read({ to: token, data, ...(block >= 0 && { block }) }));
}

function wordOf(answer: Hex): bigint {
  if (answer.length !== 66) throw new Unavailable("a token's answer is malformed", { retryAfterSec: 2 });
  return BigInt(answer);
}
