/** Reads the chain as typed facts. The only part of the SDK that imports ethers. */
export * from "./abi";
export * from "./clock";
export * from "./contracts";
export type * from "./debit-sender";
export * from "./deployments";
export * from "./errors";
export * from "./events";
export type { HeadListener, HeadWatcher, HeadWatcherOptions } from "./heads";
export { watchHeads } from "./heads";
export type { MeterStatesOptions } from "./metered-states";
export { createMeterStates } from "./metered-states";
export * from "./operator";
export { missingOperators } from "./operators";
export * from "./plans";
export * from "./rpc";
export * from "./settlement";
export * from "./states";
export * from "./tokens";
