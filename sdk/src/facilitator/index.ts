/** The Facilitator's HTTP API: its wire bodies, each described once, and the typed client that agents and gates use. */

export * from "./analytics";
export * from "./attention";
export * from "./client";
export * from "./debits";
export { MOVEMENT_KINDS } from "./digest";
export * from "./discovery";
export * from "./discovery-client";
export * from "./endpoints";
export * from "./keys";
export * from "./labels";
export * from "./payments";
export * from "./problem";
export * from "./records";
export * from "./refund-accounts";
export * from "./refunds";
export * from "./reports";
export * from "./service";
export * from "./spending";
export * from "./submit-refund";
export * from "./subscription-figures";
export * from "./subscriptions";
export * from "./supported";
export { type VerifyWebhookOptions, verifyWebhook, type WebhookHeaders } from "./verify-webhook";
export * from "./webhook-endpoints";
export * from "./webhook-events";
export * from "./x402";
