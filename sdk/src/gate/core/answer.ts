/** Translates decisions that run no handler into HTTP answers, and adds the headers of paid responses. */
import {
  CORS_ALLOW_HEADERS,
  CORS_EXPOSE_HEADERS,
  ERRORS,
  HEADER,
  isTurnpikeError,
  type JsonObject,
  type TurnpikeError,
  VARY,
} from "../../protocol";
import { PAGE_HEADERS } from "../page/document";
import type { HeldClaim } from "../purchases/held";
import type { KeptAnswer } from "../replay/fit";
import type { AnswerKeeper } from "../replay/keeper";
import type { Quote } from "./offers";
import type { DeferredSettlement, OneTimePayment, Payment, PaymentReport, RefundOnFailure } from "./payment";

export interface Answer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string | Uint8Array;
}

const JSON_TYPE = "application/json; charset=utf-8";

const DEFAULT_RETRY_SEC = 2;

export const PRIVATE = "private, no-store";

export const CORS_HEADERS: Readonly<Record<string, string>> = {
  "Access-Control-Allow-Origin": "*",
  "Access-Control-Expose-Headers": CORS_EXPOSE_HEADERS,
};

/** The option `cors`; "unset": where there is none. */
export type CorsSetting = boolean | "unset";

const PAGE_METHODS: readonly string[] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"];

/** The answer to a preflight, the same for every gate: which headers and methods a page of another origin may send. */
export const PREFLIGHT: Answer = {
  status: 204,
  headers: {
    ...CORS_HEADERS,
    "Access-Control-Allow-Headers": CORS_ALLOW_HEADERS,
    "Access-Control-Allow-Methods": PAGE_METHODS.join(", "),
    "Access-Control-Max-Age": "600",
    Vary: "Origin, Access-Control-Request-Headers",
  },
  body: "",
};

/** The answer to the preflight of a path of which only some methods are sold; undefined where `asked` is not among them. */
export function preflightFor(asked: string, isSold: (method: string) => boolean): Answer | undefined {
  if (!isSold(asked)) return undefined;
  const sold = new Set([...PAGE_METHODS.filter(isSold), asked]);
  return { ...PREFLIGHT, headers: { ...PREFLIGHT.headers, "Access-Control-Allow-Methods": [...sold].join(", ") } };
}

/** Returns whether an application has answered a preflight, also where it refuses it. */
export const isCorsHeader = (name: string): boolean => /^access-control-/i.test(name);

/**
 * Returns the HTTP answer of a decision that runs no handler.
 * @param gate of a route with `cors: false`, the application alone sets CORS headers
 * @param isPayable whether the preflight of the paid request would be answered: a page that cannot collect must not pay
 */
export function answerOf(
  decision: Exclude<Decision, Allowed>,
  gate: { readonly cors: CorsSetting } = { cors: true },
  isPayable: () => boolean = () => true,
): Answer {
  const answer = answerWithCors(decision);
  const isReadable = gate.cors === "unset" && decision.kind === "pay" ? isPayable() : gate.cors !== false;
  if (isReadable) return answer;
  const headers = Object.entries(answer.headers).filter(([name]) => !isCorsHeader(name));
  return { ...answer, headers: Object.fromEntries(headers) };
}

function answerWithCors(decision: Exclude<Decision, Allowed>): Answer {
  switch (decision.kind) {
    case "preflight":
      return PREFLIGHT;
    case "replay": {
      const { answer, cors } = decision;
      return { status: answer.status, headers: replayedHeaders(answer, cors), body: answer.body };
    }
    case "pay":
      return payAnswer(decision);
    case "refuse":
      return errorAnswer(decision.error);
    case "unavailable":
      return errorAnswer(decision.cause);
  }
}

/** Returns the kept headers, marked as a replay. */
function replayedHeaders({ headers }: KeptAnswer, cors: boolean): Record<string, string> {
  const named = Object.fromEntries(Object.entries(headers).map(([name, value]) => [titleCase(name), value]));
  return {
    ...(cors ? CORS_HEADERS : {}),
    ...named,
    "Cache-Control": privateCacheControl(headers["cache-control"]),
    Vary: varyWith(headers.vary),
    [HEADER.replayed]: "true",
  };
}

const titleCase = (name: string): string => name.replace(/(^|-)[a-z]/g, (start) => start.toUpperCase());

const BASE_HEADERS = { "Content-Type": JSON_TYPE, "Cache-Control": "no-store", Vary: VARY };

const PAY_HEADERS: Readonly<Record<string, string>> = { ...BASE_HEADERS, ...CORS_HEADERS };

const NEGOTIATED_HEADERS: Readonly<Record<string, string>> = { ...PAY_HEADERS, Vary: `${VARY}, Accept` };

const PAY_PAGE_HEADERS: Readonly<Record<string, string>> = { ...NEGOTIATED_HEADERS, ...PAGE_HEADERS };

