/**
 * Builds the `extensions` of the header for clients of x402 version 2, the most important first, and issues the
 * challenge of `sign-in-with-x`: the text that a wallet signs, bound to one method and resource by a MAC.
 */
import type { Plan } from "../../chain/plans";
import {
  ConfigError,
  caip2Of,
  EXTENSION,
  HEADER,
  hmacSha256,
  type MemoKey,
  periodOf,
  randomSalt,
  type SignedOffer,
  type SignedReceipt,
  toHex,
  utf8ToBytes,
} from "../../protocol";
import { parseStrictJson } from "../../protocol/strict-json";
import { SPONSORING } from "../methods";
import type { Settings } from "./settings";

/** How to call a resource, for catalogues that list it. Shown to everybody. */
export interface Discovery {
  /** e.g. { symbol: "ABC" }; of GET, HEAD and DELETE */
  readonly queryParams?: Readonly<Record<string, unknown>>;
  /** an example of the body; of the other methods */
  readonly body?: Readonly<Record<string, unknown>>;
  /** default "json" */
  readonly bodyType?: "json" | "form-data" | "text";
  /** an example of what comes back */
  readonly output?: { readonly type?: string; readonly example?: unknown };
}

export interface ExtensionFacts {
  readonly settings: Settings;
  readonly place: SignInPlace;
  readonly plans: readonly Plan[];
  readonly metered: boolean;
  readonly sellsSingly: boolean;
  /** whether payers without gas may send the token's permit along */
  readonly sponsorsGas: boolean;
  readonly discovery: Discovery | undefined;
  readonly nowSec: number;
}

/** Its name, and what the header says by it. */
export type Extension = readonly [key: string, value: object];

const SCHEMA = "https://json-schema.org/draft/2020-12/schema";

/** Returns the extensions in order of importance: the last are dropped first when the header is too large. */
export function extensionsOf(facts: ExtensionFacts): Extension[] {
  const { settings, place, plans, metered, sellsSingly, sponsorsGas, discovery, nowSec } = facts;
  const extensions: Extension[] = [];
  if (sponsorsGas) extensions.push(SPONSORING);
  if (sellsSingly) extensions.push(PAYMENT_IDENTIFIER);
  if (plans.length > 0) {
    const supportedChains = [{ chainId: caip2Of(settings.network.chainId), type: "eip191" }];
    extensions.push([
      EXTENSION.signIn,
      { info: signInChallenge(settings, place, nowSec), supportedChains, schema: SIGN_IN_SCHEMA },
    ]);
    extensions.push([EXTENSION.service, { info: serviceInfo(settings, plans, metered), schema: SERVICE_SCHEMA }]);
  }
  if (discovery) extensions.push([EXTENSION.discovery, discoveryOf(place.method, discovery)]);
  return extensions;
}

/** The signed offers of the header's entries, in their order. */
export const offersExtension = (offers: readonly SignedOffer[]): Extension => [
  EXTENSION.offerReceipt,
  {
    info: { offers: offers.map((offer, acceptIndex) => ({ ...offer, acceptIndex })) },
    schema: statementSchema("offers", "array"),
  },
];

/** A signed receipt, for the answer that it confirms. */
export const receiptExtension = (receipt: SignedReceipt): Readonly<Record<string, object>> => ({
  [EXTENSION.offerReceipt]: { info: { receipt }, schema: statementSchema("receipt", "object") },
});

const statementSchema = (field: "offers" | "receipt", type: "array" | "object") => ({
  $schema: SCHEMA,
  type: "object",
  properties: { [field]: { type } },
  required: [field],
});

const PAYMENT_IDENTIFIER: Extension = [
  EXTENSION.paymentIdentifier,
  {
    info: { required: false },
    schema: {
      $schema: SCHEMA,
      type: "object",
      properties: {
        required: { type: "boolean" },
        id: { type: "string", minLength: 16, maxLength: 128, pattern: "^[a-zA-Z0-9_-]+$" },
      },
      required: ["required"],
    },
  },
];

