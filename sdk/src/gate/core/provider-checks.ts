/** Which options a provider has, and of what kind each is. Their values are judged where they become settings. */
import type { Network } from "../../protocol";
import {
  aNumber,
  anObject,
  anything,
  callback,
  flag,
  listOf,
  type OptionCheck,
  oneOf,
  optionsOf,
  text,
  textOr,
  wholeNumber,
} from "../../protocol/option-checks";
import type { ReplayOptions } from "../replay/keeper";
import type {
  FacilitatorSetting,
  OfferReceiptOptions,
  PinnedSigner,
  ProviderOptions,
  ReportsOptions,
  TokenOption,
} from "./options";

const textOrTexts = textOr(listOf(text));

const token = {
  address: text,
  name: text,
  version: text,
  decimals: aNumber,
  symbol: text,
  currency: anything,
} as const;

export const checkToken: OptionCheck = textOr(
  optionsOf<TokenOption>({ ...token, transferMethod: anything, permits: flag }, ["address"]),
);

const checkSigner = textOr(
  optionsOf<PinnedSigner>(
    { address: text, until: (value, field) => (typeof value === "number" ? undefined : text(value, field)) },
    ["address"],
  ),
);

export const checkFacilitator = optionsOf<FacilitatorSetting>(
  { url: text, signers: listOf(checkSigner), trustUnsigned: flag, refundsKey: text },
  ["url"],
);

const checkNetwork = optionsOf<Network>(
  {
    name: text,
    chainId: wholeNumber,
    x402v1: text,
    token: optionsOf<NonNullable<Network["token"]>>(token, ["address"]),
  },
  ["name", "chainId"],
);

const checkReplay: OptionCheck = (value, field) => {
  if (value !== false) optionsOf<ReplayOptions>({ maxBytes: anything, keepSec: anything })(value, field);
};

/** @throws ConfigError that names the option */
export const checkProviderOptions = (options: unknown): void => check(options, "");

const check = optionsOf<ProviderOptions>({
  network: text,
  networks: listOf(checkNetwork),
  rpcUrl: textOrTexts,
  turnpike: text,
  token: checkToken,
  payTo: text,
  facilitator: checkFacilitator,
  facilitatorWaitMs: aNumber,
  publicUrl: text,
  trustProxy: flag,
  secret: textOrTexts,
  claims: textOr(anObject),
  replay: checkReplay,
  verify: oneOf("facilitator", "onchain", "signature"),
  networkNames: oneOf("turnpike", "x402-v1"),
  plans: listOf(text),
  operatorKey: text,
  apiKey: text,
  meterFolder: text,
  meterStore: anObject,
  settle: oneOf("merged", "each"),
  maxUnsettled: wholeNumber,
  receiptKey: text,
  onMeterEvent: callback,
  confirmations: aNumber,
  settleWaitMs: aNumber,
  quoteLifeSec: aNumber,
  pollMs: aNumber,
  offerReceipt: optionsOf<OfferReceiptOptions>({ key: text, signer: anObject, transaction: flag }),
  reports: optionsOf<ReportsOptions>({ apiKey: text, everyMs: aNumber, sampleEvery: aNumber }, ["apiKey"]),
  openTelemetry: anObject,
  clock: anObject,
  rpc: anObject,
  meter: anObject,
  fetch: callback,
});
