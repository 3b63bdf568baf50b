/**
 * A metered provider in its own process, to be killed. It charges continuously and writes one line before each call
 * ("asked") and one after it ("charged"). With `drain` it settles what its predecessors left and prints a report.
 */
import { writeSync } from "node:fs";
import { connectRpc, createOperator, type MeteredState } from "turnpike/chain";
import type { Address, Hex } from "turnpike/protocol";
import { createMeter } from "../../sdk/src/gate/metering/meter";
import { createFileMeterStore } from "../../sdk/src/gate/provider/create-meter";

interface Assignment {
  readonly rpcUrl: string;
  readonly chainId: number;
  readonly turnpike: Address;
  readonly operatorKey: Hex;
  readonly idHashes: readonly Hex[];
  readonly journal: string;
  readonly drain: boolean;
}

const PARALLEL = 8;
const FACTS_AGE_MS = 40;

const print = (line: string): number => writeSync(1, `${line}\n`);

async function main(assignment: Assignment): Promise<void> {
  const { rpcUrl, chainId, turnpike, operatorKey, idHashes, journal, drain } = assignment;
  const rpc = connectRpc({ urls: rpcUrl, chainId });
  const { sender, states } = createOperator({ rpc, turnpike, chainId, signer: operatorKey });
  const meter = createMeter({
    sender,
    states,
    store: createFileMeterStore({ path: journal, leaseMs: 200, compactAtBytes: 20_000 }),
    clock: { nowSec: () => 0 },
    limits: { settleAmount: 3_000n, settleAgeMs: 100, pollMs: 20, maxUnsettled: 20_000n },
  });
  await meter.start();
  if (drain) {
    await meter.flush();
    const { charged, settled, lost, unsettled } = meter.unsettled();
    print(`report ${charged} ${settled} ${lost} ${unsettled}`);
    await meter.stop();
    rpc.close();
    return;
  }

  let facts: readonly MeteredState[] = await states.read(idHashes);
  print("ready");
  const refresh = async (): Promise<never> => {
    for (;;) {
      await new Promise((resolve) => setTimeout(resolve, FACTS_AGE_MS));
      facts = await states.read(idHashes);
    }
  };
  const work = async (worker: number): Promise<never> => {
    for (let i = worker; ; i++) {
      const at = facts[i % facts.length];
      if (at === undefined) continue;
      const amount = BigInt(1 + ((i * 7) % 50));
      print(`asked ${amount}`);
      const { charged } = await meter.reserve(at.idHash, amount, at).catch(refusal);
      print(`charged ${charged}`);
      await new Promise((resolve) => setImmediate(resolve));
    }
  };
  await Promise.race([refresh(), ...Array.from({ length: PARALLEL }, (_, worker) => work(worker))]);
}

function refusal(error: { code?: string }): { charged: bigint } {
  if (error.code !== "AllowanceExhausted") throw error;
  return { charged: 0n };
}

main(JSON.parse(process.argv[2] ?? "{}") as Assignment).catch((error: unknown) => {
  process.stderr.write(`${String(error)}\n`);
  process.exitCode = 1;
});
