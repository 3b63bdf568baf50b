/**
 * Traces requests and the stages of their payments, where OTEL_EXPORTER_OTLP_ENDPOINT names a collector. Spans have ids,
 * names, times and codes: no header, body, signature, key, address of a node, or subscription's id.
 */
import type { Attributes, Context, Span, SpanKind, Tracer } from "@opentelemetry/api";
import type { Logger } from "pino";
import { Unavailable } from "turnpike/protocol";
import { version } from "../../package.json";
import type { FacilitatorConfig } from "../config";
import { withinSpan } from "../lib/active-span";
import { createFaultLog } from "./fault-log";
import { type OpenTelemetry, recordFailure, WorkSpan } from "./work-span";

export interface Tracing {
  /** Begins the span of a request. @returns undefined for a request that is not traced */
  begin(request: TracedRequest): RequestTrace | undefined;
  /**
   * Adds a finished stage to the request of this process that waits for the payment. Where there is none, to the request
   * that the stage's `traceparent` names, if it has one.
   */
  stage(paymentId: string, stage: TracedStage): void;
  /** Does the work of a stage: what it asks the database and the nodes becomes a part of the stage. */
  within<T>(paymentId: string, name: StageName, work: () => Promise<T>): Promise<T>;
  /** Names the request of this process that waits for the payment; undefined when its trace is not kept. */
  traceparentOf(paymentId: string): string | undefined;
  /** Sends what is left, for a bounded time. */
  stop(): Promise<void>;
}

export interface TracedRequest {
  readonly method: string;
  /** reads a header by its name in lower case */
  readonly header: (name: string) => string | undefined;
}

export interface RequestTrace {
  readonly traceId: string;
  /** Names the payment, whose stages become parts of this span. */
  concerns(paymentId: string): void;
  /** Does the work of the request: what it asks the database and the nodes becomes a part of its span. */
  run<T>(work: () => T): T;
  end(answer: { readonly route: string; readonly status: number; readonly code: string | undefined }): void;
}

type StageName = "judge" | "bind" | "queue" | "submit" | "mine" | "index" | "confirm" | "grant";

export interface TracedStage {
  readonly name: StageName;
  readonly tookMs: number;
  /** milliseconds since its end; default 0 */
  readonly endedAgoMs?: number;
  readonly transaction?: string | null;
  readonly block?: number | null;
  readonly traceparent?: string | null | undefined;
}

/** A collector that is away must not keep the process longer. */
const FLUSH_MS = 1_000;

/** What a stage waits for. */
const PEERS: Readonly<Record<StageName, "database" | "chain" | undefined>> = {
  judge: "chain",
  bind: "database",
  queue: undefined,
  submit: "chain",
  mine: "chain",
  index: "chain",
  confirm: "chain",
  grant: "database",
};

/**
 * Starts to trace. The SDK reads its further settings from the environment: the sampler, the service's name and
 * attributes, headers and limits of the export.
 * @returns undefined where nothing is traced: then nothing of OpenTelemetry is loaded
 */
export async function openTracing(config: FacilitatorConfig, log: Logger): Promise<Tracing | undefined> {
  const { otlpEndpoint, otlpTracesEndpoint, otlpProtocol, otelDisabled, chainId, database } = config;
  const url = otlpTracesEndpoint ?? (otlpEndpoint && `${otlpEndpoint.replace(/\/$/, "")}/v1/traces`);
  if (url === undefined || otelDisabled) return undefined;
  const [api, core, resources, sdk, { OTLPTraceExporter }] = await Promise.all([
    import("@opentelemetry/api"),
    import("@opentelemetry/core"),
    import("@opentelemetry/resources"),
    import("@opentelemetry/sdk-trace-base"),
    otlpProtocol === "http/json"
      ? import("@opentelemetry/exporter-trace-otlp-http")
      : import("@opentelemetry/exporter-trace-otlp-proto"),
  ]);
  logFaults(api, log);
  const own = resources.resourceFromAttributes({
    "service.name": "turnpike-facilitator",
    "service.version": version,
  });
  const named = resources.detectResources({ detectors: [resources.envDetector] });
  const provider = new sdk.BasicTracerProvider({
    resource: resources.defaultResource().merge(own).merge(named),
    spanProcessors: [new sdk.BatchSpanProcessor(new OTLPTraceExporter({ url }))],
  });
  return new OtlpTracing({
    api,
    propagator: new core.W3CTraceContextPropagator(),
    tracer: provider.getTracer("turnpike-facilitator", version),
    attributesOf: {
      database: { "db.system.name": database.kind === "postgres" ? "postgresql" : "pglite" },
      chain: { "turnpike.chain.id": chainId },
    },
    shutdown: () => provider.shutdown(),
  });
}

/** A collector that does not answer is logged, and delays no payment. */
function logFaults({ diag, DiagLogLevel }: OpenTelemetry, log: Logger): void {
  const faults = createFaultLog({ log, monotonicMs: () => performance.now() });
  // Without the details, which have the collector's answer.
  const warn = (message: string): void => {
    const [fault = ""] = message.split("\n", 1);
    faults.met("traces", new Unavailable(fault.slice(0, 200)), "traces are not exported");
  };
  const ignore = (): void => undefined;
  diag.setLogger({ error: warn, warn, info: ignore, debug: ignore, verbose: ignore }, DiagLogLevel.WARN);
}

