/** A gate as a process of its own, with a route for each order of settling, and one that fails: reports each run. */
// As few modules as will do: it is bundled, started and killed.
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { createProvider, gated } from "turnpike/gate";
import { type ClaimPlace, claimsAt } from "./claim-place";

/** More than any process id. */
const MAX = 10_000_000n;

export interface SettlingGate {
  readonly place: ClaimPlace;
  /** without it, the time of `rpcUrl` */
  readonly nowSec?: number;
  readonly rpcUrl?: string;
  /** with a key, `/refund` refunds its failures */
  readonly facilitator: { readonly url: string; readonly signers: readonly string[]; readonly refundsKey?: string };
  readonly token: { readonly address: string; readonly name: string; readonly version: string };
  readonly payTo: string;
  readonly mpp?: "Authorization";
}

async function main({ place, nowSec, ...terms }: SettlingGate): Promise<void> {
  const provider = createProvider({
    network: "local-31337",
    ...terms,
    publicUrl: "https://api.example",
    secret: "a secret of this test, long enough to be one",
    claims: claimsAt(place),
    ...(nowSec === undefined ? {} : { clock: { nowSec: () => nowSec } }),
  });
  const listenerOf = (options: Parameters<typeof provider.paymentGate>[0]) =>
    gated(provider.paymentGate(options), async (request, response) => {
      await fetch(`${terms.facilitator.url}/ran${request.url}`);
      // Another amount in each process: a retry must not charge its own.
      request.payment?.charge(process.pid);
      if (options.refundOnFailure) response.statusCode = 500;
      response.end(`granted ${request.url}`);
    });
  const pricing = [{ type: "one-time", amount: 500_000n }] as const;
  const before = listenerOf({ pricing, settle: "before" });
  const after = listenerOf({ pricing, settle: "after" });
  const upto = listenerOf({ pricing: [{ type: "upto", max: MAX }] });
  const refund = terms.facilitator.refundsKey
    ? listenerOf({ pricing, settle: "before", refundOnFailure: true })
    : before;
  const listeners: Readonly<Record<string, typeof before>> = { after, before, upto, refund };
  const server = createServer((request, response) =>
    (listeners[/^\/(\w*)/.exec(request.url ?? "")?.[1] ?? ""] ?? before)(request, response),
  );
  server.listen(0, "127.0.0.1", () => {
    process.stdout.write(`http://127.0.0.1:${(server.address() as AddressInfo).port}\n`);
  });
}

void main(JSON.parse(process.argv[2] ?? "{}") as SettlingGate);
