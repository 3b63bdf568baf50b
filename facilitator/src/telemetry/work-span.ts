/** A span whose work other modules do: their statements and requests become parts of it. */
import type { Context, Span, Tracer } from "@opentelemetry/api";
import { isTurnpikeError } from "turnpike/protocol";
import type { ActiveSpan } from "../lib/active-span";

export type OpenTelemetry = typeof import("@opentelemetry/api");

export class WorkSpan implements ActiveSpan {
  readonly #api: OpenTelemetry;
  readonly #tracer: Tracer;
  readonly #span: Span;
  readonly #context: Context;

  constructor(api: OpenTelemetry, tracer: Tracer, span: Span) {
    this.#api = api;
    this.#tracer = tracer;
    this.#span = span;
    this.#context = api.trace.setSpan(api.ROOT_CONTEXT, span);
  }

  begin(name: string, attributes: Readonly<Record<string, string>>): (error?: unknown) => void {
    const span = this.#tracer.startSpan(name, { kind: this.#api.SpanKind.CLIENT, attributes }, this.#context);
    return (error) => {
      if (error !== undefined) recordFailure(this.#api, span, error);
      span.end();
    };
  }

  linkTo(other: ActiveSpan): void {
    if (other instanceof WorkSpan && other !== this) this.#span.addLink({ context: other.#span.spanContext() });
  }
}

/** Records the kind of the error alone: messages may name hosts. */
export function recordFailure({ SpanStatusCode }: OpenTelemetry, span: Span, error: unknown): void {
  const name = error instanceof Error ? error.name : typeof error;
  span.setAttribute("error.type", isTurnpikeError(error) ? error.code : name);
  span.setStatus({ code: SpanStatusCode.ERROR });
}
