/** Load over keep-alive sockets, one request under way on each; as little work per request as Node allows. */
import { connect, type Socket } from "node:net";

export interface Load {
  readonly url: string;
  /** headers of the next request; undefined: no more */
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

  async function run(): Promise<void> {
    const socket = connect({ host: hostname, port: Number(port), noDelay: true });
    const answers = statusesOf(socket);
    for (;;) {
      const headers = performance.now() < endMs ? next() : undefined;
      if (!headers) break;
      const beganMs = performance.now();
      const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`);
      socket.write(`GET /paid HTTP/1.1\r\nHost: ${host}\r\n${lines.join("")}\r\n`);
      const { value: status } = await answers.next();
      if (status !== expect) throw new TypeError(`${url} answered ${status} where ${expect} was expected`);
      latenciesMs.push(performance.now() - beganMs);
    }
    socket.destroy();
  }

  await Promise.all(Array.from({ length: connections }, run));
  const seconds = (performance.now() - startMs) / 1_000;
  latenciesMs.sort((a, b) => a - b);
  return { count: latenciesMs.length, seconds, p99Ms: latenciesMs[Math.floor(latenciesMs.length * 0.99)] ?? 0 };
}

/** The status of each response that arrives, once its body is there. */
async function* statusesOf(socket: Socket): AsyncGenerator<number, undefined> {
  let text = "";
  for await (const chunk of socket.setEncoding("latin1")) {
    text += chunk;
    for (let end = endOf(text); end > 0; end = endOf(text)) {
      yield Number(text.slice(9, 12));
      text = text.slice(end);
    }
  }
  return undefined;
}

function endOf(text: string): number {
  const head = text.indexOf("\r\n\r\n");
  if (head < 0) return 0;
  const length = /\r\ncontent-length: *(\d+)/i.exec(text.slice(0, head))?.[1];
  if (length !== undefined) return text.length >= head + 4 + Number(length) ? head + 4 + Number(length) : 0;
  const last = text.indexOf("0\r\n\r\n", head + 4);
  return last < 0 ? 0 : last + 5;
}
