/** Two whole processes of the Facilitator on one PostgreSQL, as behind a balancer: whatever one says, the other says too. */
import { addressOfKey, type Hex } from "turnpike/protocol";
import { testKey } from "../../support/chain";
import { BLOCK_MS, type FacilitatorWorld, fund, startWorld } from "../../support/facilitator";
import { startPostgres } from "../../support/postgres";
import { buildProgram, type Program, type ServiceProcess } from "./processes";

export interface TwoProcesses {
  readonly world: FacilitatorWorld;
  readonly program: Program;
  /** of both; each further process has them too */
  readonly settings: Record<string, string> & { readonly DATABASE_URL: string };
  readonly one: ServiceProcess;
  readonly two: ServiceProcess;
  stop(): Promise<void>;
}

/**
 * @param name of the keys that pay the gas, one for each process
 * @param more further settings of both
 */
export async function startTwoProcesses(
  name: string,
  more: (world: FacilitatorWorld) => Promise<Readonly<Record<string, string>>> = async () => ({}),
): Promise<TwoProcesses> {
  const stops: (() => unknown)[] = [];
  const stop = async (): Promise<void> => {
    for (const end of stops.splice(0).reverse()) await end();
  };
  try {
    const postgres = await startPostgres();
    stops.push(() => postgres.stop());
    const world = await startWorld({ postgres, blockMs: BLOCK_MS });
    stops.push(() => world.stop());
    const program = buildProgram();
    stops.push(() => program.remove());
    const keys = [1, 2].map((place) => testKey(`${name} lane ${place}`) as Hex);
    for (const key of keys) await fund(world.chain, addressOfKey(key));
    const settings = world.env({ RELAYER_KEYS: keys.join(","), ...(await more(world)) }) as TwoProcesses["settings"];
    const startOne = async (): Promise<ServiceProcess> => {
      const started = await program.start(settings, "api,relayer,indexer");
      stops.push(() => started.kill());
      return started;
    };
    return { world, program, settings, one: await startOne(), two: await startOne(), stop };
  } catch (error) {
    await stop();
    throw error;
  }
}
