/** Builds the `extensions` of the header for clients of x402 version 2, the most important first. */
import type { Plan } from "../../../chain/plans";
import { caip2Of, EXTENSION, HEADER, periodOf, type SignedOffer, type SignedReceipt } from "../../../protocol";
import type { Discovery } from "../../core/offers";
import type { Settings } from "../../core/settings";
import { SPONSORING } from "../../methods";
import { type SignInPlace, signInChallenge } from "../../schemes/subscription/sign-in";

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
