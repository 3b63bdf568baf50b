/**
 * Judges whether a payment proof pays for this request: the gate's own checks first, then whether the payment is still
 * settled.
 */
import { findSettlement } from "../../chain/settlement";
import { readHead } from "../../chain/views";
import {
  ConfigError,
  findNetwork,
  type Hex,
  isMemoGenuine,
  isProofSignedBy,
  type JsonObject,
  type ParsedMemo,
  type PaymentProof,
  PROOF_LIFE_SEC,
  parseMemo,
  paymentIdOf,
  paymentNonce,
  proofToWire,
  readPaymentProof,
  Unavailable,
} from "../../protocol";
import { DAY_SEC } from "../../protocol/periods";
import { traceHeadersOf } from "../../protocol/tracing";
import type { GateContext } from "../core/context";
import { chargesNothing, countsOnly, deductsNothing, type OneTimePayment } from "../core/payment";
import {
  type Candidate,
  grantRefundable,
  invalid,
  messageOf,
  type PaymentAnswers,
  type PaymentCase,
  type PaymentVerdict,
  withdrawClaim,
} from "../core/payment-case";
import type { Settings } from "../core/settings";
import { recoverSigner } from "../methods/method";
import { secretOfProof } from "../replay/keeper";

/** Why a proof does not pay for its request; sent as `reason` of InvalidPaymentProof. */
export type ProofFault =
  | "network"
  | "resource"
  | "expired"
  | "memo"
  | "memo_expired"
  | "facilitator"
  | "signer_retired"
  | "signature"
  | "reversed"
  | "not_settled"
  | (string & {});

export type ProofVerdict =
  /** ref: the memo's, which the gate chose */
  | { readonly kind: "sound"; readonly paymentId: Hex; readonly nonce: Hex; readonly ref: string }
  | { readonly kind: "faulty"; readonly reason: ProofFault };

export interface ProofContext {
  readonly settings: Settings;
  readonly method: string;
  readonly resource: string;
  /** hex SHA-256, where the route binds bodies */
  readonly bodyHash?: string | undefined;
  /** unix seconds, chain time */
  readonly nowSec: number;
}

/** Checks a native proof. @returns what to claim, or why nothing is. @throws InvalidPaymentProof */
export function checkProof(payload: JsonObject, dialect: PaymentAnswers, at: PaymentCase): Candidate | PaymentVerdict {
  const { context, resource, bodyHash } = at;
  const proof = readPaymentProof(payload);
  const nowSec = context.time.nowSec();
  const { settings } = context;
  const verdict = judgeProof(proof, { settings, method: at.quotedMethod, resource, bodyHash, nowSec });
  if (verdict.kind === "faulty") {
    if (verdict.reason === "facilitator") context.facilitatorCheck.refusedSigner(proof.facilitator);
    return invalid(verdict.reason, messageOf(verdict.reason));
  }
  const { paymentId, nonce, ref } = verdict;
  const purchase = { dialect, payment: paymentOf(proof, paymentId, context), secret: secretOfProof(ref) };
  return {
    ...purchase,
    keepUntilSec: proof.expiresAt + DAY_SEC,
    nowSec,
    async confirm(claim) {
      const fault = await faultOfSettlement(at, proof, nonce);
      return fault === undefined ? grantRefundable(at, { ...purchase, claim }) : withdrawClaim(claim, fault);
    },
  };
}

const faulty = (reason: ProofFault): ProofVerdict => ({ kind: "faulty", reason });

