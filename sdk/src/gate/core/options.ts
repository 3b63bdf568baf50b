/** Defines a provider's options, in code or by environment. Every setting is here once, with its default. */
import type { Rpc } from "../../chain/rpc";
import type { FetchLike } from "../../facilitator/transport";
import { type Clock, ConfigError, type Hex, type Network, type TypedData } from "../../protocol";
import type { OpenTelemetryApi } from "../../protocol/tracing";
import { TRANSFER_METHODS, type TransferMethodName } from "../../protocol/transfer-methods";
import type { MeterPort } from "../metering/meter";
import type { MeterEvent, MeterStore } from "../metering/store";
import type { ClaimStore } from "../purchases/record";
import type { ReplayOptions } from "../replay/keeper";

/** How a proof is judged: by the Facilitator, on chain, or by its signature alone. */
export type VerifyMode =
  /** the gate's own checks, then the Facilitator confirms that the payment was not reversed */
  | "facilitator"
  /** the gate's own checks, then the token's logs */
  | "onchain"
  /** the gate's own checks alone: fastest; a payment that a reorganisation undid is served nevertheless */
  | "signature";

/** A signer whose proofs count, in code. */
export interface PinnedSigner {
  readonly address: string;
  /** unix seconds or ISO 8601: it counts for payments that settled before; absent: for all */
  readonly until?: number | string;
}

/** The token of one-time prices. */
export interface TokenOption {
  readonly address: string;
  /** TURNPIKE_TOKEN_NAME, TURNPIKE_TOKEN_VERSION: of its EIP-712 domain; read from the chain unless both are set */
  readonly name?: string;
  readonly version?: string;
  /** TURNPIKE_TOKEN_DECIMALS: needed for a `price`; compared with the chain where rpcUrl is set */
  readonly decimals?: number;
  /** TURNPIKE_TOKEN_SYMBOL: as a `price` may name it, "USDC" */
  readonly symbol?: string;
  /**
   * TURNPIKE_TOKEN_TRANSFER_METHOD: how one-time prices in it are paid; to be set for a token without EIP-3009
   */
  readonly transferMethod?: TransferMethodName;
  /**
   * TURNPIKE_TOKEN_PERMITS=1: whether it has EIP-2612 permits, by which a payer without gas approves who moves its
   * payment; default: read from the chain where rpcUrl is set; the networks' own tokens have them
   */
  readonly permits?: boolean;
  /** TURNPIKE_TOKEN_CURRENCY: "USD" where one token is worth one dollar, so that a `price` may be in dollars */
  readonly currency?: "USD";
}

/** The Facilitator that payments settle through, and the signers whose proofs count. */
export interface FacilitatorSetting {
  readonly url: string;
  readonly signers?: readonly (string | PinnedSigner)[];
  /**
   * TURNPIKE_TRUST_UNSIGNED=1: for another project's Facilitator, which signs no grants. The gate trusts its
   * statement that a standard payment settled; with `verify: "onchain"` the transfer must also be on chain. `signers`
   * may be empty then where no plan is sold: no proof counts
   */
  readonly trustUnsigned?: boolean;
  /** TURNPIKE_REFUNDS_KEY: its API key with the scope `refunds`, for routes with `refundOnFailure` */
  readonly refundsKey?: string;
}

/** What a price is paid with and settled by. What is left out is the provider's own setting, on its own network alone. */
export interface PaymentTarget {
  /** default: the provider's */
  readonly network?: string;
  /** default: the provider's on its network, elsewhere the network's own */
  readonly token?: string | TokenOption;
  /** required on another network: a contract wallet there may be somebody else's */
  readonly payTo?: string;
  /** required on another network: it settles there */
  readonly facilitator?: FacilitatorSetting;
  /** endpoints of another network; needed for `verify: "onchain"`, and for tokens without name and version */
  readonly rpcUrl?: string | readonly string[];
}

/** Signs statements of a provider; viem's accounts have this form. */
export interface OfferReceiptSigner {
  /** whose signatures these are */
  readonly address: string;
  /** @returns an EIP-712 signature, 65 bytes */
  signTypedData(data: TypedData): Promise<string>;
}

/** How a provider signs its offers and receipts: by a key, or by a signer that holds one. */
export interface OfferReceiptOptions {
  /** TURNPIKE_OFFER_RECEIPT_KEY: of an account that signs nothing else and holds no money */
  readonly key?: Hex;
  readonly signer?: OfferReceiptSigner;
  /** whether receipts name the transaction, so that one receipt is evidence of one payment; default true */
  readonly transaction?: boolean;
}

