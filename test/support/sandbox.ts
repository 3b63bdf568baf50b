/** The sandbox's world for end-to-end tests: every part real, in a folder of its own, on TEST_PG_URL where it is set. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { startWorld, type World, type WorldOptions } from "../../scripts/sandbox/world";
import { startChain } from "./chain";
import { startPostgres } from "./postgres";

export { recordOf, spentOf, until } from "../../scripts/sandbox/observe";
export { DAY_SEC, INTERVAL_SEC, type TestAgent, UNIT, type World } from "../../scripts/sandbox/world";

interface SandboxOptions extends Pick<WorldOptions, "chainId" | "secondChainId" | "blockMs" | "withInbox"> {
  /** chains in processes of their own, which can be suspended */
  readonly ownChains?: boolean;
}

export async function startSandbox({ ownChains = false, ...options }: SandboxOptions = {}): Promise<World> {
  const folder = mkdtempSync(path.join(tmpdir(), "turnpike-e2e-"));
  const postgres = process.env.TEST_PG_URL ? await startPostgres() : undefined;
  const databaseUrl = await postgres?.migrated();
  const world = await startWorld({
    blockMs: 200,
    folder,
    databaseUrl,
    startChain: (chain) => startChain({ ...chain, own: ownChains }),
    ...options,
  });
  return {
    ...world,
    async stop() {
      await world.stop();
      await postgres?.stop();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

/** What an account loses while `act` runs. */
export async function spentBy(world: World, account: string, act: () => Promise<unknown>): Promise<bigint> {
  const before = await world.contracts.balanceOf(account);
  await act();
  return before - (await world.contracts.balanceOf(account));
}

/** The code of the error that `promise` rejects with. */
export async function codeOf(promise: Promise<unknown>): Promise<unknown> {
  return promise.then(
    () => "fulfilled",
    (error: { code?: unknown }) => error.code ?? error,
  );
}
