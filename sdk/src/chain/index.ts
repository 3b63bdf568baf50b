/** Reads the chain as typed facts. The only part of the SDK that imports ethers. */

export { lensAddressOf } from "../protocol";
export * from "./abi";
export * from "./clock";
export type { HeadListener } from "./confirmed-head";
export { type ContractSignature, isSignatureAccepted, signatureCheck } from "./contract-signature";
export type * from "./debit-sender";
export * from "./deployments";
export * from "./errors";
export * from "./events";
export type { CalledContract, ProxyCall } from "./evidence";
/** The contracts as typechain's classes for ethers, for programs that call them directly. */
export type { BatchSettler, Turnpike, TurnpikeLens } from "./generated";
export { BatchSettler__factory, Turnpike__factory, TurnpikeLens__factory } from "./generated";
export type { HeadWatcher, HeadWatcherOptions } from "./heads";
export { watchHeads } from "./heads";
export * from "./json-rpc";
export type { MeterStatesOptions } from "./metered-states";
export { createMeterStates } from "./metered-states";
export * from "./operator";
export { missingOperators, RIGHTS } from "./operators";
export * from "./plan-acts";
export * from "./plans";
export * from "./proxy-calls";
export type { RecordOnChain } from "./records";
export * from "./rpc";
export { type ExpectedSettlement, findSettlement } from "./settlement";
export * from "./signup-bytes";
export * from "./states";
export {
  type DomainVerdict,
  type Eip712Domain,
  judgeTokenDomain,
  loadToken,
  type StatedDomain,
  statedTokenDomain,
  type Token,
} from "./token-domain";
export { type Caller, hasCode, NO_ANSWER } from "./views";
