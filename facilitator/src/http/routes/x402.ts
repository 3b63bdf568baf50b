/** The standard x402 Facilitator interface. Negatives are HTTP 200; stock clients throw the body away otherwise. */
import {
  supportedSchema,
  type X402Request,
  x402RequestSchema,
  x402SettleResponseSchema,
  x402VerifyResponseSchema,
} from "turnpike/facilitator";
import { caip2Of, type Hex, PaymentPending, paymentIdOf } from "turnpike/protocol";
import type { ExactRequest } from "../../payments";
import type { Doors } from "../app";
import { type Endpoint, endpoint } from "../endpoint";

/** Below what clients wait for an answer: a 503 tells them more than a broken connection. */
const MAX_SETTLE_WAIT_MS = 35_000;

export function x402Endpoints({ payments, supported, network, untilDraining }: Doors): Endpoint[] {
  const untold = createUntold();
  const idOf = ({ token, authorization: { from, nonce } }: ExactRequest): Hex =>
    paymentIdOf({ chainId: network.chainId, token, payer: from, nonce });

  /**
   * Stock servers serve first what verifies, and settle then: a payment that was told as settled has bought its request.
   * One whose settlement nobody was told of has not, so that the server's retry can go through.
   */
  async function isSpent(request: ExactRequest): Promise<boolean> {
    const paymentId = idOf(request);
    return !untold.has(paymentId) && (await payments.status(paymentId)).status === "settled";
  }

  return [
    endpoint({
      method: "post",
      path: "/verify",
      tag: "x402",
      summary: "Standard x402: would this payload settle?",
      body: x402RequestSchema,
      answers: { 200: x402VerifyResponseSchema },
      problemExtra: ({ code, message }) => ({ isValid: false, invalidReason: reasonOf(code), invalidMessage: message }),
      async handle({ body }) {
        const request = exactRequestOf(body);
        if (!request)
          return { status: 200, body: { isValid: false as const, invalidReason: "invalid_payment_requirements" } };
        const verdict = await payments.verifyExact(request);
        if (verdict.kind === "valid" && (await isSpent(request))) {
          const invalidReason = "invalid_transaction_state";
          return { status: 200, body: { isValid: false as const, invalidReason, payer: verdict.payer } };
        }
        return {
          status: 200,
          body:
            verdict.kind === "valid"
              ? { isValid: true as const, payer: verdict.payer }
              : {
                  isValid: false as const,
                  invalidReason: verdict.reason,
                  ...(verdict.payer && { payer: verdict.payer }),
                },
        };
      },
    }),
    endpoint({
      method: "post",
      path: "/settle",
      tag: "x402",
      summary: "Standard x402: settle. HTTP 503 while the outcome is unknown; asking again never pays twice.",
      body: x402RequestSchema,
      answers: { 200: x402SettleResponseSchema },
      problemExtra: ({ code, message }) => ({
        success: false,
        errorReason: reasonOf(code),
        errorMessage: message,
        transaction: "",
        network: network.name,
      }),
      async handle({ body }) {
        const { network: name } = body.paymentRequirements;
        const refused = { success: false as const, transaction: "", network: name };
        const request = exactRequestOf(body);
        if (!request) return { status: 200, body: { ...refused, errorReason: "invalid_payment_requirements" } };
        const waitMs = Math.min(request.maxTimeoutSec * 1_000, MAX_SETTLE_WAIT_MS);
        const outcome = await untilDraining(payments.settleExact(request, { waitMs }));
        if (outcome === "draining" || outcome.kind === "pending") {
          untold.add(idOf(request));
          throw new PaymentPending(undefined, { retryAfterSec: 1 });
        }
        switch (outcome.kind) {
          case "settled": {
            const { payer, transaction } = outcome;
            untold.delete(outcome.paymentId);
            return { status: 200, body: { success: true as const, payer, transaction, network: name } };
          }
          case "refused":
          case "failed": {
            // Not a verdict on the payment: it could not be judged.
            if (outcome.error.status >= 500) throw outcome.error;
            const { reason, error, payer } = outcome;
            return {
              status: 200,
              body: { ...refused, errorReason: reason, errorMessage: error.message, ...(payer && { payer }) },
            };
          }
        }
      },
    }),
    endpoint({
      method: "get",
      path: "/supported",
      tag: "x402",
      summary: "Chains, tokens, signers and relayers; also as stock x402 clients of versions 1 and 2 read them.",
      answers: { 200: supportedSchema },
      async handle() {
        const v1Names = [...new Set([network.name, network.x402v1 ?? network.name])];
        const { relayers, ...facts } = supported;
        return {
          status: 200,
          body: {
            kinds: [
              ...v1Names.map((name) => ({ x402Version: 1, scheme: "exact", network: name })),
              { x402Version: 2, scheme: "exact", network: caip2Of(network.chainId) },
            ],
            extensions: [],
            signers: { [caip2Of(network.chainId)]: [...relayers] },
            network: network.name,
            chainId: network.chainId,
            ...facts,
            relayers: [...relayers],
          },
        };
      },
    }),
  ];
}

const MAX_UNTOLD = 10_000;

/** Payments whose `/settle` was answered before their outcome was known; the oldest are forgotten first. */
function createUntold() {
  const ids = new Set<Hex>();
  return {
    has: (id: Hex) => ids.has(id),
    delete: (id: Hex) => ids.delete(id),
    add(id: Hex) {
      ids.add(id);
      const oldest = ids.size > MAX_UNTOLD ? ids.values().next().value : undefined;
      if (oldest !== undefined) ids.delete(oldest);
    },
  };
}

/** One word of the standard's vocabulary for what stands in the problem in full. */
function reasonOf(code: string): string {
  if (code === "InvalidRequest" || code === "UnsupportedMediaType" || code === "PayloadTooLarge")
    return "invalid_payload";
  return code === "PaymentPending" ? "settlement_pending" : "unexpected_settle_error";
}

/** @returns undefined when the payload was made for other requirements than those it is presented with */
function exactRequestOf({ paymentPayload, paymentRequirements }: X402Request): ExactRequest | undefined {
  const { authorization, signature } = paymentPayload.payload;
  const { network, asset, payTo, maxTimeoutSeconds } = paymentRequirements;
  const common = { network, token: asset, payTo, maxTimeoutSec: maxTimeoutSeconds, authorization, signature };
  if (paymentPayload.x402Version === 1) {
    if (!("maxAmountRequired" in paymentRequirements) || paymentPayload.network !== network) return undefined;
    return { ...common, amount: paymentRequirements.maxAmountRequired, resource: paymentRequirements.resource };
  }
  const { accepted, resource } = paymentPayload;
  if (!("amount" in paymentRequirements)) return undefined;
  const { amount } = paymentRequirements;
  const isSame =
    accepted.network === network && accepted.asset === asset && accepted.payTo === payTo && accepted.amount === amount;
  return isSame ? { ...common, amount, resource: resource?.url ?? "" } : undefined;
}
