/**
 * A balancer as operators run them: each request goes to the next server in turn, and to another one when it is refused,
 * its connection breaks, or the answer is 503. That may send a request twice, which every request of the API allows.
 */
import { createServer, type IncomingMessage } from "node:http";
import type { AddressInfo } from "node:net";

export interface Balancer {
  readonly url: string;
  stop(): Promise<void>;
}

/** Rounds over all servers before the last answer is passed on, with a pause before each but the first. */
const ROUNDS = 10;

const PAUSE_MS = 100;

export async function startBalancer(servers: () => readonly string[]): Promise<Balancer> {
  let turn = 0;

  async function forward(incoming: IncomingMessage): Promise<{ status: number; type: string; body: string }> {
    const chunks: Buffer[] = [];
    for await (const chunk of incoming) chunks.push(chunk as Buffer);
    const body = Buffer.concat(chunks);
    const tries = servers().length * ROUNDS;
    let last = { status: 502, type: "text/plain", body: "no server answers" };
    for (let attempt = 0; attempt < tries; attempt++) {
      const all = servers();
      if (attempt > 0 && attempt % all.length === 0) await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
      const to = all[turn++ % all.length];
      const answer = await fetch(`${to}${incoming.url}`, {
        method: incoming.method ?? "GET",
        headers: { "content-type": "application/json" },
        ...(body.length > 0 && { body }),
      }).catch(() => undefined);
      if (!answer) continue;
      last = {
        status: answer.status,
        type: answer.headers.get("content-type") ?? "application/json",
        body: await answer.text(),
      };
      if (answer.status !== 503) break;
    }
    return last;
  }

  const server = createServer((incoming, outgoing) => {
    void forward(incoming).then(({ status, type, body }) => {
      outgoing.writeHead(status, { "content-type": type }).end(body);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    async stop() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
