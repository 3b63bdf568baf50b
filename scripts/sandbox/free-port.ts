/** Finds a port of this machine that nobody listens on. */
import { once } from "node:events";
import { createServer } from "node:net";

/** @param preferred used when nobody listens there */
export async function freePort(preferred = 0): Promise<number> {
  const server = createServer();
  try {
    server.listen(preferred, "127.0.0.1");
    await once(server, "listening");
  } catch (error) {
    if (preferred === 0) throw error;
    return freePort();
  }
  const address = server.address();
  server.close();
  await once(server, "close");
  if (address === null || typeof address === "string") throw new Error("The system named no port.");
  return address.port;
}
