/** Metered use: a subscription with a cap, charged per call. */
import { setTimeout as sleep } from "node:timers/promises";
import { complete } from "../../../examples/agent";
import type { Cast } from "../cast";
import { mustBe } from "../narrate";
import { UNIT } from "../world";

const MAX_ATTEMPTS = 5;

export async function walkMetered({ world, narrator, max }: Cast): Promise<void> {
  const { contracts, provider, plans } = world;
  const { agent } = max;
  // A 503 names when to retry.
  const call = async (): Promise<number> => {
    for (let attempt = 1; ; attempt++) {
      const { status, headers } = await complete(agent, provider.url, 1_000);
      if (status !== 503 || attempt === MAX_ATTEMPTS) return status;
      await sleep(Number(headers.get("Retry-After") ?? 1) * 1_000);
    }
  };
  const mine = async () => {
    const found = (await agent.list()).find(({ planId }) => planId === plans.small || planId === plans.large);
    if (!found) throw new Error("The agent does not know its subscription.");
    return found;
  };

  await narrator.step(
    "Metered calls until the cap",
    "Max subscribes with a cap of 1.50 for overage. Each call of 1,000 words costs 0.50: three are served, the fourth is not.",
    async () => {
      const planId = plans.small;
      await agent.subscribe({ planId, maxOverage: UNIT + UNIT / 2n, origins: [provider.url] });
      for (const number of [1, 2, 3]) mustBe(await call(), 200, `the status of call ${number}`);
      mustBe(await call(), 402, "the status of call 4");
    },
  );

  await narrator.step("The cap is raised", "One signature, and the next call is served.", async () => {
    await agent.setMaxOverage(await mine(), 3n * UNIT);
    mustBe(await call(), 200, "the status");
  });

  await narrator.step(
    "A larger plan",
    "Max moves to the larger plan: the unused time of the smaller one is credited.",
    async () => {
      const before = await contracts.balanceOf(max.address);
      await agent.changePlan(await mine(), { planId: plans.large, maxOverage: 10n * UNIT });
      mustBe((await mine()).planId, plans.large, "the plan");
      const charged = before - (await contracts.balanceOf(max.address));
      mustBe(charged >= 15n * UNIT && charged < 18n * UNIT, true, "that the credit was taken off");
      mustBe(await call(), 200, "the status");
    },
  );
}
