/**
 * A gate that sells streams by the unit, in its own process, to be killed. `/stream?name=N&parts=1,5,2` sends so many
 * parts; it writes one line to its output for each delivered part ("part"), before the part is sent, and one for each
 * stream that ended ("end"). `/flush` settles what is owed and returns the totals. Prints its address first.
 */
import { writeSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { setTimeout as pause } from "node:timers/promises";
import { inspect } from "node:util";
import { Pool } from "pg";
import {
  createProvider,
  gated,
  memoryClaims,
  type PaidRequest,
  type Provider,
  type ProviderOptions,
} from "turnpike/gate";
import { isTurnpikeError } from "turnpike/protocol";
import { cellsOn } from "../../../../sdk/src/gate/cells/cells";
import { postgresCells } from "../../../../sdk/src/gate/cells/postgres";
import { METER_STORE, sharedMeterStore } from "../../../../sdk/src/gate/metering/shared-store";
import { createFileMeterStore } from "../../../../sdk/src/gate/provider/create-meter";

export interface StreamGateAssignment {
  readonly options: ProviderOptions;
  readonly planId: string;
  /** base units for so many units */
  readonly unitPrice: { readonly amount: number; readonly per: number };
  /** base units */
  readonly step: number;
  /** the journal's path, or the address of a database that gates share */
  readonly store: { readonly file: string } | { readonly database: string };
}

const print = (line: string): number => writeSync(1, `${line}\n`);

async function main({ options, planId, unitPrice, step, store }: StreamGateAssignment): Promise<void> {
  const provider = createProvider({
    ...options,
    meterStore: "file" in store ? createFileMeterStore({ path: store.file, leaseMs: 2_000 }) : sharedBy(store),
    claims: memoryClaims({ warn: false }),
    maxUnsettled: 100_000,
  });
  const gate = provider.paymentGate({ pricing: [{ type: "subscription", plan: planId }], metered: true });
  const paid = gated(gate, async (request: PaidRequest, response) => {
    const { searchParams } = new URL(request.url ?? "/", "http://gate");
    const name = searchParams.get("name");
    const meter = request.payment?.meter({ unit: "part", unitPrice, step });
    if (!meter) return;
    try {
      for (const units of (searchParams.get("parts") ?? "").split(",")) {
        if (response.destroyed) break;
        const { clipped } = await meter.add(Number(units));
        print(`part ${name} ${units}`);
        if (!response.headersSent) response.writeHead(200, { "Content-Type": "text/event-stream" });
        response.write(`data: ${units}\n\n`);
        if (clipped) break;
        await new Promise((resolve) => setImmediate(resolve));
      }
    } catch (error) {
      if (!response.headersSent) throw error;
    } finally {
      const { amount } = await meter.end();
      print(`end ${name} ${amount}`);
    }
    response.end();
  });
  await readyOnce(provider);
  const server = createServer((request, response) => {
    if (request.url !== "/flush") return paid(request, response);
    const totals = provider.flush().then(() => provider.unsettled());
    totals.then(
      ({ unsettled, settled, lost }) => response.end(`${unsettled} ${settled} ${lost}`),
      (error: Error) => response.writeHead(503).end(error.message),
    );
  });
  server.listen(0, "127.0.0.1", () => {
    print(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
  });
}

/** A short lease: a test should not wait for a dead sender as long as production does. Holds last as they do there. */
function sharedBy({ database }: { readonly database: string }) {
  const pool = new Pool({ connectionString: database, max: 6 });
  pool.on("error", () => undefined);
  const cells = postgresCells(pool, { space: "streams" });
  return sharedMeterStore(cellsOn(cells, { what: METER_STORE }), { leaseMs: 1_000, refreshMs: 50 });
}

/** Starts again while the chain or the store does not answer in time, as a supervisor would. */
async function readyOnce(provider: Pick<Provider, "ready">): Promise<void> {
  for (;;) {
    try {
      return await provider.ready();
    } catch (error) {
      if (!isTurnpikeError(error) || error.code !== "Unavailable") throw error;
      writeSync(2, `a gate starts again: ${inspect(error)}\n`);
      await pause(200);
    }
  }
}

main(JSON.parse(process.argv[2] ?? "{}") as StreamGateAssignment).catch((error: unknown) => {
  writeSync(2, `a gate could not start: ${inspect(error)}\n`);
  process.exit(1);
});
