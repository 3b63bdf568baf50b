/**
 * Offers payments on new connections, one for each, from its own process. Counts what the service did to a connection
 * apart from its own failures: connections that this process could not open for want of files or ports, and what it
 * learned late because it was short of processor itself.
 */
import { connect } from "node:net";
import { makePayloads, type PayloadTerms } from "../settle/payloads";
import { serveParent } from "../settle/process";
import { Observation, type Sighting } from "./observation";

/** `perSec` arrivals by the clock, or `callers` with one payment in flight each. */
export type Offer = { readonly seconds: number } & ({ readonly perSec: number } | { readonly callers: number });

export type OverloadAsk =
  | { readonly kind: "sign"; readonly terms: PayloadTerms; readonly count: number }
  | { readonly kind: "offer"; readonly url: string; readonly offer: Offer; readonly silentMs: number };

export interface OverloadReport {
  readonly offered: number;
  /** offered by the end of the time: fewer than planned when this process was short of processor */
  readonly offeredInTime: number;
  /** confirmed while payments were offered, per second */
  readonly goodput: number;
  readonly confirmed: number;
  /** answers that the outcome is not known yet */
  readonly pending: number;
  /** 503 with Retry-After */
  readonly shed: number;
  /** 503 without it */
  readonly bareShed: number;
  /** any other answer, by status and code */
  readonly other: Readonly<Record<string, number>>;
  /** closed, reset or refused by the service without a whole answer, by cause */
  readonly closed: Readonly<Record<string, number>>;
  /** without a whole answer within `silentMs`, however late one came; the delays of this process do not count */
  readonly silent: number;
  /** answered, but this process read the answer so late that it may have come before `silentMs` or after it */
  readonly readLate: number;
  /** connections that this process could not open, by cause */
  readonly own: Readonly<Record<string, number>>;
  /** of confirmed payments, the delays of this process included */
  readonly p50Ms: number;
  readonly p99Ms: number;
  /** of the answers that shed */
  readonly shedP99Ms: number;
  /** maximum delay of an arrival after its planned time */
  readonly latestMs: number;
  /** longest turn of this process's event loop */
  readonly longestTurnMs: number;
  readonly mostOpen: number;
  readonly cpuSec: number;
}

/** This process is out of files, ports or memory. */
const OWN = new Set(["EMFILE", "ENFILE", "EADDRNOTAVAIL", "EADDRINUSE", "ENOBUFS", "ENOMEM", "EAGAIN"]);

/** A silent connection is closed that long after `silentMs`. */
const GIVE_UP_MS = 5_000;

/**
 * The service closes a connection without a request after that long, and then answers 408. A request that this process
 * sends later still meets a closed connection by its own fault.
 */
const REQUEST_TIMEOUT_MS = 15_000;

/** Linux has all of 127/8 on loopback: each address has its own ports, and a closed connection keeps one for a minute. */
const SOURCES = process.platform === "linux" ? 200 : 1;

let bodies: string[] = [];
let next = 0;
let endpoint = "";

interface Answer {
  readonly kind: "answer";
  readonly status: number;
  readonly head: string;
  readonly body: string;
}

type Result = Answer | { readonly kind: "closed" | "own"; readonly cause: string } | { readonly kind: "silent" };

interface Post {
  readonly target: URL;
  readonly body: string;
  readonly turn: number;
  readonly giveUpMs: number;
}

/** Posts one body on a connection of its own. Every other client asks the service to close it. */
function post({ target, body, turn, giveUpMs }: Post, observation: Observation): Promise<Result & Sighting> {
  return new Promise((resolve) => {
    const { hostname: host, port } = target;
    const localAddress = SOURCES > 1 ? `127.0.1.${1 + (turn % SOURCES)}` : undefined;
    const seen = observation.begin();
    const socket = connect({ host, port: Number(port), noDelay: true, ...(localAddress && { localAddress }) });
    let received = "";
    let cause = "ended";
    let timer: NodeJS.Timeout;
    const done = (result: Result): void => {
      clearTimeout(timer);
      socket.destroy();
      resolve({ ...result, ...seen.end() });
    };
    // After a stall timers run first: what has arrived by then is read before this process gives up.
    const giveUp = (afterMs: number): void => {
      timer = setTimeout(() => {
        setImmediate(() => {
          const leftMs = giveUpMs - seen.atLeastMs();
          if (leftMs > 0) giveUp(leftMs);
          else done({ kind: "silent" });
        });
      }, afterMs);
    };
    const close = (): void => {
      const isOwn = OWN.has(cause) || seen.sentAfterMs() > REQUEST_TIMEOUT_MS;
      done({ kind: isOwn ? "own" : "closed", cause: OWN.has(cause) || !isOwn ? cause : `${cause}, sent late` });
    };
    giveUp(giveUpMs);
    socket.setEncoding("latin1");
    socket.once("connect", () => seen.connected());
    socket.on("data", (chunk) => {
      received += String(chunk);
      const answer = answerOf(received);
      if (answer) done(answer);
    });
    socket.on("error", ({ code = "unknown" }: NodeJS.ErrnoException) => {
      cause = code;
    });
    socket.on("end", close);
    socket.on("close", close);
    const connection = turn % 2 === 0 ? "connection: close\r\n" : "";
    const head = `POST ${endpoint} HTTP/1.1\r\nhost: ${target.host}\r\n${connection}content-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n`;
    socket.write(head + body, "latin1");
  });
}

