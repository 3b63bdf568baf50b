/**
 * The standard x402 Facilitator interface. Negative results are HTTP 200, because stock clients discard the body
 * otherwise.
 */
import { type SupportedChainWire, type SupportedWire, X402_ENDPOINTS } from "turnpike/facilitator";
import { caip2Of, EIP2612_GAS_SPONSORING, type Hex } from "turnpike/protocol";
import type { ExactFailure, ExactRequest, SettleOutcome } from "../../payments/exact";
import type { SignedGrant } from "../../payments/grants";
import { EIP3009, idOfPayment } from "../../payments/transfer";
import { type Endpoint, type Handlers, ok, routes } from "../endpoint";
import type { ApiServices } from "../services";
import { wordOf } from "../x402-words";
import { exactRequestOf } from "./x402-request";

type OnceOutcome =
  | { readonly kind: "granted"; readonly transaction: Hex | ""; readonly grant?: SignedGrant }
  | { readonly kind: "pending"; readonly transaction?: Hex | "" }
  | ({ readonly kind: "refused" | "failed" } & ExactFailure);

/** Shorter than clients' time-outs: a 503 is more useful to them than a broken connection. */
const MAX_SETTLE_WAIT_MS = 35_000;

/**
 * A payment that is not in a transaction yet gets a longer wait. Stock servers retry only when they received a
 * transaction, and they wait for 90 s themselves.
 */
const MAX_UNSENT_WAIT_MS = 80_000;

/** How long to wait for a payment that another request of a stock server is processing. */
const MAX_HELD_WAIT_MS = 3_000;

export function x402Endpoints(services: ApiServices): Endpoint[] {
  const { payments, network } = services;
  const handlers: Handlers<typeof X402_ENDPOINTS> = {
    async verifyX402({ body, concerns }) {
      const request = exactRequestOf(body, "verify");
      if (typeof request === "string") return ok({ isValid: false as const, invalidReason: request });
      concerns(paymentIdOfExact(network.chainId, request));
      const verdict = await payments.verifyExact(request);
      if (verdict.kind === "valid") {
        const { payer, isReserved } = verdict;
        return ok({ isValid: true as const, payer, ...(isReserved && { reserved: true as const }) });
      }
      const { reason, error, payer } = verdict;
      // For a payment that was already used, stock servers know only the reference's reason.
      const isStock = !request.purchase.isGate;
      const known = isStock && reason === "payment_already_granted" ? "invalid_transaction_state" : reason;
      const invalidReason = wordOf(body.paymentPayload.x402Version, known, request.transfer);
      return {
        status: 200,
        body: { isValid: false as const, invalidReason, invalidMessage: error.message, ...(payer && { payer }) },
      };
    },
    async settleX402({ body, isGone, concerns }) {
      const { network: name } = body.paymentRequirements;
      const refused = { success: false as const, transaction: "", network: name };
      const request = exactRequestOf(body, "settle");
      if (typeof request === "string") return ok({ ...refused, errorReason: request });
      const { from: payer } = request.authorization;
      concerns(paymentIdOfExact(network.chainId, request));
      const outcome = await settleOnce(services, request, isGone);
      switch (outcome.kind) {
        case "granted": {
          const { transaction, grant } = outcome;
          const amount = request.transfer?.method === "upto" ? { amount: request.amount.toString() } : {};
          return {
            status: 200,
            body: { success: true as const, payer, transaction, network: name, ...amount, ...(grant && { grant }) },
          };
        }
        case "pending": {
          const { transaction = "" } = outcome;
          const errorMessage = "The payment is not settled yet: send the same request again, and sign nothing new.";
          const errorReason = "settlement_pending";
          return ok({ ...refused, payer, errorReason, errorMessage, transaction });
        }
        default: {
          // Not a verdict on the payment: it could not be verified.
          if (outcome.error.status >= 500) throw outcome.error;
          const { reason, error } = outcome;
          const errorReason = wordOf(body.paymentPayload.x402Version, reason, request.transfer);
          return ok({ ...refused, payer, errorReason, errorMessage: error.message });
        }
      }
    },
    async getSupported() {
      const { deployment } = services;
      const all = deployment?.all() ?? [services];
      return {
        status: 200,
        body: {
          kinds: all.flatMap(kindsOf),
          extensions: all.some(settlesPermit2) ? [EIP2612_GAS_SPONSORING] : [],
          signers: Object.fromEntries(
            all.map(({ network, supported }) => [caip2Of(network.chainId), [...supported.relayers]]),
          ),
          ...factsOf(services),
          paymentGrants: true,
          reservations: true,
          ...(deployment && { chains: all.map(factsOf) }),
        },
      };
    },
  };
  return routes(services, X402_ENDPOINTS, handlers, {
    verifyX402: ({ code, message }) => ({ isValid: false, invalidReason: reasonOf(code), invalidMessage: message }),
    settleX402: ({ code, reason, message, details }) => ({
      success: false,
      // What an outage or a stop has interrupted may be stored; what is refused unread is not.
      errorReason: code === "Unavailable" && reason !== "busy" ? "settlement_pending" : reasonOf(code),
      errorMessage: message,
      transaction: "",
      // Another chain's API answers for a chain that is not up.
      network: details?.network ?? network.name,
    }),
  });
}

