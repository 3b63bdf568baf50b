/** From a payment header to a grant that is held: a proof of this project's Facilitator, or a standard payload. */
import { isTurnpikeError, type JsonObject, type PaymentProof, readPaymentProof } from "../protocol";
import { claimAndConfirm, invalid, messageOf, type PaymentCase, type PaymentVerdict } from "./claim-payment";
import type { PaymentCredential } from "./credentials";
import { faultOfSettlement, judgeProof } from "./judge-proof";
import { judgeStandard } from "./judge-standard";
import { deductsNothing, type OneTimePayment } from "./payment";
import { secretOfProof } from "./replay/secret";

const DAY_SEC = 86_400;

export async function judgePayment(credential: PaymentCredential, at: PaymentCase): Promise<PaymentVerdict> {
  try {
    switch (credential.kind) {
      case "malformed":
        return invalid("malformed", `${credential.header} holds no payment: base64 of a JSON proof or payload.`);
      case "proof":
        return await judgeNative(credential.payload, at);
      case "x402-v1":
      case "x402-v2":
        return await judgeStandard(credential, at);
    }
  } catch (error) {
    if (!isTurnpikeError(error)) throw error;
    if (error.status === 503) return { kind: "unavailable", cause: error };
    if (error.status === 409) return { kind: "barred", error };
    if (error.code === "InvalidPaymentProof") return invalid(error.reason ?? "malformed", error.message);
    throw error;
  }
}

async function judgeNative(payload: JsonObject, at: PaymentCase): Promise<PaymentVerdict> {
  const { room, request, resource, bodyHash } = at;
  const proof = readPaymentProof(payload);
  const nowSec = room.time.nowSec();
  const verdict = judgeProof(proof, { settings: room.settings, method: request.method, resource, bodyHash, nowSec });
  if (verdict.kind === "faulty") return invalid(verdict.reason, messageOf(verdict.reason));
  const { paymentId, nonce } = verdict;
  return claimAndConfirm(at, {
    payment: paymentOf(proof, paymentId),
    secret: secretOfProof(proof.memo),
    keepUntilSec: proof.expiresAt + DAY_SEC,
    nowSec,
    confirm: async () => {
      const fault = await faultOfSettlement(room, proof, nonce);
      return fault === undefined ? { kind: "settled" } : { kind: "faulty", reason: fault };
    },
  });
}

function paymentOf(proof: PaymentProof, paymentId: OneTimePayment["paymentId"]): OneTimePayment {
  const { payer, payTo, amount, token, network, transaction } = proof;
  const facts = { payer, payTo, amount, token, network, paymentId, transaction };
  return { kind: "one-time", dialect: "turnpike", ...facts, deduct: deductsNothing };
}
