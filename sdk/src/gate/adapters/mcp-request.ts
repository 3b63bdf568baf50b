/** Reads a tool call of the Model Context Protocol as the request that a gate judges. */
import { canonicalJson, MCP_META, type Meta, paymentsIn, toolResource } from "../../mcp/wire";
import {
  decodeJsonHeader,
  HEADER,
  InvalidRequest,
  MAX_CREDENTIAL_BYTES,
  memberOf,
  sha256,
  TurnpikeError,
  toHex,
  utf8ToBytes,
} from "../../protocol";
import type { GateRequest } from "../core/request";
import type { Origin } from "../core/resource";
import { MISPLACED_HEADERS } from "../dialects/x402/credentials";
import { credentialTextIn } from "./mcp-mpp";

export interface ToolRequestFacts {
  readonly tool: string;
  /** Returns the text that names the call as its client sent it. @throws InvalidRequest */
  readonly callText: () => string;
  readonly meta: Meta | undefined;
  /** of the HTTP request that brought the call, where one did */
  readonly headers: Readonly<Record<string, unknown>> | undefined;
  /** whether that request brought other messages too */
  readonly isBatch: boolean;
  /** for the provider's callbacks */
  readonly raw: unknown;
}

/** @throws AmbiguousCredentials for two payments; InvalidRequest for a subscription id that is no text */
export function gateRequestOfTool(facts: ToolRequestFacts): GateRequest {
  return new ToolRequest(facts);
}

/** Its body names the whole call, so that a payment buys these arguments of this tool at this server. */
class ToolRequest implements GateRequest {
  readonly method = "CALL";
  readonly target: string;
  readonly resource: string;
  readonly host = undefined;
  readonly secure = false;
  readonly remoteAddress = undefined;
  readonly isBodyRead = false;
  readonly isBodyLost = false;
  readonly isUpgrade = false;
  readonly raw: unknown;
  readonly #callText: () => string;
  #body: Uint8Array | undefined;
  readonly #headers: ReadonlyMap<string, string>;

  constructor({ tool, callText, meta, headers, isBatch, raw }: ToolRequestFacts) {
    this.target = `/${tool}`;
    this.resource = toolResource(tool);
    this.raw = raw;
    this.#callText = callText;
    this.#headers = new Map([...misplacedIn(headers), ...headersOf(meta, paymentHeadersIn(headers, isBatch))]);
  }

  header(name: string): string | undefined {
    return this.#headers.get(name);
  }

  dropConditions(): void {
    // A call has none.
  }

