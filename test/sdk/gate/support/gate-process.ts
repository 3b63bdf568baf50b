/** A gate as a process of its own, on a claim store that others share: prints its address. */
// As few modules as will do: several of these start at once.
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { createProvider, gated } from "turnpike/gate";
import { claimsAt } from "./claim-place";
import type { GateAssignment } from "./one-grant";

async function main({ place, nowSec, ...terms }: GateAssignment): Promise<void> {
  const provider = createProvider({
    network: "local-31337",
    ...terms,
    secret: "a secret of this test, long enough to be one",
    claims: claimsAt(place),
    clock: { nowSec: () => nowSec },
  });
  const gate = provider.paymentGate({ pricing: [{ type: "one-time", amount: 500_000n }] });
  const server = createServer(gated(gate, (_request, response) => response.end("granted")));
  server.listen(0, "127.0.0.1", () => {
    process.stdout.write(`http://127.0.0.1:${(server.address() as AddressInfo).port}\n`);
  });
}

void main(JSON.parse(process.argv[2] ?? "{}") as GateAssignment);
