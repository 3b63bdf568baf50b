/** A gate as a process of its own, on a claim store that others share: prints its address. */
// As few modules as will do: several of these start at once.
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { type ClaimStore, createProvider, fileClaims, gated } from "turnpike/gate";
import { postgresClaims } from "turnpike/gate/postgres";
import { redisClaims } from "turnpike/gate/redis";
import type { ClaimPlace, GateAssignment } from "./one-grant";

function claimsAt(place: ClaimPlace): ClaimStore {
  switch (place.kind) {
    case "file":
      return fileClaims({ folder: place.folder });
    case "postgres":
      return postgresClaims(new (require("pg") as typeof import("pg")).Pool({ connectionString: place.url, max: 8 }));
    case "redis":
      return redisClaims(new (require("ioredis") as typeof import("ioredis")).Redis(place.socket));
  }
}

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
