/** Walks through a trial and calendar months: their clock runs over February, so they need a chain of their own. */
import { createPlan, issueVoucher } from "turnpike/chain";
import { createFacilitatorClient } from "turnpike/facilitator";
import { defaultGraceSec, NOMINAL_MONTH_SEC } from "turnpike/protocol";
import type { Cast } from "../cast";
import { mustBe } from "../narrate";
import { recordOf, until } from "../observe";
import { DAY_SEC, UNIT } from "../world";

const TRIAL_SEC = 7 * DAY_SEC;

const PRICE = 12n * UNIT;

/** Runs after other flows of that world: it moves the clock to the next January. */
export async function walkTerms({ world, narrator, max }: Cast): Promise<void> {
  const { chain, contracts, facilitator, providerAccount } = world;
  const nowSec = async () => (await chain.provider.getBlock("latest"))?.timestamp ?? 0;
  const year = new Date((await nowSec()) * 1_000).getUTCFullYear() + 1;
  const client = createFacilitatorClient({ url: facilitator.url });
  const advanceTo = async (timeSec: number) => {
    await chain.advance(timeSec - (await nowSec()));
    // Agents sign by the Facilitator's time, which follows the chain's blocks.
    await until("the Facilitator's time", async () => {
      const account = await client.account(
        { address: max.address, token: contracts.token },
        { network: contracts.network },
      );
      return account.kind === "found" && account.value.chainTimeSec >= timeSec;
    });
  };
  const dayOf = (timeSec: number) => new Date(timeSec * 1_000).toISOString().slice(0, 10);
  const lastOfFebruary = dayOf(Date.UTC(year, 2, 0) / 1_000);
  let idHash = "";
  const paidThrough = async () => (await recordOf(world, idHash)).paidThroughSec;
  const collected = async (act: () => Promise<void>): Promise<bigint> => {
    const before = await contracts.balanceOf(max.address);
    await act();
    return before - (await contracts.balanceOf(max.address));
  };

  await narrator.step(
    "A trial that converts",
    `The provider signs a voucher for Max: seven days for nothing, then ${PRICE / UNIT} a month. On 31 January the first month is collected.`,
    async () => {
      const terms = { token: contracts.token, amount: PRICE, months: 1, graceSec: defaultGraceSec(NOMINAL_MONTH_SEC) };
      const named = { ...terms, metadata: JSON.stringify({ name: "Monthly" }) };
      const { planId } = await createPlan(providerAccount, contracts.turnpike, named);
      await until("the plan", async () => (await fetch(`${facilitator.url}/plans/${planId}`)).ok);
      await advanceTo(Date.UTC(year, 0, 24, 12) / 1_000);
      const offer = { firstAmount: 0n, firstInterval: TRIAL_SEC, deadlineSec: (await nowSec()) + 600 };
      const cost = await collected(async () => {
        const subscription = await max.agent.subscribe({
          planId,
          voucher: (request) => issueVoucher(providerAccount, request, { ...request, ...offer }),
        });
        idHash = subscription.idHash;
      });
      mustBe(cost, 0n, "what the trial cost");
      const end = await paidThrough();
      const price = await collected(async () => {
        await advanceTo(end);
        await until("the first charge", async () => (await paidThrough()) > end);
      });
      mustBe(price, PRICE, "what was collected after the trial");
      narrator.say(`   the trial ends on ${dayOf(end)}, the first month on ${dayOf(await paidThrough())}`);
      mustBe(dayOf(await paidThrough()), lastOfFebruary, "the end of the first month");
    },
  );

  await narrator.step(
    "A month plan over February",
    "A period ends on the month's last day where the month has no 31st, and the next one on the 31st again.",
    async () => {
      const end = await paidThrough();
      await advanceTo(end);
      await until("the renewal", async () => (await paidThrough()) > end);
      narrator.say(`   ${dayOf(end)} is followed by ${dayOf(await paidThrough())}`);
      mustBe(dayOf(await paidThrough()), `${year}-03-31`, "the end of the second month");
    },
  );
}
