/** The pure part of the wire protocol, shared by gate, agent and Facilitator. Imports nothing else of this project. */
export * from "./address";
export * from "./amounts";
export { isObject, type JsonObject } from "./arguments";
export * from "./eip712";
export * from "./errors";
export {
  COMMON_HEADERS_BYTES,
  CORS_ALLOW_HEADERS,
  CORS_EXPOSE_HEADERS,
  decodeJsonHeader,
  encodeHeaderText,
  encodeJsonHeader,
  HEADER,
  MAX_ANSWER_DEPTH,
  MAX_CREDENTIAL_BYTES,
  MAX_PAYMENT_REQUIRED_HEADER_BYTES,
  MAX_QUOTE_HEADERS_BYTES,
  MAX_RESOURCE_BYTES,
  memberOf,
  parseStrictBody,
  parseStrictJson,
  VARY,
} from "./headers";
export {
  abiEncodeStrings,
  concatBytes,
  equalConstantTime,
  fromBase64Url,
  type Hex,
  hexToBytes,
  hmacSha256,
  keccak256,
  keccakText,
  NodeBuffer,
  randomBytes,
  sha256,
  sha256Of,
  textToBytes,
  toBase64Url,
  toHex,
  utf8ToBytes,
  wordOfAddress,
  wordOfUint,
} from "./hex";
export * from "./ids";
export {
  caip2Of,
  findNetwork,
  knownToken,
  type Network,
  networkOfChain,
  requireNetwork,
  type TokenPreset,
} from "./networks";
export {
  type Clock,
  defaultGraceSec,
  isCollectable,
  lengthOf,
  NOMINAL_MONTH_SEC,
  nextBoundarySec,
  nextPeriodStart,
  type PaidPeriod,
  type Period,
  type PeriodEnd,
  type PeriodLength,
  periodFrom,
  periodLengthSec,
  periodOf,
  periodText,
  quoteChange,
  STATUSES,
  type SubscriptionRecord,
  type SubscriptionStatus,
  statusAt,
  systemClock,
} from "./periods";
export * from "./permit2";
export * from "./proof";
export * from "./public-addresses";
export * from "./receipts";
export * from "./refunds";
export * from "./resource";
export * from "./schemas";
export {
  exactPayloadSchema,
  isEip3009,
  PAYMENT_METHODS,
  type PaymentMethod,
  type TransferMethodName,
  type X402V1Payload,
  x402V1PayloadSchema,
} from "./transfer-methods";
export * from "./typed-data";
export * from "./x402-v2";
