/** What the service does with payments, as its API and its roles call it. */
import type { RefundNaming } from "turnpike/facilitator";
import type { Address, Hex, PaymentProof, SignedPayment, TurnpikeError } from "turnpike/protocol";
import type { Party } from "../lib/fair-shares";
import type {
  ExactRequest,
  ExactVerdict,
  GrantedOutcome,
  GrantOptions,
  Settled,
  SettleOutcome,
  WaitOptions,
} from "./exact";
import type { ProofVerdict } from "./proof-verifier";
import type { AutomaticRefundRequest, RefundOutcome, RefundRequest } from "./refund-service";

export type AuthorizeOutcome =
  | { readonly kind: "settled"; readonly paymentId: Hex; readonly proof: PaymentProof }
  | { readonly kind: "pending"; readonly paymentId: Hex; readonly retryAfterSec: number }
  /** can never move money */
  | { readonly kind: "failed"; readonly paymentId: Hex; readonly error: TurnpikeError }
  /** this call sent nothing; until `liveUntilSec` the authorization can still move money */
  | {
      readonly kind: "refused";
      readonly error: TurnpikeError;
      readonly paymentId?: Hex;
      readonly liveUntilSec?: number;
    };

/** What can be found in a request without parsing it. */
export interface PaymentOutline {
  readonly party: Party;
  /** undefined: not found */
  readonly paymentId: Hex | undefined;
}

export interface PaymentStatusAnswer {
  readonly status: "pending" | "settled" | "failed" | "reversed" | "unknown";
  readonly transaction?: Hex;
  readonly reason?: string;
  readonly refunds?: readonly RefundFacts[];
}

export interface RefundFacts {
  readonly index: number;
  readonly account: Address;
  readonly amount: bigint;
  readonly transaction: Hex;
  /** the payee's signed statement that names the account, of an automatic refund */
  readonly naming?: RefundNaming;
}

export interface Payments {
  authorize(signed: SignedPayment, options?: WaitOptions): Promise<AuthorizeOutcome>;
  /**
   * Returns why a payment would be refused now, before anything of it is read. A payment that this process has seen
   * lately is not: its outcome may be known.
   * @param ask called only while some are refused
   */
  whyBusy(ask: () => PaymentOutline): TurnpikeError | undefined;
  status(paymentId: Hex): Promise<PaymentStatusAnswer>;
  /** Returns the settled refunds of a payment, a debit or a charge that are deep enough to count, by index. */
  refunds(refundedId: Hex): Promise<readonly RefundFacts[]>;
  /** Settles a refund that the payee or provider has signed. */
  refund(request: RefundRequest, options?: WaitOptions): Promise<RefundOutcome>;
  /** Refunds a whole payment from the account that its payee has named, within its daily cap. */
  refundAutomatically(request: AutomaticRefundRequest, options?: WaitOptions): Promise<RefundOutcome>;
  /** @throws Unavailable when the chain is needed and does not answer */
  verifyProof(proof: PaymentProof): Promise<ProofVerdict>;
  /** Verifies a payment; reserves its amount when the request names a gate's purchase. */
  verifyExact(request: ExactRequest): Promise<ExactVerdict>;
  /** Ends a gate's reservation of a payment that was not accepted. @returns whether this purchase had one */
  releaseReservation(paymentId: Hex, grantId: Hex): Promise<boolean>;
  /**
   * Settles a payment without granting it: a settled payment may be requested again. The hold lasts until the payment
   * is granted or released.
   */
  settleExact(request: ExactRequest, options?: WaitOptions): Promise<SettleOutcome>;
  /**
   * Grants a settled payment to the request's purchase durably: the last step before the answer is sent. Waits while
   * another stock server's request holds the payment, or while the database does not confirm the grant.
   */
  grantExact(request: ExactRequest, settled: Settled, options: GrantOptions): Promise<GrantedOutcome>;
  /** Ends the hold on a payment that was not granted, so that the next request can get it. */
  releaseExact(request: ExactRequest): Promise<void>;
  /** Returns the gas of the payer who costs most within an hour, as a share of MAX_GAS_PER_PAYER. */
  highestPayerGas(): number;
  health(): { readonly ok: boolean; readonly queued: number; readonly oldestQueuedSec: number };
  stop(): Promise<void>;
}