/** A provider's settings; the free functions read the same from the environment. */
export interface ProviderOptions {
  /** TURNPIKE_NETWORK: base-mainnet, base-sepolia, local-31337, eip155:<id> ... */
  readonly network?: string;
  /** further networks by name */
  readonly networks?: readonly Network[];
  /** TURNPIKE_RPC_URL (comma separated): endpoints of the chain; needed for subscriptions and verify "onchain" */
  readonly rpcUrl?: string | readonly string[];
  /** TURNPIKE_ADDRESS: the Turnpike contract, where the network has no known deployment */
  readonly turnpike?: string;
  /** TURNPIKE_TOKEN, and TURNPIKE_TOKEN_* for its fields: of one-time prices; default: the network's own */
  readonly token?: string | TokenOption;
  /** TURNPIKE_PAY_TO: who receives one-time payments; plans name their own */
  readonly payTo?: string;
  /**
   * TURNPIKE_FACILITATOR_URL, TURNPIKE_FACILITATOR_SIGNERS (comma separated): whose proofs and grants count.
   * `0x...@TIME` (unix seconds or ISO 8601) is a retired signer: it counts for payments that settled before.
   */
  readonly facilitator?: FacilitatorSetting;
  /**
   * milliseconds without an answer after which a request is 503: of the Facilitator's judgement of a proof or an
   * account, and of its health while a settlement is under way; default 5,000
   */
  readonly facilitatorWaitMs?: number;
  /** TURNPIKE_PUBLIC_URL: this provider's address as clients write it; required in production */
  readonly publicUrl?: string;
  /**
   * TURNPIKE_TRUST_PROXY=1: without publicUrl, trust X-Forwarded-Proto, -Host and -Prefix. Only behind a proxy that sets
   * or removes them
   */
  readonly trustProxy?: boolean;
  /** TURNPIKE_SECRET (comma separated): at least 32 characters; the first issues quotes, all verify them */
  readonly secret?: string | readonly string[];
  /** TURNPIKE_CLAIMS: folder of the claim file (default .turnpike), "memory" for tests, or a store */
  readonly claims?: string | ClaimStore;
  /**
   * TURNPIKE_REPLAY_BYTES, TURNPIKE_REPLAY_SEC (0: none): which answers to one-time payments are kept in the claim
   * store, encrypted, and replayed to a client that lost them; false keeps none
   */
  readonly replay?: ReplayOptions | false;
  /** TURNPIKE_VERIFY; default "facilitator" */
  readonly verify?: VerifyMode;
  /** TURNPIKE_NETWORK_NAMES: "x402-v1" writes `base` for stock clients that refuse names they do not know */
  readonly networkNames?: "turnpike" | "x402-v1";
  /**
   * TURNPIKE_MPP: sells one-time prices by MPP too, the scheme `Payment` of HTTP, whose clients pay in this header:
   * "Payment-Authorization" where the application reads Authorization itself; default: x402 alone
   */
  readonly mpp?: "Authorization" | "Payment-Authorization";
  /** TURNPIKE_PLANS (comma separated): plans that configure() loads for buildPaymentRequired */
  readonly plans?: readonly string[];
  /** TURNPIKE_OPERATOR_KEY: of an operator of the plans, who debits on chain and pays the gas */
  readonly operatorKey?: Hex;
  /** TURNPIKE_API_KEY: of the Facilitator, which debits instead (it must be operator of the plans) */
  readonly apiKey?: string;
  /** TURNPIKE_METER: folder of what metered subscriptions owe; default .turnpike */
  readonly meterFolder?: string;
  /**
   * where several gates of one provider keep what is owed: redisMeter(client) or postgresMeter(pool); default a file
   */
  readonly meterStore?: MeterStore;
  /** base units that one subscription may owe before its debits are final: the most a cancellation costs; 1,000,000 */
  readonly maxUnsettled?: bigint | number;
  /**
   * TURNPIKE_RECEIPT_KEY: signs a usage receipt of each metered charge; its account has the right RECEIPT on the plans:
   * `setOperator(planId, account, 4)`
   */
  readonly receiptKey?: Hex;
  /** called with debits, blocked subscriptions and losses: for logs and alerts; must not throw */
  readonly onMeterEvent?: (event: MeterEvent) => void;
  /** blocks that `verify: "onchain"` waits for; default 1 */
  readonly confirmations?: number;
  /** how long `verify: "onchain"` waits for its own node to show a standard payment's transfer, milliseconds; 20,000 */
  readonly settleWaitMs?: number;
  /** seconds for which a quote holds; default 600 */
  readonly quoteLifeSec?: number;
  /** how often the chain's head is asked for, milliseconds; default once a block, from 250 to 1,000 */
  readonly pollMs?: number;

  /**
   * TURNPIKE_OFFER_RECEIPT_KEY (`offerReceipt.key`): sign each offer of a 402 and a receipt of each paid answer (the
   * extension `offer-receipt` of x402 version 2)
   */
  readonly offerReceipt?: OfferReceiptOptions;

  /**
   * TURNPIKE_REPORTS_KEY (`reports.apiKey`): report to the Facilitator how many requests were asked to pay, refused
   * (and why) and served
   */
  readonly reports?: ReportsOptions;

  /**
   * the module `@opentelemetry/api`: decisions, settlements and calls to the Facilitator become spans of the program's
   * traces. Without it a request's `traceparent` is passed on all the same
   */
  readonly openTelemetry?: OpenTelemetryApi;

