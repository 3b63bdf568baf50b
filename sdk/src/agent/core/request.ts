/**
 * Sends one request, several times if needed: buffers its body, and keeps its credentials within one origin. Knows no
 * payment rule.
 */
import { HEADER, InvalidRequest, resourceOfUrl, toHex, Unavailable } from "../../protocol";
import { networkFault } from "../../protocol/exchange";
import type { Effects } from "./effects";
import {
  bytesOf,
  type HeldBody,
  hashOf,
  held,
  isLarge,
  readHeld,
  streamOf,
  type Upload,
  unseenMs,
  uploadMs,
  wholeOf,
} from "./upload";

export interface RequestTemplate {
  readonly url: string;
  readonly method: string;
  readonly headers: Headers;
  readonly body: HeldBody | undefined;
  readonly signal: AbortSignal | undefined;
  readonly redirect: RequestRedirect;
  /** what a browser's fetch needs and Node ignores */
  readonly ambient: Pick<RequestInit, "credentials" | "cache" | "mode" | "referrerPolicy">;
}

/** As `fetch` takes it; the URL has to be absolute. */
export type RequestInput = string | URL | Request;

const MAX_HOPS = 5;

const CREDENTIAL_HEADERS = [HEADER.payment, HEADER.paymentSignatureV2, HEADER.subscription];

