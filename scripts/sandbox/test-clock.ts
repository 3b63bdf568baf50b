/** Serves the sandbox's part of the dashboard: its provider's key, and its clock, which runs one move at a time. */
import type { SubscriberListWire, TestClockState } from "turnpike/facilitator";
import type { Sandbox } from "../../facilitator/src/http/services";
import { advance, type ClockOptions, chainTime, subscriptionsOf } from "./clock";

/** Facts that are known only once the Facilitator runs. */
export interface SandboxFacts extends ClockOptions {
  readonly inboxUrl?: string | undefined;
}

/** @param facts not read before the Facilitator answers requests */
export function createSandboxControls(facts: () => SandboxFacts): Sandbox {
  let running: { nowSec: number; targetSec: number } | undefined;
  let problem: string | undefined;

  return {
    providerKey: () => facts().apiKey,

    async clock(): Promise<TestClockState> {
      const known = facts();
      const now = await chainTime(known);
      const nextRenewalAt = running ? undefined : nextOf(await subscriptionsOf(known), now);
      return {
        now,
        ...(running && { target: running.targetSec }),
        ...(nextRenewalAt !== undefined && { nextRenewalAt }),
        ...(problem !== undefined && { problem }),
        ...(known.inboxUrl && { inboxUrl: known.inboxUrl }),
      };
    },

    async advance(by) {
      if (running) return false;
      // Set before the first await, so that of two simultaneous requests one runs.
      running = { nowSec: 0, targetSec: 0 };
      problem = undefined;
      try {
        const known = facts();
        const nowSec = await chainTime(known);
        const seconds = "seconds" in by ? by.seconds : secondsToNext(await subscriptionsOf(known), nowSec);
        running = { nowSec, targetSec: nowSec + seconds };
        advance(known, seconds)
          .catch((error: unknown) => {
            problem = (error instanceof Error ? error.message : String(error)).slice(0, 256);
          })
          .finally(() => {
            running = undefined;
          });
        return true;
      } catch (error) {
        running = undefined;
        throw error;
      }
    },
  };
}

function nextOf(subscriptions: SubscriberListWire["subscriptions"], nowSec: number): number | undefined {
  const due = subscriptions.filter(({ status, paidThrough }) => status === "ACTIVE" && paidThrough > nowSec);
  return due.length === 0 ? undefined : Math.min(...due.map(({ paidThrough }) => paidThrough));
}

/** A day when nothing renews. */
function secondsToNext(subscriptions: SubscriberListWire["subscriptions"], nowSec: number): number {
  return (nextOf(subscriptions, nowSec) ?? nowSec + 86_400) - nowSec;
}