/** Checks what the proof alone shows, cheap checks first. Quoted terms hold: the current price is not considered. */
export function judgeProof(proof: PaymentProof, context: ProofContext): ProofVerdict {
  const { settings, resource, nowSec } = context;
  const { chainId } = settings.network;
  if (findNetwork(proof.network, settings.extraNetworks)?.chainId !== chainId) return faulty("network");
  if (proof.resource !== resource) return faulty("resource");
  if (nowSec >= proof.expiresAt) return faulty("expired");
  const memo = parseMemo(proof.memo);
  if (!memo || !isQuoted(memo, proof, context)) return faulty("memo");
  if (proof.settledAt > memo.expiresAtSec) return faulty("memo_expired");
  const signer = settings.facilitator?.signers.find(proof.facilitator);
  if (!signer) return faulty("facilitator");
  if (signer.until !== undefined && !isQuotedBefore(signer.until, proof, memo, settings))
    return faulty("signer_retired");
  if (!isProofSignedBy(proof, chainId, proof.facilitator, recoverSigner)) return faulty("signature");
  const nonce = paymentNonce(memo.ref, resource);
  const paymentId = paymentIdOf({ chainId, token: proof.token, payer: proof.payer, nonce });
  return { kind: "sound", nonce, paymentId, ref: memo.ref };
}

/**
 * Returns whether a retired signer may have signed this before it retired. The proof's times are only its signer's
 * claims; the memo shows when this gate issued the quote. So in every mode a retired key proves nothing that was
 * quoted after its end.
 */
function isQuotedBefore(until: number, proof: PaymentProof, memo: ParsedMemo, { quoteLifeSec }: Settings): boolean {
  const isInTime = proof.settledAt < until && memo.expiresAtSec - quoteLifeSec < until;
  return isInTime && proof.expiresAt <= proof.settledAt + PROOF_LIFE_SEC;
}

function isQuoted(memo: ParsedMemo, proof: PaymentProof, { settings, method, bodyHash }: ProofContext): boolean {
  const { resource, amount, token, payTo } = proof;
  const bound = bodyHash === undefined ? {} : { bodyHash };
  const facts = { method, resource, amount, token, payTo, network: settings.network.name, ...bound };
  return isMemoGenuine(memo, facts, settings.memoKeys);
}

/**
 * Checks, in the configured mode, that the payment behind a sound proof is still settled.
 * @returns undefined when it is. @throws Unavailable when the answer is unknown
 */
export async function faultOfSettlement(
  { context, request }: Pick<PaymentCase, "context" | "request">,
  proof: PaymentProof,
  nonce: Hex,
): Promise<ProofFault | undefined> {
  switch (context.settings.verify) {
    case "signature":
      return undefined;
    case "facilitator": {
      const verdict = await context.facilitator.verifyProof(proofToWire(proof), { trace: traceHeadersOf(request) });
      if (verdict.valid) return undefined;
      // Neither paid nor unpaid: its block is being replaced, and the payment is on its way into another one.
      if (verdict.reason === "pending") throw unconfirmed();
      return verdict.reason;
    }
    case "onchain": {
      if (!context.rpc) throw new ConfigError('rpcUrl is not set (TURNPIKE_RPC_URL): verify "onchain" reads the chain');
      const { token, payer, payTo, amount, transaction } = proof;
      const { confirmations, facilitator } = context.settings;
      const before = facilitator?.signers.find(proof.facilitator)?.until;
      const paid = { token, payer, payTo, amount, nonce, transaction, confirmations, before };
      const found = await findSettlement(context.rpc, paid);
      if (found === "shallow") throw unconfirmed();
      // A node that is behind the payment's block cannot know of it yet; blocks may share a second.
      if (found === "absent" && (await readHead(context.rpc)).timeSec <= proof.settledAt) throw unconfirmed();
      if (found === "late") return "signer_retired";
      return found === "settled" ? undefined : "not_settled";
    }
  }
}

const unconfirmed = (): Unavailable => new Unavailable("The payment is not confirmed yet.", { retryAfterSec: 2 });

function paymentOf(
  proof: PaymentProof,
  paymentId: OneTimePayment["paymentId"],
  { settings }: GateContext,
): OneTimePayment {
  const { payer, payTo, amount, token, network, transaction } = proof;
  const facts = { payer, payTo, amount, token, network, paymentId, transaction };
  return {
    kind: "one-time",
    dialect: "turnpike",
    ...facts,
    deduct: deductsNothing,
    charge: chargesNothing,
    meter: countsOnly(settings.token ?? {}),
  };
}