const settlesPermit2 = ({ supported }: ApiServices): boolean => supported.transferMethods?.includes("permit2") ?? false;

function kindsOf({ network, uptoSigner }: ApiServices): SupportedWire["kinds"] {
  const v1Names = [...new Set([network.name, network.x402v1 ?? network.name])];
  const signer = uptoSigner();
  const upto = { x402Version: 2, scheme: "upto", network: caip2Of(network.chainId) };
  return [
    ...v1Names.map((name) => ({ x402Version: 1, scheme: "exact", network: name })),
    { x402Version: 2, scheme: "exact", network: caip2Of(network.chainId) },
    ...(signer ? [{ ...upto, extra: { facilitatorAddress: signer } }] : []),
  ];
}

/** What holds for one chain. */
function factsOf({ network, supported }: ApiServices): SupportedChainWire {
  const { relayers, ...facts } = supported;
  return { network: network.name, chainId: network.chainId, ...facts, relayers: [...relayers] };
}

/** Settles, then grants. The grant is durable before this returns, and a client that has disconnected gets none. */
async function settleOnce(services: ApiServices, request: ExactRequest, isGone: () => boolean): Promise<OnceOutcome> {
  const { payments } = services;
  let isGranted = false;
  try {
    const outcome = await settle(services, request, isGone);
    // Includes the transaction when there is one: a stock server then queries another process.
    if (outcome === "draining") return pendingOf(await payments.settleExact(request, { waitMs: 0 }));
    if (outcome.kind !== "settled") return outcome;
    const { transaction } = outcome;
    const granted = await payments.grantExact(request, outcome, { waitMs: MAX_HELD_WAIT_MS, isGone });
    if (granted.kind === "held") return { kind: "pending", transaction };
    isGranted = granted.kind === "granted";
    return granted.kind === "granted" ? { ...granted, transaction } : granted;
  } finally {
    if (!isGranted) await payments.releaseExact(request);
  }
}

async function settle(
  { payments, untilDraining }: ApiServices,
  request: ExactRequest,
  isGone: () => boolean,
): Promise<SettleOutcome | "draining"> {
  const waitMs = Math.min(request.maxTimeoutSec * 1_000, MAX_SETTLE_WAIT_MS);
  const outcome = await untilDraining(payments.settleExact(request, { waitMs }));
  const isUnsent = outcome !== "draining" && outcome.kind === "pending" && !outcome.transaction;
  if (!isUnsent || request.purchase.isGate || isGone()) return outcome;
  return untilDraining(payments.settleExact(request, { waitMs: MAX_UNSENT_WAIT_MS - waitMs }));
}

/** Returns what is known of a settlement after the wait ends. */
function pendingOf(outcome: SettleOutcome): OnceOutcome {
  return outcome.kind === "settled" ? { kind: "pending", transaction: outcome.transaction } : outcome;
}

export function paymentIdOfExact(chainId: number, { token, authorization, transfer = EIP3009 }: ExactRequest): Hex {
  return idOfPayment(chainId, token, authorization, transfer);
}

/** Returns the standard's reason for a problem. */
function reasonOf(code: string): string {
  if (code === "InvalidRequest" || code === "UnsupportedMediaType" || code === "PayloadTooLarge")
    return "invalid_payload";
  return code === "PaymentPending" ? "settlement_pending" : "unexpected_settle_error";
}
