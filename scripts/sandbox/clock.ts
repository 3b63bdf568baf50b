/**
 * The sandbox's clock: moves the chain's time forward in steps, and waits after each until the Facilitator has done what
 * became due, so that renewals, dunning and webhooks happen as they would have over the months.
 */
import { JsonRpcProvider } from "ethers";
import type { SubscriberListWire } from "turnpike/facilitator";
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
      const text = await (await fetch(`${facilitatorUrl}/metrics`)).text();
      const { number } = await headOf(chain);
      const applied = number - measure(text, "turnpike_indexer_lag_blocks");
      quiet = applied > block && measure(text, "turnpike_renewals_due") === 0 ? quiet + 1 : 0;
      await new Promise((resolve) => setTimeout(resolve, LOOK_MS));
    }
  }
}

export async function subscriptionsOf({
  facilitatorUrl,
  apiKey,
}: Pick<ClockOptions, "facilitatorUrl" | "apiKey">): Promise<SubscriberListWire["subscriptions"]> {
  const url = `${facilitatorUrl}/analytics/subscriptions?limit=200`;
  const answer = await fetch(url, { headers: { authorization: `Bearer ${apiKey}` } });
  if (!answer.ok) throw new Error(`The Facilitator does not tell its subscriptions: HTTP ${answer.status}.`);
  return ((await answer.json()) as SubscriberListWire).subscriptions;
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

function measure(text: string, name: string): number {
  const match = new RegExp(`^${name}(?:\\{[^}]*\\})? ([0-9.e+-]+)$`, "m").exec(text);
  return match ? Number(match[1]) : Number.NaN;
}
