/**
 * Generates load in its own process with payments that were signed before. Open loop sends by the clock; closed loop
 * runs a number of callers with one request in flight each. Any response other than a confirmed payment counts as
 * failed.
 */
import { connect, type Socket } from "node:net";
import { makePayloads, type PayloadTerms } from "./payloads";
import { serveParent } from "./process";

export type Load =
  | { readonly kind: "open"; readonly perSec: number; readonly seconds: number }
  | { readonly kind: "closed"; readonly callers: number; readonly seconds: number };

export type GeneratorAsk =
  | { readonly kind: "sign"; readonly terms: PayloadTerms; readonly count: number }
  | { readonly kind: "run"; readonly url: string; readonly load: Load };

export interface LoadReport {
  readonly sent: number;
  readonly confirmed: number;
  readonly failed: number;
  /** number of failures by response: a status, a code or "timeout" */
  readonly failures: Readonly<Record<string, number>>;
  /** from the first request to the last response */
  readonly seconds: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
  readonly maxMs: number;
  /** open loop: the maximum delay of a request after its planned time, which its latency includes */
  readonly latestMs: number;
  readonly cpuSec: number;
}

const TIMEOUT_MS = 60_000;

let bodies: string[] = [];
let next = 0;
let endpoint = "";

interface Reply {
  readonly status: number;
  readonly body: string;
}

/** Keeps connections open with one request at a time on each: an HTTP client with minimal overhead. */
class Lines {
  readonly #idle: Line[] = [];
  constructor(
    private readonly host: string,
    private readonly port: number,
  ) {}

  async post(body: string): Promise<Reply> {
    let line = this.#idle.pop();
    while (line?.isClosed) line = this.#idle.pop();
    line ??= new Line(this.host, this.port);
    const reply = await line.post(body);
    if (!line.isClosed) this.#idle.push(line);
    return reply;
  }

  close(): void {
    for (const line of this.#idle) line.close();
  }
}

class Line {
  readonly #socket: Socket;
  readonly #host: string;
  #received = "";
  #done: ((reply: Reply) => void) | undefined;
  isClosed = false;

  constructor(host: string, port: number) {
    this.#host = `${host}:${port}`;
    this.#socket = connect({ host, port, noDelay: true });
    this.#socket.setEncoding("latin1");
    this.#socket.on("data", (chunk) => this.#take(String(chunk)));
    const closed = (): void => {
      this.isClosed = true;
      this.#finish({ status: 0, body: "connection closed" });
    };
    this.#socket.on("error", closed);
    this.#socket.on("close", closed);
  }

  post(body: string): Promise<Reply> {
    return new Promise((resolve) => {
      const timer = setTimeout(() => {
        this.close();
        this.#finish({ status: 0, body: "timeout" });
      }, TIMEOUT_MS);
      this.#done = (reply) => {
        clearTimeout(timer);
        resolve(reply);
      };
      const head = `POST ${endpoint} HTTP/1.1\r\nhost: ${this.#host}\r\ncontent-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n`;
      this.#socket.write(head + body, "latin1");
    });
  }

  close(): void {
    this.isClosed = true;
    this.#socket.destroy();
  }

  #take(chunk: string): void {
    this.#received += chunk;
    const headEnd = this.#received.indexOf("\r\n\r\n");
    if (headEnd < 0) return;
    const head = this.#received.slice(0, headEnd);
    const length = /\r\ncontent-length: *(\d+)/i.exec(head);
    const end = length ? headEnd + 4 + Number(length[1]) : this.#received.indexOf("\r\n0\r\n\r\n", headEnd) + 7;
    if (end < headEnd || this.#received.length < end) return;
    const body = this.#received.slice(headEnd + 4, end);
    this.#received = "";
    if (/\r\nconnection: *close/i.test(head)) this.isClosed = true;
    this.#finish({ status: Number(head.slice(9, 12)), body });
  }

  #finish(reply: Reply): void {
    const done = this.#done;
    this.#done = undefined;
    done?.(reply);
  }
}

/** @returns undefined for a confirmed payment: a proof, or the standard's success */
function failureOf({ status, body }: Reply): string | undefined {
  if (status === 200 && (body.startsWith('{"proof":{') || body.includes('"success":true'))) return undefined;
  const code = /"(?:code|errorReason)":"(\w+)"/.exec(body)?.[1];
  const message = /"(?:message|errorMessage)":"([^"]{1,80})/.exec(body)?.[1];
  return status === 0 ? body : [status, code, message].filter(Boolean).join(" ");
}

async function run(url: string, load: Load): Promise<LoadReport> {
  const { hostname, port } = new URL(url);
  const lines = new Lines(hostname, Number(port));
  const latenciesMs: number[] = [];
  const failures: Record<string, number> = {};
  const startedMs = performance.now();
  const startedCpu = process.cpuUsage();
  let sent = 0;
  let confirmed = 0;
  let latestMs = 0;

  async function one(dueMs: number): Promise<void> {
    const body = bodies[next++];
    if (body === undefined) throw new TypeError("the signed payloads are used up");
    sent++;
    const failure = failureOf(await lines.post(body));
    latenciesMs.push(performance.now() - dueMs);
    if (failure === undefined) confirmed++;
    else failures[failure] = (failures[failure] ?? 0) + 1;
  }

  if (load.kind === "closed") {
    const untilMs = startedMs + load.seconds * 1_000;
    const caller = async (): Promise<void> => {
      while (performance.now() < untilMs) await one(performance.now());
    };
    await Promise.all(Array.from({ length: load.callers }, caller));
  } else {
    const total = load.perSec * load.seconds;
    const under: Promise<void>[] = [];
    await new Promise<void>((resolve) => {
      const tick = setInterval(() => {
        const elapsedMs = performance.now() - startedMs;
        while (under.length < total && (under.length / load.perSec) * 1_000 <= elapsedMs) {
          const plannedMs = (under.length / load.perSec) * 1_000;
          latestMs = Math.max(latestMs, elapsedMs - plannedMs);
          under.push(one(startedMs + plannedMs));
        }
        if (under.length < total) return;
        clearInterval(tick);
        resolve();
      }, 2);
    });
    await Promise.all(under);
  }
  const seconds = (performance.now() - startedMs) / 1_000;
  const { user, system } = process.cpuUsage(startedCpu);
  lines.close();
  latenciesMs.sort((a, b) => a - b);
  const at = (share: number): number =>
    Math.round(latenciesMs[Math.min(latenciesMs.length - 1, Math.floor(latenciesMs.length * share))] ?? 0);
  return {
    sent,
    confirmed,
    failed: sent - confirmed,
    failures,
    seconds,
    p50Ms: at(0.5),
    p99Ms: at(0.99),
    maxMs: at(1),
    latestMs: Math.round(latestMs),
    cpuSec: (user + system) / 1e6,
  };
}

serveParent<GeneratorAsk, LoadReport | "signed">(async (message) => {
  if (message.kind === "run") return run(message.url, message.load);
  bodies = makePayloads(message.terms, message.count);
  next = 0;
  endpoint = message.terms.endpoint;
  return "signed";
});