/** A page carries the header too: a program that prefers HTML can pay by it. */
function payAnswer({ quote, negotiated, beside }: Extract<Decision, { kind: "pay" }>): Answer {
  const { text, headerV2 } = quote;
  const common = negotiated ? (negotiated.page === undefined ? NEGOTIATED_HEADERS : PAY_PAGE_HEADERS) : PAY_HEADERS;
  const own = headerV2 === undefined ? common : { ...common, [HEADER.paymentRequiredV2]: headerV2 };
  const headers = beside ? { ...own, ...beside.headers } : own;
  const page = negotiated?.page;
  if (page !== undefined || !beside?.problem) return { status: 402, headers, body: page ?? text };
  const body = `${JSON.stringify(beside.problem).slice(0, -1)},${text.slice(1)}`;
  return { status: 402, headers: { ...headers, "Content-Type": PROBLEM_TYPE }, body };
}

const PROBLEM_TYPE = "application/problem+json";

/**
 * Answers an error as JSON. An error that is no TurnpikeError becomes Internal, without its message. The chain's hosts are
 * not named to clients.
 */
export function errorAnswer(error: unknown): Answer {
  const known: Omit<TurnpikeError, "name" | "remedy"> = isTurnpikeError(error)
    ? error
    : {
        code: "Internal",
        message: ERRORS.Internal.cause,
        status: 500,
        retryable: false,
        retryAfterSec: undefined,
        reason: undefined,
        details: {},
      };
  const { code, status, retryable, reason, details } = known;
  const message = details?.hosts === undefined ? known.message : ERRORS[code].cause;
  const waits = status === 503 || status === 409;
  const retryAfterSec = known.retryAfterSec ?? (waits ? DEFAULT_RETRY_SEC : undefined);
  return {
    status,
    headers: {
      ...PAY_HEADERS,
      ...(retryAfterSec === undefined ? {} : { "Retry-After": String(retryAfterSec) }),
    },
    body: JSON.stringify({ version: "1", error: code, ...(reason ? { reason } : {}), message, retryable }),
  };
}

/** A handler's `public` would let a shared cache serve what one client paid for, also beside `private`. */
export function privateCacheControl(current: string | undefined): string {
  const isPrivate =
    current !== undefined &&
    /(?:^|,)\s*private\s*(?:,|$)/i.test(current) &&
    !/(?:^|,)\s*(?:public|s-maxage)\b/i.test(current);
  return isPrivate ? current : PRIVATE;
}

/** The handler's Vary, and ours. */
export function varyWith(current: string | undefined): string {
  if (current === undefined || current === "") return VARY;
  if (current.trim() === "*") return current;
  const present = new Set(current.split(",").map((name) => name.trim().toLowerCase()));
  const missing = VARY.split(", ").filter((name) => !present.has(name.toLowerCase()));
  return missing.length === 0 ? current : `${current}, ${missing.join(", ")}`;
}

/** The decision on a request: serve it, ask for payment, refuse it, or report an outage. */
export type Decision =
  | (PaymentReport & {
      readonly kind: "allow";
      readonly payment: Payment;
      readonly claim: HeldClaim | undefined;
      /** of a payment that settles after its handler */
      readonly deferred?: DeferredSettlement | undefined;
      /** seals the answer for clients that lose it, where that is done */
      readonly keeper?: AnswerKeeper | undefined;
      /** where a failure of the handler is refunded */
      readonly refund?: RefundOnFailure | undefined;
      /** called once, with how the request ended */
      readonly onEnd?: (how: "use" | "release") => void;
    })
  /** the answer that this payment has bought before; no handler runs. settled: by this request */
  | { readonly kind: "replay"; readonly answer: KeptAnswer; readonly cors: boolean; readonly settled?: OneTimePayment }
  /** 402. negotiated: of a route that has a page, with the page where this client gets it instead of JSON. beside: of dialects that write no body */
  | {
      readonly kind: "pay";
      readonly quote: Quote;
      readonly negotiated?: { readonly page: string | undefined };
      readonly beside?:
        | { readonly headers: Readonly<Record<string, string>>; readonly problem: JsonObject | undefined }
        | undefined;
    }
  /** 400, 403 or 409: no price would help */
  | { readonly kind: "refuse"; readonly error: TurnpikeError }
  /** 503, never 402 */
  | { readonly kind: "unavailable"; readonly cause: TurnpikeError }
  /** a CORS preflight: free, and answered without the handler */
  | { readonly kind: "preflight" };

/** A decision to run the handler. */
export type Allowed = Extract<Decision, { kind: "allow" }>;

/** Returns whether a request is a CORS preflight; any other OPTIONS is left to the application. */
export function isPreflight(method: string | undefined, askedMethod: unknown, origin: unknown): boolean {
  return method === "OPTIONS" && askedMethod !== undefined && askedMethod !== null && Boolean(origin);
}
