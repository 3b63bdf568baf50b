/**
 * Serves the few endpoints that carry the load directly on the connection. It repeats what the app's middleware does
 * for every request, at a fraction of the cost. Any unusual request goes through the app.
 */
import { randomUUID } from "node:crypto";
import type { IncomingMessage, ServerResponse } from "node:http";
import { PAYMENT_ENDPOINTS, X402_ENDPOINTS } from "turnpike/facilitator";
import { type Hex, type TurnpikeError, Unavailable } from "turnpike/protocol";
import type { PaymentOutline } from "../payments";
import type { RequestTrace } from "../telemetry/tracing";
import { bodyCutOff, JSON_TYPE, MAX_BODY_BYTES, parseJsonBody } from "./body";
import type { Direct, Endpoint } from "./endpoint";
import type { ErrorResponse } from "./errors";
import { outlineOf } from "./payment-outline";
import { createObserver, OPEN_HEADERS } from "./response-observer";
import type { ApiServices } from "./services";
import { WorkQueue } from "./work-queue";

/** @returns whether the request is handled here; if not, nothing of it has been read */
export type DirectRoutes = (incoming: IncomingMessage, outgoing: ServerResponse) => boolean;

const DIRECT: readonly string[] = [PAYMENT_ENDPOINTS.authorizePayment.path, X402_ENDPOINTS.settleX402.path];

/** Payments that wait to be started. */
const MAX_WAITING = 10_000;

/** While a payment waits for longer to be started, new ones are refused. */
const MAX_WAIT_MS = 2_000;

/**
 * A payment that is not started within this time is refused. It leaves time for the two queues behind this one
 * (`MAX_QUEUE_AGE_MS`) within AUTHORIZE_WAIT_MS.
 */
const DEADLINE_MS = 5_000;

/** Processor time of a turn of the event loop for starting payments: what else a turn does takes about as long. */
const TURN_CPU_MS = 8;
const MAX_TURN_CPU_MS = 24;

const RETRY_AFTER_SEC = 2;

/** Made once: an overload needs thousands, and each would record where it was made. */
const BUSY = new Unavailable("too many payments wait", { reason: "busy", retryAfterSec: RETRY_AFTER_SEC });

export function directsOf(endpoints: readonly Endpoint[]): ReadonlyMap<string, Direct> {
  const picked = endpoints.filter(({ path }) => DIRECT.includes(path));
  return new Map(picked.flatMap(({ path, direct }) => (direct ? [[path, direct]] : [])));
}

export interface DirectServices
  extends Pick<ApiServices, "log" | "metrics" | "monotonicMs" | "network" | "rateLimit" | "tracing" | "untilEnd"> {
  readonly payments: Pick<ApiServices["payments"], "whyBusy">;
}

/**
 * @param directs by path
 * @param queue of the payments that wait to be started
 */
export function createDirectRoutes(
  services: DirectServices,
  directs: ReadonlyMap<string, Direct>,
  queue: Pick<WorkQueue, "add" | "isFull"> = createQueue(services),
): DirectRoutes {
  const context: DirectContext = { services, queue, observe: createObserver(services), write: createWriter() };
  return (message, reply) => {
    const route = message.url ?? "";
    const direct = message.method === "POST" ? directs.get(route) : undefined;
    if (!direct || !isPlain(message)) return false;
    void new Exchange(context, { route, direct, message, reply }).run();
    return true;
  };
}

function cpuMs(): number {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1_000;
}

const createQueue = ({ monotonicMs }: DirectServices): WorkQueue =>
  new WorkQueue({
    maxWaiting: MAX_WAITING,
    maxAgeMs: MAX_WAIT_MS,
    deadlineMs: DEADLINE_MS,
    turnCpuMs: TURN_CPU_MS,
    maxTurnCpuMs: MAX_TURN_CPU_MS,
    cpuMs,
    monotonicMs,
  });