/** Returns the origin of a URL; of a server without one it is `stdio:<name>`, which a fragment may follow. */
export function originOf(place: string): string {
  const [local] = /^stdio:[\w.-]{1,64}(?=#|$)/.exec(place) ?? [];
  return local ?? new URL(place).origin;
}

/** @throws InvalidRequest when the URL is relative, or not http(s) */
export async function templateOf(input: RequestInput, init: RequestInit = {}): Promise<RequestTemplate> {
  const raw = typeof input === "string" || input instanceof URL ? String(input) : input?.url;
  const url = typeof raw === "string" ? resourceOfUrl(raw) : undefined;
  if (url === undefined || !/^https?:\/\//.test(url)) {
    throw new InvalidRequest("The URL must be absolute, http or https, and at most 2,048 bytes long.");
  }
  const streaming = init.body instanceof ReadableStream ? { duplex: "half" } : {};
  const given = bytesOf(init.body);
  const request = new Request(input, { ...init, ...(given && { body: new Uint8Array() }), ...streaming });
  const read = request.body && !given ? await readHeld(request.body) : undefined;
  const body = given ? held(given) : read;
  const signal = init.signal ?? (input instanceof Request ? input.signal : undefined) ?? undefined;
  const { credentials, cache, mode, referrerPolicy } = request;
  return {
    url,
    method: request.method,
    headers: new Headers(request.headers),
    body,
    signal,
    redirect: request.redirect,
    ambient:
      mode === "navigate" ? { credentials, cache, referrerPolicy } : { credentials, cache, mode, referrerPolicy },
  };
}

export function bearsCredential(template: RequestTemplate): boolean {
  const { headers } = template;
  if (CREDENTIAL_HEADERS.some((name) => headers.has(name))) return true;
  return /^payment\s/i.test(headers.get(HEADER.authorization) ?? headers.get(HEADER.paymentAuthorization) ?? "");
}

export function bodyHashOf(template: RequestTemplate): string | undefined {
  return template.body && template.body.byteLength > 0 ? toHex(hashOf(template.body)) : undefined;
}

export interface Arrival {
  readonly response: Response;
  /** the request that the response answers: another URL after redirects within the origin */
  readonly template: RequestTemplate;
}

/**
 * Sends, and follows redirects by hand as long as they stay within the origin. One that leaves it is returned as it
 * came: nothing of the request goes there.
 * @param onRedirect gets each answer that is followed, before it is
 */
export async function sendWithinOrigin(
  effects: Effects,
  template: RequestTemplate,
  headers: Readonly<Record<string, string>>,
  onRedirect?: (arrival: Arrival) => Promise<void>,
): Promise<Arrival> {
  let current = template;
  for (let hop = 0; ; hop++) {
    const response = await sendOnce(effects, current, { headers, redirect: "manual" });
    const target =
      template.redirect === "follow" && isRedirect(response) ? redirectTarget(response, current.url) : undefined;
    if (!target || target.origin !== new URL(current.url).origin || hop >= MAX_HOPS) {
      return { response, template: current };
    }
    await onRedirect?.({ response, template: current });
    await response.body?.cancel();
    current = redirected(current, response.status, target);
  }
}

/**
 * Sends once. `redirect` is the caller's own unless a credential is borne. Time runs until the response begins, and from
 * the start again whenever a part of the body leaves; where that is not seen, the body adds to it.
 */
export async function sendOnce(
  effects: Effects,
  template: RequestTemplate,
  options: { readonly headers?: Readonly<Record<string, string>>; readonly redirect?: RequestRedirect } = {},
): Promise<Response> {
  const headers = new Headers(template.headers);
  for (const [name, value] of Object.entries(options.headers ?? {})) headers.set(name, value);
  const silence = silenceLimit(effects);
  const { body, signal } = template;
  const redirect = options.redirect ?? template.redirect;
  let upload: Upload = {};
  if (isLarge(body) && effects.streamsUploads && redirect === "manual") {
    // Without it the length would not be sent, and some servers take no body of unknown length.
    headers.set("content-length", String(body.byteLength));
    upload = streamOf(body, (bytes) => silence.restart(unseenMs(bytes)));
  } else if (body) upload = wholeOf(body, effects.streamsUploads && redirect === "follow");
  silence.restart(uploadMs(body?.byteLength ?? 0));
  try {
    return await effects.fetch(template.url, {
      ...template.ambient,
      method: template.method,
      headers,
      redirect,
      signal: signal ? AbortSignal.any([signal, silence.signal]) : silence.signal,
      ...upload,
    });
  } catch (error) {
    // `fetch failed` alone names neither the address nor the reason.
    const why = networkFault(error) ?? (isOfAnotherOrigin(template.url) ? NOT_FOR_PAGES : failureOfFetch(error));
    if (!(error instanceof TypeError) || why === undefined) throw error;
    throw new Unavailable(`${originAndPath(template.url)} cannot be reached: ${why}`, { cause: error });
  } finally {
    silence.end();
  }
}

/** Returns what the platforms' fetch says of a network that failed, and nothing of a fault in the caller's own fetch. */
function failureOfFetch(error: unknown): string | undefined {
  const { message } = error as Error;
  return /^(?:fetch failed|Failed to fetch|Load failed|NetworkError)/.test(message) ? message : undefined;
}

/** A browser does not say which. */
const NOT_FOR_PAGES =
  "it is down, or it does not answer pages of other origins (CORS): the provider has to answer the preflight request (OPTIONS)";

/** Returns whether this runs in a page, and the URL is of another origin than the page's. */
function isOfAnotherOrigin(url: string): boolean {
  const { location } = globalThis as { readonly location?: { readonly origin?: string } };
  return location?.origin !== undefined && location.origin !== new URL(url).origin;
}

/** Aborts its signal once nothing has happened for `limits.requestTimeoutMs` and what `restart` adds. */
function silenceLimit({ limits: { requestTimeoutMs } }: Effects) {
  const timeout = new AbortController();
  let timer: ReturnType<typeof setTimeout> | undefined;
  let isOver = false;
  const abort = () =>
    timeout.abort(
      new Unavailable(`The server did not answer within ${requestTimeoutMs} ms (limits.requestTimeoutMs).`),
    );
  return {
    signal: timeout.signal,
    restart(moreMs: number): void {
      clearTimeout(timer);
      if (!isOver) timer = setTimeout(abort, requestTimeoutMs + moreMs);
    },
    end(): void {
      isOver = true;
      clearTimeout(timer);
    },
  };
}

/** Returns the target of a redirect; undefined when `response` is none or names none. */
export function redirectTarget(response: Response, from: string): URL | undefined {
  if (response.status < 300 || response.status > 399) return undefined;
  const location = response.headers.get("location");
  return location !== null && URL.canParse(location, from) ? new URL(location, from) : undefined;
}

export function isRedirect(response: Response): boolean {
  return response.type === "opaqueredirect" || [301, 302, 303, 307, 308].includes(response.status);
}

/** The request that fetch would send next. */
function redirected(template: RequestTemplate, status: number, target: URL): RequestTemplate {
  const becomesGet =
    (status === 303 && template.method !== "HEAD") ||
    ((status === 301 || status === 302) && template.method === "POST");
  if (!becomesGet) return { ...template, url: resourceOfUrl(target) ?? target.href };
  const headers = new Headers(template.headers);
  for (const name of ["content-type", "content-length", "content-encoding", "content-language"]) headers.delete(name);
  return { ...template, url: resourceOfUrl(target) ?? target.href, method: "GET", headers, body: undefined };
}

/**
 * Follows the redirect of a paid answer, only within the origin and without the credential.
 * @returns the redirect itself where it leaves the origin or nothing is served behind it: it is what was paid for, and
 * the caller's to follow
 */
export async function followWithoutCredential(
  effects: Effects,
  template: RequestTemplate,
  response: Response,
): Promise<Response> {
  const target = template.redirect === "follow" ? redirectTarget(response, template.url) : undefined;
  if (!target || target.origin !== new URL(template.url).origin) return response;
  let followed: Response;
  try {
    followed = (await sendWithinOrigin(effects, redirected(template, response.status, target), {})).response;
  } catch {
    // Whatever is wrong behind it, the redirect has arrived.
    template.signal?.throwIfAborted();
    return response;
  }
  await (followed.ok ? response : followed).body?.cancel();
  return followed.ok ? followed : response;
}

const LOOPBACK = /^(localhost|.+\.localhost|127(\.\d{1,3}){3}|\[::1\])$/;

/** Returns whether nothing on the way can read or change what is sent there: https, or this machine. */
export function isPrivateChannel(url: string): boolean {
  const { protocol, hostname } = new URL(url);
  return protocol === "https:" || LOOPBACK.test(hostname);
}

/** Returns origin and path: the part of a URL that may be shown or compared, without the caller's query. */
export function originAndPath(url: string): string {
  const { origin, pathname } = new URL(url);
  return `${origin}${pathname}`;
}

/** Reads a quote's body. @returns undefined when it is too long, takes too long, or breaks off */
export async function readBounded(effects: Effects, response: Response): Promise<string | undefined> {
  if (!response.body) return "";
  const { limits, closing, onClose } = effects;
  const reader = response.body.getReader();
  let isGivenUp = closing.aborted;
  const giveUp = () => {
    isGivenUp = true;
    // The server's reaction does not matter any more.
    reader.cancel().catch(() => undefined);
  };
  const timer = setTimeout(giveUp, limits.quoteTimeoutMs);
  const forget = onClose(giveUp);
  const decoder = new TextDecoder();
  let text = "";
  let bytes = 0;
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done || isGivenUp) return isGivenUp ? undefined : text + decoder.decode();
      bytes += value.byteLength;
      if (bytes > limits.maxQuoteBytes) giveUp();
      else text += decoder.decode(value, { stream: true });
    }
  } catch {
    // A body that breaks off is unreliable.
    return undefined;
  } finally {
    clearTimeout(timer);
    forget();
  }
}

/** Seconds or an HTTP date, bounded to 30 s. */
export function retryAfterMs(response: Response, nowMs: number, fallbackMs: number): number {
  const value = response.headers.get("retry-after");
  if (value === null) return fallbackMs;
  const ms = /^[0-9]{1,6}$/.test(value) ? Number(value) * 1_000 : Date.parse(value) - nowMs;
  return Number.isFinite(ms) ? Math.min(Math.max(ms, 0), 30_000) : fallbackMs;
}
