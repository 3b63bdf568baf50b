/** The Facilitator's HTTP API: its wire bodies, each described once, and the typed client that agents and gates use. */
export * from "./client";
export * from "./payments";
export * from "./plans";
export * from "./problem";
export * from "./service";
export * from "./subscriptions";
export * from "./x402";
