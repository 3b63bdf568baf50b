/** Walks through every flow once: harmless ones in the sandbox's own world, the others in a second one. */
import { type Cast, createCast } from "../cast";
import { createNarrator } from "../narrate";
import { writeState } from "../state";
import type { World } from "../world";
import { walkApart } from "./apart";
import { walkMetered } from "./metered";
import { walkOneTime } from "./one-time";
import { walkStream } from "./stream";
import { walkSubscription } from "./subscription";
import { walkTerms } from "./terms";
import { walkTools } from "./tools";
import { walkUpTo } from "./up-to";

export interface WalkOptions {
  readonly world: World;
  /** Starts a second world, for an outage and for time travel: the first one keeps real time and stays up. */
  readonly startApart: () => Promise<World>;
  /** folder of the state */
  readonly folder: string;
  readonly signal: AbortSignal;
}

/** @returns the unexpected result, or undefined when the walk was interrupted */
export async function walkAll({ world, startApart, folder, signal }: WalkOptions): Promise<string[] | undefined> {
  const state = await writeState(world, folder);
  const { cast, say } = await enter(world, signal);
  const { chain, facilitator, provider, specialist } = world;
  say(`Chain ${chain.chainId} at ${chain.rpcUrl}\nFacilitator at ${facilitator.url}\nProvider at ${provider.url}`);
  say(`Dashboard at ${facilitator.url}/ (it opens signed in; API key ${world.providerKey})`);
  say(`Webhooks that arrived at ${world.inbox?.url}/`);
  say(`Specialist at ${specialist.url}\nAddresses and test keys in ${state}`);
  // Started in parallel; a failure to start is handled where it is used.
  const starting = startApart();
  starting.catch(() => undefined);
  try {
    await walkOneTime(cast);
    await walkMetered(cast);
    await walkSubscription(cast);
    await walkUpTo(cast);
    await walkTools(cast);
    await walkStream(cast);
    say("\nThe last flows disturb everybody on a chain, so they run on a second one, which ends with them.");
    const beside = await starting;
    const { cast: apart } = await enter(beside, signal, cast.narrator.steps());
    try {
      await walkApart(apart);
      await walkTerms(apart);
    } finally {
      if (!signal.aborted) await beside.stop();
    }
    const failures = [...cast.narrator.failures, ...apart.narrator.failures];
    say(failures.length === 0 ? "\nAll flows went as they must." : `\nNot as it must be:\n${failures.join("\n")}`);
    return failures;
  } catch (error) {
    // The process ends now, and the second world with it.
    if (signal.aborted) return undefined;
    throw error;
  }
}

async function enter(
  world: World,
  signal: AbortSignal,
  stepsBefore = 0,
): Promise<{ readonly cast: Cast; say(line: string): void }> {
  const accounts: Record<string, string> = { provider: world.providerAccount.address };
  const narrator = createNarrator(world, () => accounts, signal, stepsBefore);
  const cast = await createCast(world, narrator);
  Object.assign(accounts, {
    Ada: cast.ada.address,
    Max: cast.max.address,
    specialist: world.specialistAccount.address,
  });
  return { cast, say: narrator.say };
}
