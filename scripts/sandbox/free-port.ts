/** Finds a port of this machine that nobody listens on. */
import { randomInt } from "node:crypto";
import { once } from "node:events";
import { createServer } from "node:net";

/** Below those that systems give to connections, which may take a port before its server does. */
const [FIRST, END] = [20_000, 32_000];

const ATTEMPTS = 50;

/** @param preferred used when nobody listens there; 0: any */
export async function freePort(preferred = 0): Promise<number> {
  for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
    const port = attempt === 0 && preferred !== 0 ? preferred : randomInt(FIRST, END);
    const server = createServer().listen(port, "127.0.0.1");
    try {
      await once(server, "listening");
    } catch {
      continue;
    }
    server.close();
    await once(server, "close");
    return port;
  }
  throw new Error(`No port from ${FIRST} to ${END - 1} can be listened on.`);
}