interface DirectContext {
  readonly services: DirectServices;
  readonly queue: Pick<WorkQueue, "add" | "isFull">;
  readonly observe: ReturnType<typeof createObserver>;
  readonly write: (send: () => void) => void;
}

interface Received {
  readonly route: string;
  readonly direct: Direct;
  readonly message: IncomingMessage;
  readonly reply: ServerResponse;
}

class Exchange {
  readonly #context: DirectContext;
  readonly #received: Received;
  readonly #startedMs: number;
  readonly #requestId = randomUUID();
  readonly #trace: RequestTrace | undefined;
  #paymentId: Hex | undefined;

  constructor(context: DirectContext, received: Received) {
    this.#context = context;
    this.#received = received;
    this.#startedMs = context.services.monotonicMs();
    const header = (name: string): string | undefined => headerOf(received.message, name);
    this.#trace = context.services.tracing?.begin({ method: "POST", header });
  }

  /** Refuses as early as it can: before the body is read, before it is parsed, or before it is judged. */
  async run(): Promise<void> {
    const { services, queue } = this.#context;
    if (queue.isFull) return this.#refuse(BUSY);
    const bytes = await bodyOf(this.#received.message);
    if (!bytes) return this.#leave();
    let outline: PaymentOutline | undefined;
    const outlineOnce = (): PaymentOutline => {
      outline ??= outlineOf(bytes, services.network.chainId);
      return outline;
    };
    const busy = services.payments.whyBusy(outlineOnce);
    if (busy) return this.#refuse(busy);
    queue.add({
      partyOf: () => outlineOnce().party,
      start: (waitedMs) => void (this.#received.reply.destroyed ? this.#leave() : this.#answer(bytes, waitedMs)),
      refuse: () => this.#refuse(BUSY),
    });
  }

  async #answer(bytes: Buffer, waitedMs: number): Promise<void> {
    const { services } = this.#context;
    const { direct, message, reply } = this.#received;
    const address = message.socket.remoteAddress ?? "unknown";
    const readBody = (): unknown => {
      services.rateLimit.take(address);
      return parseJsonBody(bytes);
    };
    const answer = () =>
      direct.answer(readBody, {
        origin: { address, requestId: this.#requestId },
        waitedMs,
        concerns: (id) => {
          this.#paymentId = id;
          this.#trace?.concerns(id);
        },
        isGone: () => reply.destroyed,
        untilEnd: services.untilEnd,
      });
    const response = await (this.#trace ? this.#trace.run(answer) : answer());
    this.#context.write(() => this.#send(response));
    this.#observe(response.status, response.failure);
  }

  /** The caller returns later, so its connection is closed: others need it. */
  #refuse(error: TurnpikeError): void {
    const { direct, reply } = this.#received;
    reply.shouldKeepAlive = false;
    const response = direct.refuse(error, this.#requestId);
    this.#send(response);
    this.#context.services.metrics.refusals.inc({ code: error.code, reason: error.reason ?? "" });
    this.#observe(response.status, error);
  }

  /** The client has left, or was too slow. The app logs such a request in the same way. */
  #leave(): void {
    const failure = bodyCutOff();
    this.#observe(failure.status, failure);
  }

  #send({ status, headers, text }: ErrorResponse): void {
    const { reply } = this.#received;
    reply.writeHead(status, {
      "x-request-id": this.#requestId,
      "cache-control": "no-store",
      ...OPEN_HEADERS,
      ...headers,
      "content-length": Buffer.byteLength(text),
    });
    reply.end(text);
  }

  #observe(status: number, failure: TurnpikeError | undefined): void {
    const { route } = this.#received;
    this.#context.observe({
      requestId: this.#requestId,
      method: "POST",
      route,
      status,
      startedMs: this.#startedMs,
      failure,
      paymentId: this.#paymentId,
      trace: this.#trace,
    });
  }
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

/** Accepts JSON of a declared, allowed length for a host, without headers that change how it is read. */
function isPlain({ headers }: IncomingMessage): boolean {
  const length = headers["content-length"];
  return (
    headers.host !== undefined &&
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