interface OtlpTracingOptions {
  readonly api: OpenTelemetry;
  readonly propagator: InstanceType<typeof import("@opentelemetry/core").W3CTraceContextPropagator>;
  readonly tracer: Tracer;
  readonly attributesOf: Readonly<Record<"database" | "chain", Attributes>>;
  readonly shutdown: () => Promise<void>;
}

class OtlpTracing implements Tracing {
  readonly #options: OtlpTracingOptions;
  readonly #requests = new Map<string, Span>();

  constructor(options: OtlpTracingOptions) {
    this.#options = options;
  }

  /** Reads that name no trace, such as health checks, are not traced. */
  begin({ method, header }: TracedRequest): RequestTrace | undefined {
    const isRead = method === "GET" || method === "HEAD" || method === "OPTIONS";
    if (isRead && header("traceparent") === undefined) return undefined;
    const { api, tracer } = this.#options;
    const parent = this.#contextOf(header);
    const attributes = { "http.request.method": method };
    const span = tracer.startSpan(method, { kind: api.SpanKind.SERVER, attributes }, parent);
    const work = this.#workOf(span);
    let paymentId: string | undefined;
    return {
      traceId: span.spanContext().traceId,
      concerns: (id) => {
        paymentId = id;
        span.setAttribute("turnpike.payment.id", id);
        this.#requests.set(id, span);
      },
      run: (act) => withinSpan(work, act),
      end: ({ route, status, code }) => {
        if (paymentId !== undefined && this.#requests.get(paymentId) === span) this.#requests.delete(paymentId);
        span.updateName(`${method} ${route}`);
        span.setAttributes({ "http.route": route, "http.response.status_code": status });
        if (code !== undefined) span.setAttribute("error.type", code);
        if (status >= 500) span.setStatus({ code: api.SpanStatusCode.ERROR });
        span.end();
      },
    };
  }

  stage(paymentId: string, { name, tookMs, endedAgoMs = 0, transaction, block, traceparent }: TracedStage): void {
    const parent = this.#parentOf(paymentId, traceparent);
    if (!parent) return;
    const endTime = Date.now() - endedAgoMs;
    const more = {
      ...(transaction && { "turnpike.transaction": transaction }),
      ...(typeof block === "number" && { "turnpike.block": block }),
    };
    const { kind, attributes } = this.#kindOf(name);
    const startTime = endTime - Math.max(0, tookMs);
    const options = { kind, attributes: { ...attributes, ...more }, startTime };
    this.#options.tracer.startSpan(`${name} payment`, options, parent).end(endTime);
  }

  async within<T>(paymentId: string, name: StageName, work: () => Promise<T>): Promise<T> {
    const parent = this.#requests.get(paymentId)?.isRecording() ? this.#parentOf(paymentId, undefined) : undefined;
    if (!parent) return work();
    const span = this.#options.tracer.startSpan(`${name} payment`, this.#kindOf(name), parent);
    try {
      return await withinSpan(this.#workOf(span), work);
    } catch (error) {
      recordFailure(this.#options.api, span, error);
      throw error;
    } finally {
      span.end();
    }
  }

  traceparentOf(paymentId: string): string | undefined {
    const request = this.#requests.get(paymentId);
    if (!request?.isRecording()) return undefined;
    const { traceId, spanId } = request.spanContext();
    return `00-${traceId}-${spanId}-01`;
  }

  #contextOf(header: TracedRequest["header"]): Context {
    const { api, propagator } = this.#options;
    const headers = { get: (_: unknown, name: string) => header(name), keys: () => [] };
    return propagator.extract(api.ROOT_CONTEXT, undefined, headers);
  }

  #parentOf(paymentId: string, traceparent: string | null | undefined): Context | undefined {
    const { api } = this.#options;
    const request = this.#requests.get(paymentId);
    if (request) return api.trace.setSpan(api.ROOT_CONTEXT, request);
    return traceparent ? this.#contextOf((name) => (name === "traceparent" ? traceparent : undefined)) : undefined;
  }

  /** @returns undefined for a span that is not kept */
  #workOf(span: Span): WorkSpan | undefined {
    const { api, tracer } = this.#options;
    return span.isRecording() ? new WorkSpan(api, tracer, span) : undefined;
  }

  #kindOf(name: StageName): { readonly kind: SpanKind; readonly attributes: Attributes } {
    const { api, attributesOf } = this.#options;
    const peer = PEERS[name];
    return peer
      ? { kind: api.SpanKind.CLIENT, attributes: attributesOf[peer] }
      : { kind: api.SpanKind.INTERNAL, attributes: {} };
  }

  async stop(): Promise<void> {
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise((resolve) => {
      timer = setTimeout(resolve, FLUSH_MS);
    });
    await Promise.race([this.#options.shutdown().catch(() => undefined), late]);
    clearTimeout(timer);
    this.#options.api.diag.disable();
  }
}
