/** A node that can fall silent: it takes requests in and never answers, as a process that was suspended. */
import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";

export interface SilentNode {
  readonly url: string;
  /** requests that arrived since it fell silent */
  unanswered(): number;
  silence(): void;
  /** Answers again; what arrived meanwhile stays unanswered. */
  speak(): void;
  stop(): Promise<void>;
}

/** @param target a real node, which answers for it until it falls silent */
export async function startSilentNode(target: string): Promise<SilentNode> {
  let isSilent = false;
  let unanswered = 0;
  const answer = async (incoming: IncomingMessage, outgoing: ServerResponse): Promise<void> => {
    const body = await text(incoming);
    if (isSilent) {
      unanswered += 1;
      return;
    }
    const answered = await fetch(target, { method: "POST", headers: { "content-type": "application/json" }, body });
    const answer = await answered.text();
    if (isSilent) unanswered += 1;
    else outgoing.writeHead(answered.status, { "content-type": "application/json" }).end(answer);
  };
  const server = createServer((incoming, outgoing) => {
    answer(incoming, outgoing).catch(() => outgoing.destroy());
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    unanswered: () => unanswered,
    silence() {
      isSilent = true;
      unanswered = 0;
    },
    speak() {
      isSilent = false;
    },
    async stop() {
      server.closeAllConnections();
      server.close();
    },
  };
}
