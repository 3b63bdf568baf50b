/** What one provider's gates share, and what a gate reports of its decisions. */
import type { Rpc } from "../../chain/rpc";
import type { StateReader } from "../../chain/states";
import type { Subscription } from "../../facilitator/subscriptions";
import type { Address, TurnpikeError } from "../../protocol";
import type { Tracing } from "../../protocol/tracing";
import type { MeterPort } from "../metering/meter";
import type { ClaimStore } from "../purchases/record";
import type { Decision } from "./answer";
import type { GateTime } from "./chain-follower";
import type { SupportSource } from "./facilitator-support";
import type { FacilitatorCheck, GateFacilitator } from "./gate-facilitator";
import type { OfferReceiptIssuer } from "./offer-receipts";
import type { PaymentTarget } from "./options";
import type { RefundRequests } from "./refund-requests";
import type { GateRequest } from "./request";
import type { Settings } from "./settings";
import type { Terms } from "./terms";
import type { UsageReceiptIssuer } from "./usage-receipts";

export interface GateReports {
  /** @returns a callback for the end of a request that was allowed, if it is counted */
  decided(decision: Decision, request: GateRequest): ((how: "use" | "release") => void) | undefined;
  /** A charge was refused while the handler ran: the client gets 402 instead of the handler's answer. */
  refusedCharge(decision: Decision | undefined, request: GateRequest, error: TurnpikeError | undefined): void;
  /** The gate itself failed. */
  failed(error: unknown, request: GateRequest): void;
  flush(): Promise<void>;
  close(): Promise<void>;
}

/** What payments of one target are judged by. */
export interface TargetContext {
  readonly settings: Settings;
  readonly terms: Terms;
  readonly time: GateTime;
  readonly rpc: Rpc | undefined;
  readonly states: StateReader | undefined;
  readonly facilitator: Pick<
    GateFacilitator,
    | "verifyProof"
    | "x402Verify"
    | "x402Settle"
    | "releasePayment"
    | "payment"
    | "signsGrants"
    | "reserves"
    | "knownToReserve"
  >;
  /** has payments refunded whose handler failed */
  readonly refunds: RefundRequests;
  /** compares the pinned signers with the Facilitator's own */
  readonly facilitatorCheck: FacilitatorCheck;
  /** what the Facilitator supports */
  readonly support: SupportSource;
}

/** What is the provider's own, whatever the target. */
export interface ProviderContext {
  /** absent: nothing is traced */
  readonly tracing: Tracing | undefined;
  /** Lists a wallet's subscriptions from the Facilitator's index, newest first. @throws Unavailable */
  ownedBy(wallet: Address): Promise<readonly OwnedSubscription[]>;
  readonly claims: ClaimStore;
  /** signs offers and receipts, where that is configured */
  readonly offerReceipts: OfferReceiptIssuer | undefined;
  readonly meter: MeterPort | undefined;
  /** signs receipts of metered charges, where a key for it is configured */
  readonly usageReceipts: UsageReceiptIssuer | undefined;
  /** counts the outcomes of requests, where that is configured */
  readonly reports: GateReports | undefined;
  /** Resolves once the meter's store is open. @throws Unavailable */
  meterStarted(): Promise<void>;
  isMeterOpen(): boolean;
  /**
   * Returns the context in which payments of one entry are judged: its own network, token, payee, Facilitator and reading
   * of the chain; claims and all else are this provider's. This context itself where nothing differs.
   * @param field the entry's own, for errors
   * @throws ConfigError
   */
  forTarget(target: PaymentTarget, field: string): GateContext;
  close(): Promise<void>;
}

/** What one gate decides by: one target of one provider. */
export interface GateContext extends TargetContext, ProviderContext {}

export type OwnedSubscription = Pick<Subscription, "idHash" | "planId" | "status">;
