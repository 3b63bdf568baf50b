/** A gate as a process of its own, with a route for each order of settling: reports each run to the Facilitator. */
// As few modules as will do: it is bundled, started and killed.
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { createProvider, fileClaims, gated } from "turnpike/gate";

export interface SettlingGate {
  readonly folder: string;
  readonly nowSec: number;
  readonly facilitator: { readonly url: string; readonly signers: readonly string[] };
  readonly token: { readonly address: string; readonly name: string; readonly version: string };
  readonly payTo: string;
}

async function main({ folder, nowSec, ...terms }: SettlingGate): Promise<void> {
  const provider = createProvider({
    network: "local-31337",
    ...terms,
    publicUrl: "https://api.example",
    secret: "a secret of this test, long enough to be one",
    claims: fileClaims({ folder }),
    clock: { nowSec: () => nowSec },
  });
  const listenerOf = (settle: "before" | "after") => {
    const gate = provider.paymentGate({ pricing: [{ type: "one-time", amount: 500_000n }], settle });
    return gated(gate, async (request, response) => {
      await fetch(`${terms.facilitator.url}/ran${request.url}`);
      response.end(`granted ${request.url}`);
    });
  };
  const listeners = { before: listenerOf("before"), after: listenerOf("after") };
  const server = createServer((request, response) =>
    listeners[request.url?.startsWith("/after") ? "after" : "before"](request, response),
  );
  server.listen(0, "127.0.0.1", () => {
    process.stdout.write(`http://127.0.0.1:${(server.address() as AddressInfo).port}\n`);
  });
}

void main(JSON.parse(process.argv[2] ?? "{}") as SettlingGate);