  async body(maxBytes: number): Promise<Uint8Array> {
    this.#body ??= utf8ToBytes(this.#callText());
    if (this.#body.byteLength > maxBytes) throw tooLarge("arguments", maxBytes, "maxArgumentBytes");
    return this.#body;
  }
}

const tooLarge = (field: string, maxBytes: number, name: string): TurnpikeError =>
  new TurnpikeError("PayloadTooLarge", `${field}: must be at most ${maxBytes} bytes (${name})`, {
    details: { maxBytes },
  });

/**
 * The call's credentials as a gate reads them over HTTP. Wallets sign in to a host, and a tool call names none.
 * @throws InvalidRequest, PayloadTooLarge
 */
function headersOf(meta: Meta | undefined, paid: ReadonlyMap<string, string>): ReadonlyMap<string, string> {
  const headers = new Map<string, string>();
  const [payment, second] = paymentsIn(meta);
  for (const [name, value] of paid) {
    if (!payment) headers.set(name, value);
    else if (!isSamePayment(value, payment.text) && !(second && isSamePayment(value, second.text))) {
      throw new TurnpikeError(
        "AmbiguousCredentials",
        `The call pays twice: in ${name} and in _meta. Send one of them.`,
      );
    }
  }
  if (payment) {
    const isFirst = second !== undefined || payment.version === 2;
    const name = isFirst ? HEADER.paymentSignatureV2 : HEADER.payment;
    headers.set(name.toLowerCase(), credential("the payment in _meta", payment.text));
  }
  // Read as two headers are, of which both may hold one payment.
  if (second) headers.set(HEADER.payment.toLowerCase(), credential("the payment in _meta", second.text));
  const mpp = credentialTextIn(meta);
  if (mpp !== undefined) headers.set(MCP_META.credential, credential(`_meta["${MCP_META.credential}"]`, mpp));
  // A payment of version 2 may come in either.
  const [key] = PAYMENT_HEADERS.map((name) => keyOf(headers.get(name), meta)).filter((each) => each !== undefined);
  if (key !== undefined) headers.set(HEADER.idempotencyKey.toLowerCase(), key);
  const id = meta?.[MCP_META.subscription];
  if (id === undefined) return headers;
  const field = `_meta["${MCP_META.subscription}"]`;
  if (typeof id !== "string") throw new InvalidRequest(`${field}: must be text`);
  return headers.set(HEADER.subscription.toLowerCase(), credential(field, id));
}

/**
 * Returns the key of a payment of version 2 or of MPP: what proves its quote, which no chain shows. By it the result is kept
 * for a repeated call, and for nobody who copies the payment from calldata.
 */
function keyOf(payment: string | undefined, meta: Meta | undefined): string | undefined {
  const ofMpp = memberOf(memberOf(meta?.[MCP_META.credential], "challenge"), "opaque");
  const memo = memberOf(memberOf(payment && decodeJsonHeader(payment)?.accepted, "extra"), "memo") ?? ofMpp;
  return typeof memo === "string" ? toHex(sha256(utf8ToBytes(memo))) : undefined;
}

const PAYMENT_HEADERS = [HEADER.payment, HEADER.paymentSignatureV2].map((name) => name.toLowerCase());

/** @throws AmbiguousCredentials where it is unclear which of several calls they pay */
function paymentHeadersIn(
  headers: Readonly<Record<string, unknown>> | undefined,
  isBatch: boolean,
): ReadonlyMap<string, string> {
  const paid = new Map<string, string>();
  for (const name of PAYMENT_HEADERS) {
    const value = headers?.[name];
    if (value !== undefined) paid.set(name, Array.isArray(value) ? value.join(", ") : String(value));
  }
  if (paid.size === 0 || !isBatch) return paid;
  throw new TurnpikeError(
    "AmbiguousCredentials",
    `A header pays one call, and the request holds several messages: send each call's payment as its _meta["${MCP_META.payment}"].`,
  );
}

/** Returns the headers in which no gate reads a payment, and says of one that is there where it belongs. */
function misplacedIn(headers: ToolRequestFacts["headers"]): (readonly [name: string, value: string])[] {
  return MISPLACED_HEADERS.flatMap((name) => {
    const value = headers?.[name.toLowerCase()];
    return typeof value === "string" ? [[name.toLowerCase(), value] as const] : [];
  });
}

/** Returns whether both are one payment, however its JSON is written. */
function isSamePayment(one: string, other: string): boolean {
  const [a, b] = [decodeJsonHeader(one), decodeJsonHeader(other)];
  return a && b ? canonicalJson(a) === canonicalJson(b) : one === other;
}

/** @throws InvalidRequest for what a gate would read as two headers, PayloadTooLarge */
function credential(field: string, text: string): string {
  if (text.length > MAX_CREDENTIAL_BYTES) throw tooLarge(field, MAX_CREDENTIAL_BYTES, "as base64 of JSON");
  if (text.includes(",")) throw new InvalidRequest(`${field}: must be one credential; as text, base64 of its JSON`);
  return text;
}

/** What a server knows of the connection that a call came over. */
export interface CallConnection {
  /** whether it is a pipe to the client, or the client is in this process */
  readonly isLocal: boolean;
  /** of HTTP transports */
  readonly http: { readonly headers: Readonly<Record<string, unknown>>; readonly url?: URL } | undefined;
}

/**
 * Returns whether nobody can read along: over a pipe, or https. Of HTTP the operator's settings decide, as at HTTP
 * gates: publicUrl, then X-Forwarded-Proto where trustProxy is set, then the connection itself.
 */
export function isConfidential({ isLocal, http }: CallConnection, { publicUrl, trustProxy }: Origin): boolean {
  if (!http) return isLocal;
  if (publicUrl !== undefined) return publicUrl.startsWith("https:");
  if (!trustProxy) return http.url?.protocol === "https:";
  const forwarded = http.headers["x-forwarded-proto"];
  return typeof forwarded === "string" && /^\s*https\s*(?:,|$)/i.test(forwarded);
}

/** @throws InvalidRequest for a subscription's secret id that anybody on the way could have read */
export function requireConfidential(meta: Meta | undefined, connection: CallConnection, origin: Origin): void {
  if (meta?.[MCP_META.subscription] === undefined || isConfidential(connection, origin)) return;
  throw new InvalidRequest(
    `_meta["${MCP_META.subscription}"]: is a secret, and is accepted over stdio or https alone. Connect over https, and rekey a subscription whose id was sent without.`,
  );
}
