/** Small real HTTP servers on free loopback ports, and the record of what reached them. */
import { createServer, type IncomingHttpHeaders, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";

export interface Seen {
  readonly method: string;
  readonly url: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
}

export interface Answer {
  readonly status: number;
  readonly json?: unknown;
  readonly headers?: Readonly<Record<string, string>>;
  /** close the connection without an answer */
  readonly drop?: boolean;
}

export interface StandIn {
  readonly url: string;
  readonly seen: Seen[];
  close(): Promise<void>;
}

const open = new Set<Server>();

export async function serve(handle: (request: Seen) => Answer | Promise<Answer>): Promise<StandIn> {
  const seen: Seen[] = [];
  const server = createServer(async (req, res) => {
    const body = await text(req).catch(() => undefined);
    // The client disconnected before the end.
    if (body === undefined) return;
    const request = { method: req.method ?? "", url: req.url ?? "", headers: req.headers, body };
    seen.push(request);
    const answer = await handle(request);
    if (answer.drop) {
      req.socket.destroy();
      return;
    }
    res.writeHead(answer.status, { "content-type": "application/json", ...answer.headers });
    res.end(answer.json === undefined ? "" : JSON.stringify(answer.json));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  open.add(server);
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    seen,
    close: () => closeServer(server),
  };
}

function closeServer(server: Server): Promise<void> {
  open.delete(server);
  server.closeAllConnections();
  return new Promise((resolve) => server.close(() => resolve()));
}

export async function closeAll(): Promise<void> {
  await Promise.all([...open].map(closeServer));
}
