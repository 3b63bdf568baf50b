/**
 * A relay to PostgreSQL that can lose the answer to a commit: the server executes it, and the connection breaks before
 * the client receives a byte of the answer.
 */
import { once } from "node:events";
import type { AddressInfo } from "node:net";
import { connect, createServer, type Socket } from "node:net";

export interface AnswerThief {
  /** the given URL, through this relay */
  readonly url: string;
  /** Loses the answer to the next commit after `skip` others. @returns a function that says whether it has */
  loseCommit(skip: number): () => boolean;
  stop(): Promise<void>;
}

/** A simple query message: its type, its length, its text. */
const COMMIT = Buffer.from("commit\0");

export async function startAnswerThief(target: string): Promise<AnswerThief> {
  const { hostname, port } = new URL(target);
  const sockets = new Set<Socket>();
  let skip = Number.POSITIVE_INFINITY;
  let hasLost = false;

  const server = createServer((client) => {
    const upstream = connect(Number(port), hostname);
    let isStolen = false;
    for (const socket of [client, upstream]) {
      sockets.add(socket);
      socket.on("close", () => {
        sockets.delete(socket);
        client.destroy();
        // The server is to finish what it was sent.
        if (!isStolen) upstream.destroy();
      });
      socket.on("error", () => undefined);
    }
    client.on("data", (bytes) => {
      if (bytes.includes(COMMIT) && skip-- === 0) {
        isStolen = true;
        hasLost = true;
        skip = Number.POSITIVE_INFINITY;
      }
      upstream.write(bytes);
    });
    upstream.on("data", (bytes) => {
      if (!isStolen) client.write(bytes);
      else {
        client.destroy();
        upstream.destroy();
      }
    });
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const url = new URL(target);
  url.hostname = "127.0.0.1";
  url.port = String((server.address() as AddressInfo).port);
  return {
    url: url.href,
    loseCommit(others) {
      hasLost = false;
      skip = others;
      return () => hasLost;
    },
    async stop() {
      for (const socket of sockets) socket.destroy();
      server.close();
      await once(server, "close");
    },
  };
}
