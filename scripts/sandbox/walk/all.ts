/** Walks through every flow once: harmless ones in the sandbox's own world, the others in a second one. */
import { announce } from "../announce";
import { type Cast, createCast } from "../cast";
import type { Documentation } from "../documentation";
import { createNarrator } from "../narrate";
import type { World } from "../world";
import { walkApart } from "./apart";
import { walkChainOutage } from "./chain-outage";
import { walkChains } from "./chains";
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
  /** where the documentation is served, and whether it is built */
  readonly documentation: Pick<Documentation, "url" | "isBuilt">;
  readonly signal: AbortSignal;
  /** shows every step whole */
  readonly isVerbose: boolean;
}

/** @returns the unexpected result, or undefined when the walk was interrupted */
export async function walkAll(options: WalkOptions): Promise<string[] | undefined> {
  const { world, startApart, folder, documentation, signal, isVerbose } = options;
  const { lines } = await announce(world, folder, documentation);
  const casts = new Casts(signal, isVerbose);
  const cast = await casts.enter(world);
  const { say } = cast.narrator;
  const { second } = world;
  say(lines.join("\n"));
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
    if (second) await walkSecond(cast, await casts.enter(second));
    say("\nThe last flows disturb everybody on a chain, so they run in a world of their own, which ends with them.");
    const beside = await starting;
    try {
      const apart = await casts.enter(beside);
      await walkApart(apart);
      if (beside.second && process.platform !== "win32") await walkChainOutage(apart, await casts.enter(beside.second));
      await walkTerms(apart);
    } finally {
      if (!signal.aborted) await beside.stop();
    }
    const failures = casts.failures();
    say(failures.length === 0 ? "\nAll flows went as they must." : `\nNot as it must be:\n${failures.join("\n")}`);
    return failures;
  } catch (error) {
    // The process ends now, and the second world with it.
    if (signal.aborted) return undefined;
    throw error;
  }
}

/** Repeats what differs from chain to chain. */
async function walkSecond(first: Cast, second: Cast): Promise<void> {
  const { contracts, provider } = second.world;
  second.narrator.say(`\nThe same Facilitator serves ${contracts.network}, with a provider at ${provider.url}.`);
  await walkChains(first, second.world);
  await walkOneTime(second);
  await walkMetered(second);
  await walkSubscription(second);
}

/** The casts of one walk. Their steps are counted together. */
class Casts {
  readonly #casts: Cast[] = [];
  readonly #steps = { started: 0 };

  constructor(
    readonly signal: AbortSignal,
    readonly isVerbose: boolean,
  ) {}

  async enter(world: World): Promise<Cast> {
    const accounts: Record<string, string> = { provider: world.providerAccount.address };
    const narrator = createNarrator(world, () => accounts, {
      signal: this.signal,
      steps: this.#steps,
      isVerbose: this.isVerbose,
    });
    const cast = await createCast(world, narrator);
    Object.assign(accounts, {
      Ada: cast.ada.address,
      Max: cast.max.address,
      specialist: world.specialistAccount.address,
    });
    this.#casts.push(cast);
    return cast;
  }

  failures(): string[] {
    return this.#casts.flatMap(({ narrator }) => narrator.failures);
  }
}
