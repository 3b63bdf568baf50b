/** Which options a provider has, and of what kind each is. Their values are judged where they become settings. */
import { ConfigError, type Network, type TokenPreset } from "../../protocol";
import {
  aNumber,
  anObject,
  anything,
  aText,
  callback,
  flag,
  listOf,
  type OptionCheck,
  oneOf,
  optionsOf,
  textOr,
  wholeNumber,
} from "../../protocol/arguments";
import type { ClaimStore } from "../purchases/record";
import type { ReplayOptions } from "../replay/keeper";
import type {
  FacilitatorSetting,
  OfferReceiptOptions,
  PinnedSigner,
  ProviderOptions,
  ReportsOptions,
  TokenOption,
} from "./options";

const textOrTexts = textOr(listOf(aText));

const token = {
  address: aText,
  name: aText,
  version: aText,
  decimals: aNumber,
  symbol: aText,
  currency: anything,
} as const;

export const checkToken: OptionCheck = textOr(
  optionsOf<TokenOption>({ ...token, transferMethod: anything, permits: flag }, ["address"]),
);

const checkSigner = textOr(
  optionsOf<PinnedSigner>(
    { address: aText, until: (value, field) => (typeof value === "number" ? undefined : aText(value, field)) },
    ["address"],
  ),
);

export const checkFacilitator = optionsOf<FacilitatorSetting>(
  { url: aText, signers: listOf(checkSigner), trustUnsigned: flag, refundsKey: aText },
  ["url"],
);

const checkPreset = optionsOf<TokenPreset>({ ...token, isUnverified: flag, isBridged: flag }, ["address"]);

const checkNetwork = optionsOf<Network>(
  {
    name: aText,
    chainId: wholeNumber,
    x402v1: aText,
    token: checkPreset,
    otherTokens: listOf(checkPreset),
  },
  ["name", "chainId"],
);

const checkReplay: OptionCheck = (value, field) => {
  if (value !== false) optionsOf<ReplayOptions>({ maxBytes: anything, keepSec: anything })(value, field);
};

const CLAIM_METHODS = [
  ...(["claim", "apply", "served", "facts", "note", "shelve", "shelved", "first"] as const),
  ...(["grantKey", "ready", "close"] as const),
] satisfies (keyof ClaimStore)[];

const checkClaims: OptionCheck = (value, field) => {
  anObject(value, field);
  const missing = CLAIM_METHODS.find((name) => typeof (value as ClaimStore)[name] !== "function");
  if (missing === undefined) return;
  throw new ConfigError(
    `${field} is a store without ${missing}(): use a store of turnpike, or add what ClaimStore of turnpike/gate describes`,
  );
};

/** @throws ConfigError that names the option */
export const checkProviderOptions = (options: unknown): void => check(options, "");

const check = optionsOf<ProviderOptions>({
  network: aText,
  networks: listOf(checkNetwork),
  rpcUrl: textOrTexts,
  turnpike: aText,
  token: checkToken,
  payTo: aText,
  facilitator: checkFacilitator,
  facilitatorWaitMs: aNumber,
  publicUrl: aText,
  trustProxy: flag,
  secret: textOrTexts,
  claims: textOr(checkClaims),
  replay: checkReplay,
  verify: oneOf("facilitator", "onchain", "signature"),
  networkNames: oneOf("turnpike", "x402-v1"),
  mpp: oneOf("Authorization", "Payment-Authorization"),
  plans: listOf(aText),
  operatorKey: aText,
  apiKey: aText,
  meterFolder: aText,
  meterStore: anObject,
  maxUnsettled: wholeNumber,
  receiptKey: aText,
  onMeterEvent: callback,
  confirmations: aNumber,
  settleWaitMs: aNumber,
  quoteLifeSec: aNumber,
  pollMs: aNumber,
  offerReceipt: optionsOf<OfferReceiptOptions>({ key: aText, signer: anObject, transaction: flag }),
  reports: optionsOf<ReportsOptions>({ apiKey: aText }, ["apiKey"]),
  openTelemetry: anObject,
  clock: anObject,
  rpc: anObject,
  meter: anObject,
  fetch: callback,
});
