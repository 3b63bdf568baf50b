/** What commands print of a subscription: everything but its id, which is a credential. */
import type { Subscription } from "../../agent";
import { shownMoney } from "../money";
import { safeLine } from "../text";
import { periodText } from "./quote";

/** Returns a subscription without its id: anyone who has the id is served. */
export function shownSubscription({ id: _credential, ...shown }: Subscription): Omit<Subscription, "id"> {
  return shown;
}

/** Writes a subscription for people. */
export function subscriptionLines(subscription: Subscription): string[] {
  const { idHash, planId, status, amount, intervalSec, months, network, payTo } = subscription;
  const { maxOverage, remaining, paidThroughSec, untilSec, ending, origins } = subscription;
  const period = months > 0 ? `${months} ${months === 1 ? "month" : "months"}` : periodText(intervalSec);
  const ends = ending ? ", ends then" : untilSec === undefined ? "" : `, ends ${timeText(untilSec)}`;
  return [
    `subscription ${idHash}: ${status}`,
    `  plan ${planId}, ${shownMoney(amount)} every ${period} to ${payTo} on ${safeLine(network)}`,
    `  paid through ${timeText(paidThroughSec)}${ends}`,
    ...(maxOverage > 0n ? [`  overage: ${shownMoney(remaining)} left of ${shownMoney(maxOverage)}`] : []),
    ...(origins.length > 0 ? [`  used at ${safeLine(origins.join(", "))}`] : []),
  ];
}

/** Writes a time, unix seconds, in UTC. */
export const timeText = (sec: number): string => `${new Date(sec * 1_000).toISOString().slice(0, 19)}Z`;
