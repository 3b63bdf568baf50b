/**
 * Serves the few endpoints that carry the load directly on the connection. It repeats what the app's middleware does
 * for every request, at a fraction of the cost. Any unusual request goes through the app.
 */
import { randomUUID } from "node:crypto";
import type { IncomingMessage, ServerResponse } from "node:http";
import type { Hex } from "turnpike/protocol";
import { bodyCutOff, JSON_TYPE, MAX_BODY_BYTES, parseJsonBody } from "./body";
import type { Direct, Endpoint } from "./endpoint";
import { createObserver, OPEN_HEADERS } from "./response-observer";
import type { ApiServices } from "./services";

/** @returns whether the request is handled here; if not, nothing of it has been read */
export type FastLane = (incoming: IncomingMessage, outgoing: ServerResponse) => boolean;

const PATHS = ["/authorize", "/settle"];

export function createFastLane(services: ApiServices, endpoints: readonly Endpoint[]): FastLane {
  const observe = createObserver(services);
  const write = createWriter();
  const lanes = new Map<string, Direct>();
  for (const { path, direct } of endpoints) if (direct && PATHS.includes(path)) lanes.set(path, direct);

  async function answer(route: string, direct: Direct, message: IncomingMessage, reply: ServerResponse): Promise<void> {
    const startedMs = services.monotonicMs();
    const requestId = randomUUID();
    const address = message.socket.remoteAddress ?? "unknown";
    const bytes = await bodyOf(message);
    if (!bytes) {
      // The client is gone; the app logs such a request in the same way.
      const failure = bodyCutOff();
      observe({ requestId, method: "POST", route, status: failure.status, startedMs, failure });
      return;
    }
    const readBody = () => {
      services.rateLimit.take(address);
      return parseJsonBody(bytes);
    };
    let paymentId: Hex | undefined;
    const { status, headers, text, failure } = await direct(readBody, {
      origin: { address, requestId },
      concerns: (id) => {
        paymentId = id;
      },
      isGone: () => reply.destroyed,
      untilEnd: services.untilEnd,
    });
    write(() => {
      reply.writeHead(status, {
        "x-request-id": requestId,
        "cache-control": "no-store",
        ...OPEN_HEADERS,
        ...headers,
        "content-length": Buffer.byteLength(text),
      });
      reply.end(text);
    });
    observe({ requestId, method: "POST", route, status, startedMs, failure, paymentId });
  }

  return (message, reply) => {
    const direct = message.method === "POST" ? lanes.get(message.url ?? "") : undefined;
    if (!direct || !isPlain(message)) return false;
    void answer(message.url ?? "", direct, message, reply);
    return true;
  };
}

/**
 * Corks responses of one turn of the event loop and sends them together. A block completes hundreds, and waking a
 * receiver for each would cost more than the data.
 */
function createWriter(): (send: () => void) => void {
  let ready: (() => void)[] = [];
  return (send) => {
    if (ready.push(send) > 1) return;
    setImmediate(() => {
      const all = ready;
      ready = [];
      for (const one of all) one();
    });
  };
}

/** Accepts JSON of a declared, allowed length, without headers that change how it is read. */
function isPlain({ headers }: IncomingMessage): boolean {
  const length = headers["content-length"];
  return (
    JSON_TYPE.test(headers["content-type"] ?? "") &&
    length !== undefined &&
    Number(length) <= MAX_BODY_BYTES &&
    headers["transfer-encoding"] === undefined &&
    headers["content-encoding"] === undefined &&
    headers.expect === undefined &&
    headers.upgrade === undefined
  );
}

/** @returns undefined when the connection broke before the end */
function bodyOf(message: IncomingMessage): Promise<Buffer | undefined> {
  return new Promise((resolve) => {
    const chunks: Buffer[] = [];
    message.on("data", (chunk: Buffer) => chunks.push(chunk));
    message.on("end", () => resolve(chunks.length === 1 ? chunks[0] : Buffer.concat(chunks)));
    message.on("close", () => resolve(undefined));
  });
}
