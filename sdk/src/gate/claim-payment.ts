/** A payment that was judged sound: claimed for one request, then confirmed, or given back. */
import { caip2Of, encodeJsonHeader, HEADER, TurnpikeError } from "../protocol";
import { type HeldClaim, holdClaim } from "./claims/held-claim";
import type { OneTimePayment, Payment } from "./payment";
import type { Refusal } from "./quote";
import type { GateRequest } from "./request";
import type { Room } from "./room";
import type { Route } from "./route";
import type { Settings } from "./settings";

export interface PaymentGrant {
  readonly kind: "grants";
  readonly payment: OneTimePayment;
  readonly claim: HeldClaim;
  /** what is told with the response */
  readonly headers: Readonly<Record<string, string>>;
}

export type PaymentVerdict =
  | PaymentGrant
  | { readonly kind: "refused"; readonly refusal: Refusal }
  /** neither paid nor unpaid: in use elsewhere (409), or not for this payer (403) */
  | { readonly kind: "barred"; readonly error: TurnpikeError }
  | { readonly kind: "unavailable"; readonly cause: TurnpikeError };

export interface PaymentCase {
  readonly room: Room;
  readonly route: Route;
  readonly request: GateRequest;
  readonly resource: string;
  /** hex SHA-256, where the route binds bodies */
  readonly bodyHash: string | undefined;
}

export type Confirmation =
  | { readonly kind: "settled"; readonly transaction?: OneTimePayment["transaction"] }
  | { readonly kind: "faulty"; readonly reason: string };

export interface Candidate {
  readonly payment: OneTimePayment;
  readonly keepUntilSec: number;
  readonly nowSec: number;
  /** whether the money is there. @throws Unavailable when nobody can tell */
  readonly confirm: () => Promise<Confirmation>;
}

/** The claim comes before the question: of many equal requests one asks, and a used proof asks nobody. */
export async function claimAndConfirm(at: PaymentCase, candidate: Candidate): Promise<PaymentVerdict> {
  const { room, route, request } = at;
  const { payment, keepUntilSec, nowSec, confirm } = candidate;
  if (route.authorize && !(await isAuthorized(route, payment, request))) {
    return { kind: "barred", error: new TurnpikeError("AccessRefused") };
  }
  const { paymentId } = payment;
  const attempt = await holdClaim({ store: room.claims, paymentId, keepUntilSec, nowSec, nowMs: Date.now });
  if (attempt.kind === "used") {
    return invalid("already_used", "This payment has bought its request; pay the fresh quote for another.");
  }
  if (attempt.kind === "running") {
    const { retryAfterSec } = attempt;
    return { kind: "barred", error: new TurnpikeError("ProofInFlight", undefined, { retryAfterSec }) };
  }
  const { claim } = attempt;
  try {
    const confirmed = await confirm();
    if (confirmed.kind === "faulty") {
      await claim.settle("withdraw");
      return invalid(confirmed.reason, messageOf(confirmed.reason));
    }
    const paid = confirmed.transaction === undefined ? payment : { ...payment, transaction: confirmed.transaction };
    return { kind: "grants", payment: paid, claim, headers: receiptHeaders(paid, room.settings) };
  } catch (error) {
    await claim.settle("withdraw");
    throw error;
  }
}

export async function isAuthorized(route: Route, payment: Payment, request: GateRequest) {
  try {
    return (await route.authorize?.(payment, request.raw)) !== false;
  } catch (cause) {
    throw new TurnpikeError("Internal", "Whether this payer may be served could not be decided.", { cause });
  }
}

/** Each version's clients read their own header, with the network named as they know it. */
function receiptHeaders({ transaction, payer }: OneTimePayment, settings: Settings): Record<string, string> {
  const receiptOn = (network: string) => encodeJsonHeader({ success: true, transaction, network, payer });
  return {
    [HEADER.paymentResponse]: receiptOn(settings.networkText),
    [HEADER.paymentResponseV2]: receiptOn(caip2Of(settings.network.chainId)),
  };
}

export function invalid(reason: string, message: string): PaymentVerdict {
  return { kind: "refused", refusal: { code: "InvalidPaymentProof", reason, message } };
}

const MESSAGES: Readonly<Record<string, string>> = {
  network: "The proof is of another network.",
  resource: "The proof was made for another resource: URL, query included, must be the one that was quoted.",
  expired: "The proof has expired.",
  memo: "The proof's memo was not issued for this method, resource, price, token and payee.",
  memo_expired: "The payment settled after its quote had expired.",
  facilitator: "The proof was signed by a Facilitator that this provider does not trust.",
  signer_retired: "The proof's signer is retired: post the same authorization to the Facilitator for a fresh proof.",
  signature: "The proof's signature is not its Facilitator's.",
  not_settled: "The chain does not show this payment: repeat the request with the same proof before paying again.",
  reversed: "The chain gave up the block that held this payment; post the same authorization again.",
};

export const messageOf = (reason: string): string =>
  MESSAGES[reason] ?? "The payment was not accepted; pay the fresh quote.";
