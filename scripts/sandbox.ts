/**
 * Everything at once on this machine: a chain, the contracts, the Facilitator, a provider, agents. Walks all flows once,
 * telling what happens, and stays up:   npm start [-- --exit] [-- --chain-id 84532]
 *   --exit          leave after the walk: 0 when everything was as it must be, 1 otherwise
 *   --chain-id N    the chain's id; 31337 unless given
 */

import { once } from "node:events";
import { mkdirSync } from "node:fs";
import { parseArgs } from "node:util";
import { createCast } from "./sandbox/cast";
import { createNarrator } from "./sandbox/narrate";
import { SANDBOX_FOLDER } from "./sandbox/running";
import { removeState, writeState } from "./sandbox/state";
import { walkMetered } from "./sandbox/walk/metered";
import { walkOneTime } from "./sandbox/walk/one-time";
import { walkSubscription } from "./sandbox/walk/subscription";
import { startWorld, type World } from "./sandbox/world";

const PORTS = { facilitator: 8402, provider: 4021, specialist: 4022, inbox: 4023 };

interface Arguments {
  readonly exit: boolean;
  readonly chainId: number;
}

function readArguments(): Arguments {
  const { values } = parseArgs({
    options: { exit: { type: "boolean", default: false }, "chain-id": { type: "string", default: "31337" } },
  });
  const chainId = Number(values["chain-id"]);
  if (!Number.isSafeInteger(chainId) || chainId < 1) throw new Error("--chain-id takes a whole number above zero.");
  return { exit: values.exit, chainId };
}

async function main(): Promise<void> {
  const { exit, chainId } = readArguments();
  mkdirSync(SANDBOX_FOLDER, { recursive: true });
  const stopping = new AbortController();
  const interrupted = Promise.race([once(process, "SIGINT"), once(process, "SIGTERM")]).then(() => stopping.abort());
  // What is under way when the world is stopped fails by that, in libraries too; until then a fault is a fault.
  process.on("unhandledRejection", (error) => {
    if (!stopping.signal.aborted) throw error;
  });
  process.stdout.write("Starting a chain, the contracts, the Facilitator, a provider and agents ...\n");
  const world = await startWorld({ chainId, folder: SANDBOX_FOLDER, ports: PORTS, isSpared: true, withInbox: true });
  try {
    const failures = await Promise.race([walk(world, stopping.signal), interrupted]);
    if (failures?.length) process.exitCode = 1;
    if (failures && !exit) {
      process.stdout.write(`The sandbox stays up until Ctrl-C. Watch it at ${world.facilitator.url}/\n`);
      process.stdout.write("A year in a minute: npm run sandbox -- scenario happy-year\n");
      await interrupted;
    }
  } finally {
    process.stdout.write("\nStopping.\n");
    removeState();
    await world.stop();
  }
}

async function walk(world: World, signal: AbortSignal): Promise<readonly string[] | undefined> {
  const { chain, facilitator, provider, specialist } = world;
  const state = await writeState(world);
  const accounts: Record<string, string> = { provider: world.providerAccount.address };
  const narrator = createNarrator(world, () => accounts, signal);
  const cast = await createCast(world, narrator);
  Object.assign(accounts, {
    Ada: cast.ada.address,
    Max: cast.max.address,
    specialist: world.specialistAccount.address,
  });
  narrator.say(
    `Chain ${chain.chainId} at ${chain.rpcUrl}\nFacilitator at ${facilitator.url}\nProvider at ${provider.url}`,
  );
  narrator.say(`Dashboard at ${facilitator.url}/ (it opens signed in; API key ${world.providerKey})`);
  narrator.say(`Webhooks that arrived at ${world.inbox?.url}/`);
  narrator.say(`Specialist at ${specialist.url}\nAddresses and test keys in ${state}`);
  try {
    await walkOneTime(cast);
    await walkMetered(cast);
    await walkSubscription(cast);
  } catch (error) {
    if (signal.aborted) return undefined;
    throw error;
  }
  const { failures } = narrator;
  narrator.say(
    failures.length === 0 ? "\nAll flows went as they must." : `\nNot as it must be:\n${failures.join("\n")}`,
  );
  return failures;
}

main()
  .catch((error: Error) => {
    process.stderr.write(`${error.stack ?? error.message}\n`);
    process.exitCode = 1;
  })
  // Everything is stopped; a call of an agent that still waits for an outcome would keep the process for minutes.
  .finally(() => process.exit());
