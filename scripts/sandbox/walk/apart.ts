/** Walks through flows that would disturb other users of the chain: an outage, and a clock that runs a month ahead. */
import { encodePaymentProof, HEADER } from "turnpike/protocol";
import { buyProof, oneTimeOption, quoteOf } from "../by-hand";
import type { Cast } from "../cast";
import { mustBe } from "../narrate";
import { recordOf, until } from "../observe";
import { DAY_SEC, INTERVAL_SEC, UNIT } from "../world";

/** Runs in a world of its own, because it leaves that world's clock ahead of real time. */
export async function walkApart({ world, narrator, ada }: Cast): Promise<void> {
  const { chain, contracts, facilitator, provider, plans } = world;
  const { agent } = ada;
  const hand = { wallet: ada.wallet, chainId: contracts.chainId, facilitator: facilitator.url };

  await narrator.step(
    "The Facilitator is down",
    "A proof that cannot be judged is neither refused nor taken for good: 503, never 402. Nobody pays twice.",
    async () => {
      const url = `${provider.url}/quote?symbol=XRP`;
      const headers = { [HEADER.payment]: encodePaymentProof(await buyProof(hand, url)) };
      const ask = () => narrator.fetch(url, { headers });
      await facilitator.stop();
      try {
        const response = await ask();
        mustBe(response.status, 503, "the status meanwhile");
        mustBe(response.headers.has("retry-after"), true, "that Retry-After is there");
        mustBe(oneTimeOption(await quoteOf(url)).amount, "500000", "the price quoted meanwhile");
      } finally {
        await facilitator.start();
      }
      mustBe((await ask()).status, 200, "the status once it is back");
    },
  );

  await narrator.step(
    "Renewal by the clock alone",
    `The clock moves ${INTERVAL_SEC / DAY_SEC} days on. Ada does nothing; the Facilitator collects the next period.`,
    async () => {
      const { idHash, paidThroughSec } = await agent.subscribe({ planId: plans.reader, origins: [provider.url] });
      const before = await contracts.balanceOf(ada.address);
      await chain.advance(INTERVAL_SEC);
      await until("the renewal", async () => (await recordOf(world, idHash)).paidThroughSec > paidThroughSec);
      mustBe(
        (await recordOf(world, idHash)).paidThroughSec,
        paidThroughSec + INTERVAL_SEC,
        "the end of the new period",
      );
      mustBe(before - (await contracts.balanceOf(ada.address)), 10n * UNIT, "what was collected");
      mustBe((await agent.fetch(`${provider.url}/report`)).status, 200, "the status");
    },
  );
}
