/** Gives a recorded answer of a Facilitator to core's own client, which validates it with core's schemas. */
import { createServer } from "node:http";
import { closeServer, listen } from "../../support/gate";
import { v2 } from "./stock";

export interface Recorded {
  readonly status: number;
  readonly text: string;
}

type Endpoint = "verify" | "settle" | "supported";

/** @returns what the client makes of it. @throws what the client throws for an answer that it cannot use */
export async function readByCore(endpoint: Endpoint, { status, text }: Recorded): Promise<object> {
  const server = createServer((_request, response) => {
    response.writeHead(status, { "Content-Type": "application/json" }).end(text);
  });
  const client = new (v2.server().HTTPFacilitatorClient)({ url: await listen(server) });
  try {
    if (endpoint === "supported") return await client.getSupported();
    return await client[endpoint]({ x402Version: 2 }, {});
  } finally {
    await closeServer(server);
  }
}
