/** One of two chains is away: the other one goes on, and what waits is done when the chain is back. */
import type { Subscription } from "turnpike/agent";
import { createFacilitatorClient, type Readiness } from "turnpike/facilitator";
import { isTurnpikeError, parseMemo, type SignedPaymentWire } from "turnpike/protocol";
import { buyQuote } from "../../../examples/agent";
import { oneTimeOption, quoteOf, signPayment } from "../by-hand";
import type { Cast } from "../cast";
import { mustBe } from "../narrate";
import { recordOf, until } from "../observe";
import { DAY_SEC, INTERVAL_SEC, UNIT } from "../world";

const PATIENCE_MS = 60_000;

/** Less than it takes until /readyz reports the outage: the renewal of the chain that is away falls due meanwhile. */
const BEFORE_DUE_SEC = 10;

/** Runs in a world of its own, because it stops a node and leaves the clocks of both chains ahead of real time. */
export async function walkChainOutage({ world, narrator, ada }: Cast, away: Cast): Promise<void> {
  const { facilitator, provider } = world;
  const here = world.contracts.network;
  const there = away.world.contracts.network;
  const client = createFacilitatorClient({ url: facilitator.url });
  let subscribed: { readonly here: Subscription; readonly there: Subscription };
  let signed: SignedPaymentWire;

  await away.narrator.step(
    "A subscriber on each chain",
    `Ada subscribes on ${here} and on ${there}. On ${there} her next period begins in ${BEFORE_DUE_SEC} seconds, and Max signs a payment.`,
    async () => {
      subscribed = { here: await subscribe({ world, ada }), there: await subscribe(away) };
      await away.world.chain.advance(INTERVAL_SEC - BEFORE_DUE_SEC);
      signed = await signedByMax(away);
    },
  );

  await narrator.step(
    `The node of ${there} stops`,
    `Its process is suspended. On ${here} Ada pays, is served as a subscriber, and her next period is collected ${INTERVAL_SEC / DAY_SEC} days later. Max's payment is neither settled nor failed.`,
    async () => {
      away.world.chain.suspend();
      const waiting = client.authorize(signed).then(
        ({ kind }) => kind,
        (error: unknown) => (isTurnpikeError(error) ? error.code : String(error)),
      );
      mustBe((await buyQuote(ada.agent, provider.url, "HERE")).status, 200, `the status of a payment on ${here}`);
      mustBe((await ada.agent.fetch(`${provider.url}/report`)).status, 200, `a subscriber's status on ${here}`);
      await world.chain.advance(INTERVAL_SEC);
      await untilRenewed({ world }, subscribed.here);
      mustBe(["pending", "Unavailable"].includes(await waiting), true, "that the payment waits");
      const names = await untilFailing((some) => some.length > 0);
      mustBe(
        names.filter((name) => !name.startsWith(`${there}: `)).join(),
        "",
        "the other checks of /readyz that fail",
      );
    },
  );
  away.world.chain.resume();

  await away.narrator.step(
    `The node of ${there} is back`,
    "Max's payment settles, once. Ada's period, which began meanwhile, is collected, and she is served.",
    async () => {
      const before = await away.world.contracts.balanceOf(away.max.address);
      const isSettled = async () => (await client.authorize(signed).catch(() => undefined))?.kind === "settled";
      await until("the payment", isSettled, PATIENCE_MS);
      await untilRenewed(away, subscribed.there);
      const served = await away.ada.agent.fetch(`${away.world.provider.url}/report`);
      mustBe(served.status, 200, `a subscriber's status on ${there}`);
      mustBe(before - (await away.world.contracts.balanceOf(away.max.address)), UNIT / 2n, "what the payment moved");
      await untilFailing((some) => some.length === 0);
    },
  );

  /** Waits for a state of `/readyz`, which is 200 all the time. @returns the names of the failing checks */
  async function untilFailing(isSo: (names: readonly string[]) => boolean): Promise<readonly string[]> {
    let names: readonly string[] = [];
    await until(
      "the state of /readyz",
      async () => {
        const response = await fetch(`${facilitator.url}/readyz`);
        mustBe(response.status, 200, "the status of /readyz");
        const { checks } = (await response.json()) as Readiness;
        names = checks.filter(({ ok }) => !ok).map(({ name }) => name);
        return isSo(names);
      },
      PATIENCE_MS,
    );
    return names;
  }
}

const subscribe = ({ world: { plans, provider }, ada }: Pick<Cast, "world" | "ada">): Promise<Subscription> =>
  ada.agent.subscribe({ planId: plans.reader, origins: [provider.url] });

const untilRenewed = ({ world }: Pick<Cast, "world">, { idHash, paidThroughSec }: Subscription): Promise<void> =>
  until(
    `the renewal on ${world.contracts.network}`,
    async () => (await recordOf(world, idHash)).paidThroughSec > paidThroughSec,
    PATIENCE_MS,
  );

/** Signs once the gate's quote is of the chain's present time. */
async function signedByMax({ world, max }: Cast): Promise<SignedPaymentWire> {
  const { chain, contracts, provider } = world;
  const nowSec = (await chain.provider.getBlock("latest"))?.timestamp ?? 0;
  let entry = oneTimeOption(await quoteOf(`${provider.url}/quote?symbol=AWAY`));
  await until("the gate's time", async () => {
    entry = oneTimeOption(await quoteOf(`${provider.url}/quote?symbol=AWAY`));
    return (parseMemo(entry.memo ?? "")?.expiresAtSec ?? 0) > nowSec;
  });
  return signPayment(max.wallet, contracts.chainId, entry);
}
