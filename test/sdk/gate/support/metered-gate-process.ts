/**
 * A metered gate in its own process, on a meter store in PostgreSQL that others share. `/tokens?cost=N` charges N and
 * returns the charged amount. `/flush` settles what is owed and returns the totals. Prints its address.
 */
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { Pool } from "pg";
import { createProvider, gated, memoryClaims, type PaidRequest, type ProviderOptions } from "turnpike/gate";
import { cellsOn } from "../../../../sdk/src/gate/cells/cells";
import { postgresCells } from "../../../../sdk/src/gate/cells/postgres";
import { METER_STORE, sharedMeterStore } from "../../../../sdk/src/gate/metering/shared-store";

export interface MeteredGateAssignment {
  readonly options: ProviderOptions;
  readonly database: string;
  readonly planId: string;
}

async function main({ options, database, planId }: MeteredGateAssignment): Promise<void> {
  const pool = new Pool({ connectionString: database, max: 6 });
  pool.on("error", () => undefined);
  // A short lease: a test should not wait for a dead sender as long as production does.
  const cells = cellsOn(postgresCells(pool, { space: "killed" }), { what: METER_STORE });
  const meterStore = sharedMeterStore(cells, { leaseMs: 1_000, refreshMs: 50 });
  const provider = createProvider({
    ...options,
    meterStore,
    claims: memoryClaims({ warn: false }),
    maxUnsettled: 5_000,
  });
  const gate = provider.paymentGate({ pricing: [{ type: "subscription", plan: planId }], metered: true });
  const charge = async (request: PaidRequest) => {
    const cost = new URL(request.url ?? "/", "http://gate").searchParams.get("cost") ?? "1";
    return (await request.payment?.deduct(cost))?.charged ?? 0n;
  };
  const paid = gated(gate, async (request, response) => {
    response.end(String(await charge(request)));
  });
  await provider.ready();
  const server = createServer((request, response) => {
    if (request.url !== "/flush") return paid(request, response);
    const totals = provider.flush().then(() => provider.unsettled());
    totals.then(
      ({ unsettled, settled, lost }) => response.end(`${unsettled} ${settled} ${lost}`),
      (error: Error) => response.writeHead(503).end(error.message),
    );
  });
  server.listen(0, "127.0.0.1", () => {
    process.stdout.write(`http://127.0.0.1:${(server.address() as AddressInfo).port}\n`);
  });
}

void main(JSON.parse(process.argv[2] ?? "{}") as MeteredGateAssignment);
