/** Servers on free loopback ports that may hang, dribble or drop; and the record of what reached them. */
import { createServer, type IncomingHttpHeaders, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";

export interface Seen {
  readonly method: string;
  readonly url: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
}

export type Answer =
  | {
      readonly status: number;
      readonly json?: unknown;
      readonly text?: string;
      readonly headers?: Readonly<Record<string, string>>;
    }
  /** closes the connection without an answer */
  | "drop"
  /** never answers */
  | "hang"
  /** begins a 402 whose body goes on for ever, a byte at a time */
  | "dribble"
  /** a 402 with a body of 64 MB */
  | "flood";

export interface HostileServer {
  readonly url: string;
  readonly seen: Seen[];
}

/** The servers of one case; all of them end with it. */
export class Servers {
  readonly #open = new Set<Server>();
  readonly #timers = new Set<NodeJS.Timeout>();

  async start(handle: (request: Seen) => Answer | Promise<Answer>, port = 0): Promise<HostileServer> {
    const seen: Seen[] = [];
    const server = createServer(async (req, res) => {
      const body = await text(req).catch(() => undefined);
      // The client disconnected in the middle of it.
      if (body === undefined) return;
      const request = { method: req.method ?? "", url: req.url ?? "", headers: req.headers, body };
      seen.push(request);
      this.#send(res, await handle(request));
    });
    await new Promise<void>((resolve) => server.listen(port, "127.0.0.1", resolve));
    this.#open.add(server);
    return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, seen };
  }

  #send(res: ServerResponse, answer: Answer): void {
    if (answer === "hang") return;
    if (answer === "drop") {
      res.destroy();
      return;
    }
    if (answer === "dribble") {
      res.writeHead(402, { "content-type": "application/json" });
      this.#timers.add(setInterval(() => res.write(" "), 20));
      return;
    }
    if (answer === "flood") {
      res.writeHead(402, { "content-type": "application/json" });
      res.end(`{"version":"1","x402Version":1,"accepts":[],"message":"${"x".repeat(64 * 1_048_576)}"}`);
      return;
    }
    res.writeHead(answer.status, { "content-type": "application/json", ...answer.headers });
    res.end(answer.text ?? JSON.stringify(answer.json ?? {}));
  }

  async close(): Promise<void> {
    for (const timer of this.#timers) clearInterval(timer);
    await Promise.all(
      [...this.#open].map((server) => {
        server.closeAllConnections();
        return new Promise((resolve) => server.close(resolve));
      }),
    );
  }
}