  // Effects, for tests and other platforms.
  readonly clock?: Clock;
  readonly rpc?: Rpc;
  readonly meter?: MeterPort;
  readonly fetch?: FetchLike;
}

type Environment = Readonly<Record<string, string | undefined>>;

/** The options that the environment names; what code says wins over it. */
export function optionsFromEnvironment(env: Environment): ProviderOptions {
  const { text, list } = readerOf(env);
  const oneOf = <T extends string>(name: string, allowed: readonly T[]): T | undefined => {
    const value = text(name);
    if (value === undefined || (allowed as readonly string[]).includes(value)) return value as T | undefined;
    throw new ConfigError(`${name} is "${value}": use ${allowed.join(" or ")}`);
  };
  const token = text("TURNPIKE_TOKEN");
  const decimals = text("TURNPIKE_TOKEN_DECIMALS");
  const url = text("TURNPIKE_FACILITATOR_URL");
  const refundsKey = text("TURNPIKE_REFUNDS_KEY");
  const reportsKey = text("TURNPIKE_REPORTS_KEY");
  const offerReceiptKey = text("TURNPIKE_OFFER_RECEIPT_KEY") as Hex | undefined;
  const replayBytes = text("TURNPIKE_REPLAY_BYTES");
  const replaySec = text("TURNPIKE_REPLAY_SEC");
  const replay = withoutUndefined({
    maxBytes: replayBytes && Number(replayBytes),
    keepSec: replaySec && Number(replaySec),
  });
  return withoutUndefined({
    network: text("TURNPIKE_NETWORK"),
    rpcUrl: list("TURNPIKE_RPC_URL"),
    turnpike: text("TURNPIKE_ADDRESS"),
    token:
      token &&
      withoutUndefined({
        address: token,
        name: text("TURNPIKE_TOKEN_NAME"),
        version: text("TURNPIKE_TOKEN_VERSION"),
        decimals: decimals && Number(decimals),
        symbol: text("TURNPIKE_TOKEN_SYMBOL"),
        currency: oneOf("TURNPIKE_TOKEN_CURRENCY", ["USD"]),
        transferMethod: oneOf("TURNPIKE_TOKEN_TRANSFER_METHOD", Object.keys(TRANSFER_METHODS) as TransferMethodName[]),
        permits: flagOf(oneOf("TURNPIKE_TOKEN_PERMITS", ["0", "1"])),
      }),
    payTo: text("TURNPIKE_PAY_TO"),
    facilitator:
      url &&
      withoutUndefined({
        url,
        signers: signersFromEnvironment(env),
        trustUnsigned: oneOf("TURNPIKE_TRUST_UNSIGNED", ["0", "1"]) === "1" ? true : undefined,
        refundsKey,
      }),
    publicUrl: text("TURNPIKE_PUBLIC_URL"),
    trustProxy: oneOf("TURNPIKE_TRUST_PROXY", ["0", "1"]) === "1" ? true : undefined,
    secret: list("TURNPIKE_SECRET"),
    claims: text("TURNPIKE_CLAIMS"),
    replay: replaySec === "0" ? false : Object.keys(replay).length > 0 ? replay : undefined,
    verify: oneOf("TURNPIKE_VERIFY", ["facilitator", "onchain", "signature"]),
    networkNames: oneOf("TURNPIKE_NETWORK_NAMES", ["turnpike", "x402-v1"]),
    mpp: oneOf("TURNPIKE_MPP", ["Authorization", "Payment-Authorization"]),
    plans: list("TURNPIKE_PLANS"),
    operatorKey: text("TURNPIKE_OPERATOR_KEY") as Hex | undefined,
    apiKey: text("TURNPIKE_API_KEY"),
    meterFolder: text("TURNPIKE_METER"),
    receiptKey: text("TURNPIKE_RECEIPT_KEY") as Hex | undefined,
    offerReceipt: offerReceiptKey && { key: offerReceiptKey },
    reports: reportsKey && { apiKey: reportsKey },
  }) as ProviderOptions;
}

const readerOf = (env: Environment) => {
  const text = (name: string): string | undefined => env[name]?.trim() || undefined;
  const list = (name: string): string[] | undefined =>
    text(name)
      ?.split(",")
      .map((part) => part.trim())
      .filter((part) => part !== "");
  return { text, list };
};

/** The pinned signers that the environment names. */
export const signersFromEnvironment = (env: Environment): string[] | undefined =>
  readerOf(env).list("TURNPIKE_FACILITATOR_SIGNERS");

const flagOf = (value: "0" | "1" | undefined): boolean | undefined => (value === undefined ? undefined : value === "1");

function withoutUndefined(object: Record<string, unknown>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(object).filter(([, value]) => value !== undefined && value !== ""));
}

/** How a gate reports the outcomes of its requests. */
export interface ReportsOptions {
  /** of the Facilitator, with the scope `reports` */
  readonly apiKey: string;
}
