/**
 * Generates load over keep-alive sockets, one request in flight on each, with as little work per request as Node
 * allows.
 */
import { connect } from "node:net";

export interface Load {
  readonly url: string;
  /** returns the headers of the next request; undefined: no more. The same object is serialized once */
  readonly next: () => Readonly<Record<string, string>> | undefined;
  readonly expect: number;
  readonly connections: number;
  readonly forMs: number;
}

export interface Loaded {
  readonly count: number;
  readonly seconds: number;
  readonly p99Ms: number;
}

export async function load({ url, next, expect, connections, forMs }: Load): Promise<Loaded> {
  const { hostname, port, host } = new URL(url);
  const latenciesMs: number[] = [];
  const startMs = performance.now();
  const endMs = startMs + forMs;
  const written = new WeakMap<object, Buffer>();

  function bytesOf(headers: Readonly<Record<string, string>>): Buffer {
    let bytes = written.get(headers);
    if (!bytes) {
      const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`);
      bytes = Buffer.from(`GET /paid HTTP/1.1\r\nHost: ${host}\r\n${lines.join("")}\r\n`);
      written.set(headers, bytes);
    }
    return bytes;
  }

  function run(): Promise<void> {
    return new Promise((resolve, reject) => {
      const socket = connect({ host: hostname, port: Number(port), noDelay: true });
      let beganMs = 0;
      let parts: Buffer | undefined;
      /** of the last response: most have the same length as the previous one */
      let lastLength = 0;

      function send(): void {
        const headers = performance.now() < endMs ? next() : undefined;
        if (!headers) {
          socket.destroy();
          resolve();
          return;
        }
        beganMs = performance.now();
        socket.write(bytesOf(headers));
      }
      socket.on("connect", send);
      socket.on("error", reject);
      socket.on("data", (chunk) => {
        const bytes = parts ? Buffer.concat([parts, chunk]) : chunk;
        const status = (bytes[9] ?? 0) * 100 + (bytes[10] ?? 0) * 10 + (bytes[11] ?? 0) - 48 * 111;
        if (status !== expect) {
          socket.destroy();
          return reject(
            new TypeError(`${url} answered ${bytes.toString("latin1", 0, 300)} where ${expect} was expected`),
          );
        }
        if (bytes.length !== lastLength && !isWhole(bytes)) {
          parts = bytes;
          return;
        }
        lastLength = bytes.length;
        parts = undefined;
        latenciesMs.push(performance.now() - beganMs);
        send();
      });
    });
  }

  await Promise.all(Array.from({ length: connections }, run));
  const seconds = (performance.now() - startMs) / 1_000;
  latenciesMs.sort((a, b) => a - b);
  return { count: latenciesMs.length, seconds, p99Ms: latenciesMs[Math.floor(latenciesMs.length * 0.99)] ?? 0 };
}

function isWhole(bytes: Buffer): boolean {
  const text = bytes.toString("latin1");
  const head = text.indexOf("\r\n\r\n");
  if (head < 0) return false;
  const length = /\r\ncontent-length: *(\d+)/i.exec(text.slice(0, head))?.[1];
  return length === undefined ? text.endsWith("0\r\n\r\n") : text.length >= head + 4 + Number(length);
}
