/**
 * Serves the few endpoints that carry the load directly on the connection. It repeats what the app's middleware does
 * for every request, at a fraction of the cost. Any unusual request goes through the app.
 */
import { randomUUID } from "node:crypto";
import type { IncomingMessage, ServerResponse } from "node:http";
import { type Hex, Unavailable } from "turnpike/protocol";
import type { Party } from "../lib/fair-shares";
import { bodyCutOff, JSON_TYPE, MAX_BODY_BYTES, parseJsonBody } from "./body";
import type { Direct, Endpoint } from "./endpoint";
import { createObserver, OPEN_HEADERS } from "./response-observer";
import type { ApiServices } from "./services";
import { WorkQueue } from "./work-queue";

/** @returns whether the request is handled here; if not, nothing of it has been read */
export type FastLane = (incoming: IncomingMessage, outgoing: ServerResponse) => boolean;

const PATHS = ["/authorize", "/settle"];

/** Payments that wait to be started. */
const MAX_WAITING = 10_000;

/**
 * A payment that is not started within this time is refused. It leaves time for the two queues behind this one
 * (`MAX_QUEUE_AGE_MS`) within AUTHORIZE_WAIT_MS.
 */
const MAX_WAIT_MS = 5_000;

/** Time of a turn of the event loop for starting payments: what else a turn does takes about as long. */
const TURN_MS = 8;

const RETRY_AFTER_SEC = 2;

const busy = () => new Unavailable("too many payments wait", { reason: "busy", retryAfterSec: RETRY_AFTER_SEC });

interface Exchange {
  readonly route: string;
  readonly direct: Direct;
  readonly message: IncomingMessage;
  readonly reply: ServerResponse;
}

/** Picks the endpoints that the fast lane serves, by path. */
export function directsOf(endpoints: readonly Endpoint[]): ReadonlyMap<string, Direct> {
  const picked = endpoints.filter(({ path }) => PATHS.includes(path));
  return new Map(picked.flatMap(({ path, direct }) => (direct ? [[path, direct]] : [])));
}

export function createFastLane(services: ApiServices, lanes: ReadonlyMap<string, Direct>): FastLane {
  const observe = createObserver(services);
  const write = createWriter();
  const queue = new WorkQueue({
    ...{ maxWaiting: MAX_WAITING, maxAgeMs: MAX_WAIT_MS, turnMs: TURN_MS },
    monotonicMs: services.monotonicMs,
  });

  async function answer({ route, direct, message, reply }: Exchange): Promise<void> {
    const startedMs = services.monotonicMs();
    const requestId = randomUUID();
    const trace = services.tracing?.begin({ method: "POST", header: (name) => headerOf(message, name) });
    const address = message.socket.remoteAddress ?? "unknown";
    const leftEarly = (): void => {
      // The app logs such a request in the same way.
      const failure = bodyCutOff();
      observe({ requestId, method: "POST", route, status: failure.status, startedMs, failure, trace });
    };
    const readBody = (bytes: Buffer): unknown => {
      services.rateLimit.take(address);
      return parseJsonBody(bytes);
    };
    const respond = async (body: () => unknown, waitedMs: number): Promise<void> => {
      let paymentId: Hex | undefined;
      const { status, headers, text, failure } = await direct(body, {
        origin: { address, requestId },
        waitedMs,
        concerns: (id) => {
          paymentId = id;
          trace?.concerns(id);
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
      observe({ requestId, method: "POST", route, status, startedMs, failure, paymentId, trace });
    };

    const bytes = await bodyOf(message);
    if (!bytes) return leftEarly();
    queue.add({
      partyOf: () => partyOf(bytes),
      start(waitedMs) {
        if (reply.destroyed) leftEarly();
        else void respond(() => readBody(bytes), waitedMs);
      },
      refuse() {
        // The caller returns later, so its connection is closed: others need it.
        reply.shouldKeepAlive = false;
        void respond(() => {
          throw busy();
        }, 0);
      },
    });
  }

  return (message, reply) => {
    const direct = message.method === "POST" ? lanes.get(message.url ?? "") : undefined;
    if (!direct || !isPlain(message)) return false;
    void answer({ route: message.url ?? "", direct, message, reply });
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

function headerOf({ headers }: IncomingMessage, name: string): string | undefined {
  const value = headers[name];
  return Array.isArray(value) ? value.join(",") : value;
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

/** Finds payer and payee without parsing the body, only to share places: nothing is decided by them. */
function partyOf(bytes: Buffer): Party {
  const text = bytes.toString("latin1");
  return { payer: FROM.exec(text)?.[1]?.toLowerCase() ?? "", payee: TO.exec(text)?.[1]?.toLowerCase() ?? "" };
}

const FROM = /"from"\s*:\s*"(0x[0-9a-fA-F]{40})"/;
const TO = /"to"\s*:\s*"(0x[0-9a-fA-F]{40})"/;

/** @returns undefined when the connection broke before the end */
function bodyOf(message: IncomingMessage): Promise<Buffer | undefined> {
  return new Promise((resolve) => {
    const chunks: Buffer[] = [];
    message.on("data", (chunk: Buffer) => chunks.push(chunk));
    message.on("end", () => resolve(chunks.length === 1 ? chunks[0] : Buffer.concat(chunks)));
    message.on("close", () => resolve(undefined));
  });
}
