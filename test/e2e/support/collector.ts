/** Receives traces by OTLP over HTTP, in JSON. */
import { createServer, type IncomingMessage } from "node:http";
import { closeServer, listen } from "../../support/gate";

export interface ReceivedSpan {
  readonly traceId: string;
  readonly spanId: string;
  readonly parentSpanId: string | undefined;
  readonly name: string;
  /** the first part of the path that it was posted to */
  readonly process: string;
  readonly attributes: Readonly<Record<string, unknown>>;
  readonly service: unknown;
}

export interface Collector {
  readonly url: string;
  /** Returns what came so far, in the order of arrival. */
  spans(): readonly ReceivedSpan[];
  /** Returns every body that came, as it came. */
  text(): string;
  close(): Promise<void>;
}

interface WireAttribute {
  readonly key: string;
  readonly value: Readonly<Record<string, unknown>>;
}

interface WireTraces {
  readonly resourceSpans: readonly {
    readonly resource: { readonly attributes: readonly WireAttribute[] };
    readonly scopeSpans: readonly {
      readonly spans: readonly (Omit<ReceivedSpan, "attributes"> & { readonly attributes: readonly WireAttribute[] })[];
    }[];
  }[];
}

export async function startCollector(): Promise<Collector> {
  const spans: ReceivedSpan[] = [];
  const bodies: string[] = [];
  async function receive(request: IncomingMessage): Promise<void> {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    const body = Buffer.concat(chunks).toString("utf8");
    bodies.push(body);
    const [, process = ""] = (request.url ?? "").split("/");
    for (const { resource, scopeSpans } of (JSON.parse(body) as WireTraces).resourceSpans) {
      const service = valuesOf(resource.attributes)["service.name"];
      for (const span of scopeSpans.flatMap((scope) => scope.spans))
        spans.push({ ...span, process, service, attributes: valuesOf(span.attributes) });
    }
  }
  const server = createServer((request, response) => {
    receive(request).then(
      () => response.setHeader("content-type", "application/json").end("{}"),
      () => response.writeHead(400).end(),
    );
  });
  const url = await listen(server);
  return { url, spans: () => spans, text: () => bodies.join("\n"), close: () => closeServer(server) };
}

const valuesOf = (attributes: readonly WireAttribute[]): Record<string, unknown> =>
  Object.fromEntries(attributes.map(({ key, value }) => [key, Object.values(value)[0]]));
