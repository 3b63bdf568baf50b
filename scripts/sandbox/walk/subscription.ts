/** Subscriptions: signed once, paid every period, for as long as the subscriber wants. */
import { HEADER, isTurnpikeError, type SubscriptionStatus } from "turnpike/protocol";
import { readReport } from "../../../examples/agent";
import type { Cast } from "../cast";
import { mustBe } from "../narrate";
import { recordOf, until } from "../observe";
import { UNIT, type World } from "../world";

export async function walkSubscription({ world, narrator, ada }: Cast): Promise<void> {
  const { chain, contracts, provider, plans } = world;
  const { agent, wallet } = ada;
  const mine = async () => {
    const found = (await agent.list()).find(({ planId }) => planId === plans.reader);
    if (!found) throw new Error("The agent does not know its subscription.");
    return found;
  };
  const report = () => agent.fetch(`${provider.url}/report`);

  await narrator.step(
    "Signup without gas",
    "Ada has tokens and no ether. She signs the terms and a bounded permit; the Facilitator sends both and the first period is paid.",
    async () => {
      mustBe(await chain.provider.getBalance(wallet.address), 0n, "Ada's ether");
      const before = await contracts.balanceOf(ada.address);
      mustBe((await readReport(agent, provider.url, plans.reader)).status, 200, "the status");
      mustBe(before - (await contracts.balanceOf(ada.address)), 10n * UNIT, "what the first period cost");
    },
  );

  await narrator.step(
    "A subscriber's request",
    "Her id travels in X-Service-Sub. There is no payment step.",
    async () => {
      mustBe((await report()).status, 200, "the status");
    },
  );

  await narrator.step(
    "Several options at one gate",
    "A stranger is offered every option; a subscriber passes straight through and pays nothing more.",
    async () => {
      const url = `${provider.url}/choice`;
      mustBe((await narrator.fetch(url)).status, 402, "the stranger's status");
      const response = await agent.fetch(url);
      mustBe(response.status, 200, "the subscriber's status");
      mustBe(((await response.json()) as { paidBy: string }).paidBy, "subscription", "what she paid by");
    },
  );

  await narrator.step(
    "What the chain shows opens nothing",
    "Anyone can read the subscription's hash on chain. It is no credential: only the id behind it is.",
    async () => {
      const { idHash } = await mine();
      const guess = `0x${wallet.address.slice(2)}${idHash.slice(2)}`;
      for (const value of [idHash, guess]) {
        const response = await narrator.fetch(`${provider.url}/report`, { headers: { [HEADER.subscription]: value } });
        mustBe(response.status, 402, "the status");
      }
    },
  );

  await narrator.step("Pause and resume", "While it is paused nothing is served and nothing collected.", async () => {
    const { id, idHash } = await mine();
    await agent.pause(idHash);
    await mustBecome(world, idHash, "PAUSED");
    await until("the refusal", async () => (await fetchWith(provider.url, id)).status === 402);
    await agent.resume(idHash);
    await mustBecome(world, idHash, "ACTIVE");
    mustBe((await report()).status, 200, "the status afterwards");
  });

  await narrator.step("Cancel", "At once, and for good.", async () => {
    const { id, idHash } = await mine();
    await agent.cancel(idHash);
    await mustBecome(world, idHash, "CANCELLED");
    await until("the refusal", async () => (await fetchWith(provider.url, id)).status === 402);
  });

  await narrator.step("A deprecated plan", "It takes no new subscription; the error names it.", async () => {
    const error: unknown = await agent.subscribe({ planId: plans.retired }).catch((reason) => reason);
    narrator.sayError(error);
    mustBe(isTurnpikeError(error) ? error.code : String(error), "PlanDeprecated", "the error");
  });
}

/** Requests the report with an id as it is: no agent that would retry or pay. */
function fetchWith(provider: string, id: string): Promise<Response> {
  return fetch(`${provider}/report`, { headers: { [HEADER.subscription]: id } });
}

async function mustBecome(world: World, idHash: string, status: SubscriptionStatus): Promise<void> {
  mustBe((await recordOf(world, idHash)).status, status, "the status on chain");
}
