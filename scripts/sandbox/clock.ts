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

/** How long before a renewal whoever cannot pay it is warned. */
const WARNINGS_SEC = [3 * DAY_SEC, DAY_SEC] as const;

const TOGETHER_SEC = 1_800;

/** Warnings are looked for so often, and a moment is not looked at twice. */
const WARNED_WITHIN_SEC = 60;

const LOOK_MS = 40;

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
      const next = Math.min(targetSec, nextOf(await momentsAfter(nowSec), nowSec));
      await beforeStep();
      await chain.send("evm_increaseTime", [next - nowSec]);
      await mine();
      await untilIdle(await headOf(chain));
    }
  } finally {
    chain.destroy();
  }

  /** What follows a block is read with the next one: both are made at once, not when their time has come. */
  async function mine(): Promise<void> {
    await chain.send("evm_mine", []);
    await chain.send("evm_mine", []);
  }

  /** Of what renews and is warned of; of what failed, when it is tried again or its standing changes. */
  async function momentsAfter(nowSec: number): Promise<number[]> {
    const [subscriptions, { nextRenewalAt }] = await Promise.all([
      subscriptionsOf({ facilitatorUrl, apiKey }),
      ask<System>({ facilitatorUrl, apiKey }, "/operator/system"),
    ]);
    const coming = subscriptions.filter(({ status }) => status === "ACTIVE").map(({ paidThrough }) => paidThrough);
    if (nextRenewalAt !== undefined) coming.push(nextRenewalAt);
    return coming.flatMap((due) => [...WARNINGS_SEC.map((before) => due - before), due]).filter((at) => at > nowSec);
  }

  /** Has read the block, and nothing is due or under way, and whoever is to be warned was. */
  async function untilIdle({ number, timestampSec }: Head): Promise<void> {
    const untilMs = performance.now() + GIVE_UP_MS;
    for (;;) {
      const system = await ask<System>({ facilitatorUrl, apiKey }, "/operator/system");
      // By its own word of what it has read: how far it thinks that it is behind says nothing of blocks it has not heard of.
      const hasRead = system.chain.applied >= number && (system.warnedUntil ?? 0) + WARNED_WITHIN_SEC >= timestampSec;
      if (hasRead && system.renewalsDue + system.renewalsUnderWay === 0) return;
      if (performance.now() > untilMs) throw new Error("The Facilitator does not catch up with the clock.");
      const pending =
        system.renewalsUnderWay > 0 ? ((await chain.send("eth_pendingTransactions", [])) as unknown[]) : [];
      // Nobody has to wait for the block that collects it.
      if (pending.length > 0) await mine();
      else await new Promise((resolve) => setTimeout(resolve, LOOK_MS));
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

/** The next moment at which something may happen. */
function nextOf(moments: readonly number[], nowSec: number): number {
  const first = Math.min(...moments, nowSec + 30 * DAY_SEC);
  // What falls due within minutes is one step: subscriptions of one afternoon renew together.
  return Math.max(first, ...moments.filter((at) => at <= first + TOGETHER_SEC));
}

interface Head {
  readonly number: number;
  readonly timestampSec: number;
}

async function headOf(chain: JsonRpcProvider): Promise<Head> {
  const block = (await chain.send("eth_getBlockByNumber", ["latest", false])) as { number: string; timestamp: string };
  return { number: Number(block.number), timestampSec: Number(block.timestamp) };
}