const SIGN_IN_SCHEMA = {
  $schema: SCHEMA,
  type: "object",
  required: ["domain", "address", "uri", "version", "chainId", "type", "nonce", "issuedAt", "signature"],
};

/**
 * Lists the plans as the body's `plans` does; clients subscribe through the Facilitator and send the id in this header.
 */
function serviceInfo(settings: Settings, plans: readonly Plan[], metered: boolean) {
  return {
    subscriptionScheme: true,
    facilitator: settings.facilitator?.url ?? "",
    header: HEADER.subscription,
    ...(settings.deployment ? { turnpike: settings.deployment.turnpike } : {}),
    plans: plans.map(({ planId, amount, intervalSec, months, token, payTo }) => ({
      planId,
      amount: amount.toString(),
      interval: intervalSec,
      ...(months > 0 && { period: periodOf({ intervalSec, months }) }),
      network: caip2Of(settings.network.chainId),
      token,
      payTo,
      metered,
    })),
  };
}

const SERVICE_SCHEMA = { $schema: SCHEMA, type: "object", required: ["facilitator", "plans"] };

const QUERY_METHODS = new Set(["GET", "HEAD", "DELETE"]);

function discoveryOf(method: string, { queryParams, body, bodyType = "json", output }: Discovery): object {
  const isQuery = QUERY_METHODS.has(method);
  const input = isQuery
    ? { type: "http", method, ...(queryParams ? { queryParams } : {}) }
    : { type: "http", method, bodyType, body: body ?? {}, ...(queryParams ? { queryParams } : {}) };
  const required = isQuery ? ["type", "method"] : ["type", "method", "bodyType", "body"];
  return {
    info: { input, ...(output ? { output } : {}) },
    schema: {
      $schema: SCHEMA,
      type: "object",
      properties: { input: { type: "object", required } },
      required: ["input"],
    },
  };
}

/** Clients echo it in their payload, whose nesting is limited. */
const MAX_DISCOVERY_DEPTH = 4;

/** @throws ConfigError for what clients could not echo: their payments would be refused */
export function checkDiscovery(discovery: Discovery | undefined): Discovery | undefined {
  if (discovery !== undefined && !canEcho(discovery)) {
    throw new ConfigError(
      `discovery is no JSON that clients could echo: use at most ${MAX_DISCOVERY_DEPTH} levels, and no NUL or name such as __proto__`,
    );
  }
  return discovery;
}

function canEcho(discovery: Discovery): boolean {
  try {
    return parseStrictJson(JSON.stringify(discovery), MAX_DISCOVERY_DEPTH) !== undefined;
  } catch {
    // A bigint, or an object within itself.
    return false;
  }
}

/** Seconds for which a challenge may be answered; the clients' own limit too. */
export const SIGN_IN_LIFE_SEC = 300;

export const SALT_BYTES = 12;

export const MAC_BYTES = 16;

export interface SignInPlace {
  readonly method: string;
  readonly resource: string;
}

/** Returns the `info` of the extension: what the wallet is asked to sign. */
export function signInChallenge({ memoKeys }: Settings, place: SignInPlace, nowSec: number) {
  const issuedAt = isoOf(nowSec);
  const salt = randomSalt().subarray(0, SALT_BYTES);
  const mac = macOf(memoKeys[0], place, issuedAt, salt);
  return {
    domain: new URL(place.resource).host,
    uri: place.resource,
    version: "1",
    statement: "Use your subscription.",
    nonce: `${toHex(salt).slice(2)}${toHex(mac).slice(2)}`,
    issuedAt,
    expirationTime: isoOf(nowSec + SIGN_IN_LIFE_SEC),
  };
}

const isoOf = (sec: number): string => new Date(sec * 1_000).toISOString();

export function macOf(key: MemoKey, { method, resource }: SignInPlace, issuedAt: string, salt: Uint8Array): Uint8Array {
  const message = JSON.stringify(["sign-in", method, resource, issuedAt, toHex(salt)]);
  return hmacSha256(key.secret, utf8ToBytes(message)).slice(0, MAC_BYTES);
}
