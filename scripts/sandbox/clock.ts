/**
 * Moves the chain's time forward in steps. After each step it waits until the Facilitator has processed what became
 * due. Renewals, dunning and webhooks therefore happen as they would over the months.
 */
import { JsonRpcProvider } from "ethers";
import type { SubscriberListWire, System } from "turnpike/facilitator";
import { oneShot } from "./one-shot";

export interface ClockOptions {
  readonly rpcUrl: string;
  readonly facilitatorUrl: string;
  /** of the chain */
  readonly network: string;
  readonly apiKey: string;
  /** Called before time passes, for work that must be reported or charged at its own time. */
  beforeStep(): Promise<void>;
}

const DAY_SEC = 86_400;

/** How long before a renewal a payer that cannot pay it is warned. */
const WARNINGS_SEC = [3 * DAY_SEC, DAY_SEC] as const;

const TOGETHER_SEC = 1_800;

/** The interval of the search for warnings; each moment is checked once. */
const WARNED_WITHIN_SEC = 60;

const LOOK_MS = 40;

const GIVE_UP_MS = 60_000;

export async function advance({ rpcUrl, beforeStep, ...asked }: ClockOptions, seconds: number): Promise<void> {
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

  /**
   * What follows a block is processed with the next one. Both are mined at once, because their real time does not pass.
   */
  async function mine(): Promise<void> {
    await chain.send("evm_mine", []);
    await chain.send("evm_mine", []);
  }

  /** Returns the times of renewals and their warnings, and of retries and changes of state after failures. */
  async function momentsAfter(nowSec: number): Promise<number[]> {
    const [subscriptions, { nextRenewalAt }] = await Promise.all([
      subscriptionsOf(asked),
      ask<System>(asked, "/operator/system"),
    ]);
    const coming = subscriptions.filter(({ status }) => status === "ACTIVE").map(({ paidThrough }) => paidThrough);
    if (nextRenewalAt !== undefined) coming.push(nextRenewalAt);
    return coming.flatMap((due) => [...WARNINGS_SEC.map((before) => due - before), due]).filter((at) => at > nowSec);
  }

  /** The block is indexed, nothing is due or pending, and every due warning was emitted. */
  async function untilIdle({ number, timestampSec }: Head): Promise<void> {
    const untilMs = performance.now() + GIVE_UP_MS;
    for (;;) {
      const system = await ask<System>(asked, "/operator/system");
      // Uses the block that the Facilitator reports as read: its lag says nothing of blocks that it does not know.
      const hasRead = system.chain.applied >= number && (system.warnedUntil ?? 0) + WARNED_WITHIN_SEC >= timestampSec;
      if (hasRead && system.renewalsDue + system.renewalsUnderWay === 0) return;
      if (performance.now() > untilMs) throw new Error("The Facilitator does not catch up with the clock.");
      const pending =
        system.renewalsUnderWay > 0 ? await chain.send("eth_getBlockTransactionCountByNumber", ["pending"]) : 0;
      // Nobody has to wait for the block that collects it.
      if (Number(pending) > 0) await mine();
      else await new Promise((resolve) => setTimeout(resolve, LOOK_MS));
    }
  }
}

type Asked = Pick<ClockOptions, "facilitatorUrl" | "network" | "apiKey">;

export async function subscriptionsOf(asked: Asked): Promise<SubscriberListWire["subscriptions"]> {
  return (await ask<SubscriberListWire>(asked, "/analytics/subscriptions", { limit: "200" })).subscriptions;
}

/** Uses the key of the sandbox's provider, who is also its operator. */
async function ask<T>(
  { facilitatorUrl, network, apiKey }: Asked,
  path: string,
  query: Readonly<Record<string, string>> = {},
): Promise<T> {
  const url = `${facilitatorUrl}${path}?${new URLSearchParams({ network, ...query })}`;
  const answer = await fetch(url, { headers: { authorization: `Bearer ${apiKey}` } });
  if (!answer.ok) throw new Error(`The Facilitator answers ${path} with HTTP ${answer.status}.`);
  return (await answer.json()) as T;
}

/** Returns the time of the newest block, unix seconds. */
export async function chainTime({ rpcUrl }: Pick<ClockOptions, "rpcUrl">): Promise<number> {
  const chain = new JsonRpcProvider(oneShot(rpcUrl), undefined, { batchMaxCount: 1, cacheTimeout: -1 });
  try {
    return (await headOf(chain)).timestampSec;
  } finally {
    chain.destroy();
  }
}

/** Returns the next time at which something can happen. */
function nextOf(moments: readonly number[], nowSec: number): number {
  const first = Math.min(...moments, nowSec + 30 * DAY_SEC);
  // Due times within minutes make one step: subscriptions of one afternoon renew together.
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
