/** Creates the agents of the walk, with tokens and no gas; the narrator reports their requests. */
import type { Narrator } from "./narrate";
import type { TestAgent, World } from "./world";

export interface Cast {
  readonly world: World;
  readonly narrator: Narrator;
  /** buys single answers and subscribes to the reader plan */
  readonly ada: TestAgent;
  /** uses the metered route */
  readonly max: TestAgent;
  /** has no tokens */
  readonly poor: TestAgent;
}

export async function createCast(world: World, narrator: Narrator): Promise<Cast> {
  const { fetch } = narrator;
  return {
    world,
    narrator,
    ada: await world.agent("ada", { fetch }),
    max: await world.agent("max", { fetch }),
    poor: await world.agent("poor", { fetch, tokens: 0n }),
  };
}
