/**
 * The sandbox's clock: moves the chain's time forward in steps, and waits after each until the Facilitator has done what
 * became due, so that renewals, dunning and webhooks happen as they would have over the months.
 */
import { JsonRpcProvider } from "ethers";
import type { SubscriberListWire, System } from "turnpike/facilitator";
import { oneShot } from "./one-shot";

export interface ClockOptions {
  readonly rpcUrl: string;
  readonly facilitatorUrl: string;
  readonly apiKey: string;
  /** What has to be told or charged at the time it happened, before that is long ago. */
  beforeStep(): Promise<void>;
}

const DAY_SEC = 86_400;
/** Dunning tries in hours at first, later in days. */
const HOUR_SEC = 3_600;
const HOURLY_SEC = 2 * DAY_SEC;
const TOGETHER_SEC = 1_800;
const QUIET_LOOKS = 3;
const LOOK_MS = 60;
const GIVE_UP_MS = 60_000;

export async function advance(
  { rpcUrl, facilitatorUrl, apiKey, beforeStep }: ClockOptions,
  seconds: number,
): Promise<void> {
  const chain = new JsonRpcProvider(oneShot(rpcUrl), undefined, { batchMaxCount: 1, cacheTimeout: -1 });
  try {
    const targetSec = (await headOf(chain)).timestampSec + seconds;
    for (;;) {
      const { timestampSec: nowSec } = await headOf(chain);
      if (nowSec >= targetSec) return;
      const next = Math.min(targetSec, nextOf(await subscriptionsOf({ facilitatorUrl, apiKey }), nowSec));
      await beforeStep();
      await chain.send("evm_increaseTime", [next - nowSec]);
      await chain.send("evm_mine", []);
      const { number } = await headOf(chain);
      // What follows a block is read with the next one: made at once, not when its time has come.
      await chain.send("evm_mine", []);
      await untilIdle(number);
    }
  } finally {
    chain.destroy();
  }

  /** Has read the block, and nothing is due, in several looks: a renewal under way is due until it is mined. */
  async function untilIdle(block: number): Promise<void> {
    const untilMs = performance.now() + GIVE_UP_MS;
    let quiet = 0;
    while (quiet < QUIET_LOOKS) {
      if (performance.now() > untilMs) throw new Error("The Facilitator does not catch up with the clock.");
      // By its own word of what it has read: how far it thinks that it is behind says nothing of blocks it has not heard of.
      const { chain: read, renewalsDue } = await ask<System>({ facilitatorUrl, apiKey }, "/operator/system");
      quiet = read.applied > block && renewalsDue === 0 ? quiet + 1 : 0;
      await new Promise((resolve) => setTimeout(resolve, LOOK_MS));
    }
  }
}

type Asked = Pick<ClockOptions, "facilitatorUrl" | "apiKey">;

export async function subscriptionsOf(asked: Asked): Promise<SubscriberListWire["subscriptions"]> {
  return (await ask<SubscriberListWire>(asked, "/analytics/subscriptions?limit=200")).subscriptions;
}

/** As the sandbox's provider, who is its operator too. */
async function ask<T>({ facilitatorUrl, apiKey }: Asked, path: string): Promise<T> {
  const answer = await fetch(facilitatorUrl + path, { headers: { authorization: `Bearer ${apiKey}` } });
  if (!answer.ok) throw new Error(`The Facilitator answers ${path} with HTTP ${answer.status}.`);
  return (await answer.json()) as T;
}

/** Of the newest block, unix seconds. */
export async function chainTime({ rpcUrl }: Pick<ClockOptions, "rpcUrl">): Promise<number> {
  const chain = new JsonRpcProvider(oneShot(rpcUrl), undefined, { batchMaxCount: 1, cacheTimeout: -1 });
  try {
    return (await headOf(chain)).timestampSec;
  } finally {
    chain.destroy();
  }
}

/** The next moment at which something may happen; while one is overdue, the next of dunning's steps. */
function nextOf(subscriptions: SubscriberListWire["subscriptions"], nowSec: number): number {
  const live = subscriptions.filter(({ status }) => status === "ACTIVE" || status === "PAST_DUE");
  const overdue = live
    .filter(({ paidThrough }) => paidThrough <= nowSec)
    .map(({ paidThrough }) => nowSec - paidThrough);
  if (overdue.length > 0) return nowSec + (Math.min(...overdue) < HOURLY_SEC ? HOUR_SEC : DAY_SEC);
  const coming = live.map(({ paidThrough }) => paidThrough);
  // A day before and three days before, whoever cannot pay is warned.
  const moments = coming.flatMap((due) => [due - 3 * DAY_SEC, due - DAY_SEC, due]).filter((at) => at > nowSec);
  const first = Math.min(...moments, nowSec + 30 * DAY_SEC);
  // What falls due within minutes is one step: subscriptions of one afternoon renew together.
  return Math.max(first, ...moments.filter((at) => at <= first + TOGETHER_SEC));
}

async function headOf(chain: JsonRpcProvider): Promise<{ number: number; timestampSec: number }> {
  const block = (await chain.send("eth_getBlockByNumber", ["latest", false])) as { number: string; timestamp: string };
  return { number: Number(block.number), timestampSec: Number(block.timestamp) };
}
