/**
 * Traces with the program's own OpenTelemetry. The program hands in the module `@opentelemetry/api`: nothing here
 * imports it. No attribute has a path, a header, a body, a signature or a subscription's id.
 */
import { isTurnpikeError } from "./errors";

/** The module `@opentelemetry/api`, as far as it is used. A context is opaque. */
export interface OpenTelemetryApi {
  readonly trace: {
    /** Returns the program's tracer of this name. */
    getTracer(name: string): {
      /** Begins a span below that of the context. */
      startSpan(name: string, options: SpanOptions, context: unknown): ProgramSpan;
    };
    /** Returns the context with this span. */
    setSpan(context: unknown, span: ProgramSpan): unknown;
    /** Returns what names the context's span. */
    getSpanContext(context: unknown): unknown;
  };
  readonly context: {
    /** Returns the context of the caller. */
    active(): unknown;
    /** Does the work in this context. */
    with<T>(context: unknown, work: () => T): T;
  };
  readonly propagation: {
    /** Writes the context's span into headers. */
    inject(context: unknown, headers: Record<string, string>): void;
    /** Returns the context with the span that headers name. */
    extract(context: unknown, headers: TraceHeaders): unknown;
  };
}

interface SpanOptions {
  readonly kind: number;
  readonly attributes: Attributes;
}

interface ProgramSpan extends TracedSpan {
  setStatus(status: { readonly code: number }): unknown;
  end(): void;
}

/** A span while its work runs. */
export interface TracedSpan {
  setAttribute(name: string, value: string | number): unknown;
}

type Attributes = Readonly<Record<string, string | number>>;

/** The headers of W3C Trace Context. */
export interface TraceHeaders {
  readonly traceparent: string;
  readonly tracestate?: string;
}

export interface NewSpan {
  readonly name: string;
  readonly isClient?: boolean;
  readonly attributes?: Attributes;
  /** of the request that this work is for: the parent, unless a span is active */
  readonly parent?: TraceHeaders | undefined;
}

type FetchFunction = (input: string, init: RequestInit) => Promise<Response>;

// The numbers of SpanKind and SpanStatusCode.
const INTERNAL = 0;
const CLIENT = 2;
const FAILED = { code: 2 };

/** Runs work in spans of the program's tracer. */
export class Tracing {
  readonly #api: OpenTelemetryApi;
  readonly #tracer: ReturnType<OpenTelemetryApi["trace"]["getTracer"]>;

  constructor(api: OpenTelemetryApi) {
    this.#api = api;
    this.#tracer = api.trace.getTracer("turnpike");
  }

  /** Runs `work` in a span, which is active meanwhile and ends with it. */
  run<T>({ name, isClient = false, attributes = {}, parent }: NewSpan, work: (span: TracedSpan) => T): T {
    const { context, trace, propagation } = this.#api;
    const active = context.active();
    const isRoot = trace.getSpanContext(active) === undefined;
    const outer = parent && isRoot ? propagation.extract(active, parent) : active;
    const span = this.#tracer.startSpan(name, { kind: isClient ? CLIENT : INTERNAL, attributes }, outer);
    try {
      const result = context.with(trace.setSpan(outer, span), () => work(span));
      if (result instanceof Promise)
        result.then(
          () => span.end(),
          (error: unknown) => endFailed(span, error),
        );
      else span.end();
      return result;
    } catch (error) {
      endFailed(span, error);
      throw error;
    }
  }

  /** Wraps fetch: each request is a span, and continues its trace at the server. */
  fetch(send: FetchFunction, nameOf: (method: string, url: URL) => string): FetchFunction {
    return (input, init) => {
      const url = new URL(input);
      const { method = "GET" } = init;
      const attributes = { "http.request.method": method, "server.address": url.hostname };
      return this.run({ name: nameOf(method, url), isClient: true, attributes }, async (span) => {
        const headers: Record<string, string> = {};
        this.#api.propagation.inject(this.#api.context.active(), headers);
        const response = await send(input, { ...init, headers: withHeaders(init.headers, headers) });
        span.setAttribute("http.response.status_code", response.status);
        return response;
      });
    };
  }
}

function endFailed(span: ProgramSpan, error: unknown): void {
  // A message may quote what it was given.
  span.setAttribute("error.type", isTurnpikeError(error) ? error.code : "Error");
  span.setStatus(FAILED);
  span.end();
}

function withHeaders(given: RequestInit["headers"], added: Record<string, string>): RequestInit["headers"] {
  if (!(given instanceof Headers) && !Array.isArray(given)) return { ...given, ...added };
  const headers = new Headers(given);
  for (const [name, value] of Object.entries(added)) headers.set(name, value);
  return headers;
}

/** Names a request to a Facilitator by its route: the ids in its path are left out. */
export const facilitatorSpanName = (method: string, { pathname }: URL): string =>
  `${method} ${pathname.replace(/\/0x[0-9a-f]*/gi, "/{id}")}`;

const TRACEPARENT = /^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$/;

const TRACESTATE = /^[\x20-\x7e]{1,512}$/;

/** Returns the trace that a request belongs to; undefined where it names none, or not as the standard says. */
export function traceHeadersOf(request: { header(name: string): string | undefined }): TraceHeaders | undefined {
  const traceparent = request.header("traceparent");
  if (traceparent === undefined || !TRACEPARENT.test(traceparent)) return undefined;
  const tracestate = request.header("tracestate");
  return tracestate !== undefined && TRACESTATE.test(tracestate) ? { traceparent, tracestate } : { traceparent };
}