/** @returns undefined while it is not whole */
function answerOf(received: string): Answer | undefined {
  const headEnd = received.indexOf("\r\n\r\n");
  if (headEnd < 0) return undefined;
  const head = received.slice(0, headEnd);
  const length = /\r\ncontent-length: *(\d+)/i.exec(head);
  const end = length ? headEnd + 4 + Number(length[1]) : received.indexOf("\r\n0\r\n\r\n", headEnd) + 7;
  if (end < headEnd || received.length < end) return undefined;
  return { kind: "answer", status: Number(head.slice(9, 12)), head, body: received.slice(headEnd + 4, end) };
}

/** What came of the payments of one offer. */
class Tally {
  readonly counts = { confirmed: 0, inTime: 0, pending: 0, shed: 0, bareShed: 0, silent: 0, readLate: 0 };
  readonly other: Record<string, number> = {};
  readonly closed: Record<string, number> = {};
  readonly own: Record<string, number> = {};
  readonly confirmedMs: number[] = [];
  readonly shedMs: number[] = [];

  add(result: Result & Sighting, { isInTime, silentMs }: { isInTime: boolean; silentMs: number }): void {
    const { counts } = this;
    const { atMostMs: tookMs, atLeastMs } = result;
    if (result.kind === "own") count(this.own, result.cause);
    else if (result.kind === "closed") count(this.closed, result.cause);
    else if (result.kind === "silent" || atLeastMs > silentMs) counts.silent++;
    else if (tookMs > silentMs) counts.readLate++;
    if (result.kind !== "answer") return;
    const { status, head, body } = result;
    if (status === 200) {
      counts.confirmed++;
      if (isInTime) counts.inTime++;
      this.confirmedMs.push(tookMs);
    } else if (status === 202) counts.pending++;
    else if (status === 503) {
      if (/\r\nretry-after: *\d+/i.test(head)) counts.shed++;
      else counts.bareShed++;
      this.shedMs.push(tookMs);
    } else count(this.other, `${status} ${/"code":"(\w+)"/.exec(body)?.[1] ?? ""}`);
  }
}

function count(counts: Record<string, number>, name: string): void {
  counts[name] = (counts[name] ?? 0) + 1;
}

const quantile = (values: readonly number[], share: number): number => {
  const sorted = [...values].sort((a, b) => a - b);
  return Math.round(sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? 0);
};

async function run(url: string, offer: Offer, silentMs: number): Promise<OverloadReport> {
  const target = new URL(url);
  const tally = new Tally();
  const startedMs = performance.now();
  const startedCpu = process.cpuUsage();
  const endMs = startedMs + offer.seconds * 1_000;
  const connections = { offered: 0, offeredInTime: 0, open: 0, most: 0 };
  const observation = new Observation();

  async function one(): Promise<void> {
    const body = bodies[next++];
    if (body === undefined) throw new TypeError("the signed payloads are used up");
    const turn = connections.offered++;
    connections.most = Math.max(connections.most, ++connections.open);
    if (performance.now() <= endMs) connections.offeredInTime++;
    const result = await post({ target, body, turn, giveUpMs: silentMs + GIVE_UP_MS }, observation);
    connections.open--;
    tally.add(result, { isInTime: performance.now() <= endMs, silentMs });
  }

  const latestMs =
    "perSec" in offer ? await openLoop(offer, startedMs, one) : await closedLoop(offer.callers, endMs, one);
  const { user, system } = process.cpuUsage(startedCpu);
  observation.end();
  const { inTime, ...counts } = tally.counts;
  return {
    ...counts,
    offered: connections.offered,
    offeredInTime: connections.offeredInTime,
    goodput: inTime / offer.seconds,
    other: tally.other,
    closed: tally.closed,
    own: tally.own,
    p50Ms: quantile(tally.confirmedMs, 0.5),
    p99Ms: quantile(tally.confirmedMs, 0.99),
    shedP99Ms: quantile(tally.shedMs, 0.99),
    latestMs: Math.round(latestMs),
    longestTurnMs: Math.round(observation.longestTurnMs),
    mostOpen: connections.most,
    cpuSec: (user + system) / 1e6,
  };
}

/** @returns the maximum delay of an arrival, in milliseconds */
async function openLoop(
  { perSec, seconds }: { readonly perSec: number; readonly seconds: number },
  startedMs: number,
  one: () => Promise<void>,
): Promise<number> {
  const total = Math.round(perSec * seconds);
  const begun: Promise<void>[] = [];
  let latestMs = 0;
  while (begun.length < total) {
    const elapsedMs = performance.now() - startedMs;
    while (begun.length < total && (begun.length / perSec) * 1_000 <= elapsedMs) {
      latestMs = Math.max(latestMs, elapsedMs - (begun.length / perSec) * 1_000);
      begun.push(one());
    }
    await new Promise((resolve) => setTimeout(resolve, 2));
  }
  await Promise.all(begun);
  return latestMs;
}

async function closedLoop(callers: number, endMs: number, one: () => Promise<void>): Promise<number> {
  const caller = async (): Promise<void> => {
    while (performance.now() < endMs) await one();
  };
  await Promise.all(Array.from({ length: callers }, caller));
  return 0;
}

serveParent<OverloadAsk, OverloadReport | "signed">(async (message) => {
  if (message.kind === "offer") return run(message.url, message.offer, message.silentMs);
  bodies = makePayloads(message.terms, message.count);
  next = 0;
  endpoint = message.terms.endpoint;
  return "signed";
});
