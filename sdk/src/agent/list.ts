/** What the agent is subscribed to, as the chain has it now, and where each subscription may be used. */
import type { AgentContext } from "./context";
import type { SubscriptionEntry } from "./ledger";
import { originsOf } from "./recover";
import { entryOf, type Subscription, type SubscriptionRef, stateOnChain, viewOf } from "./subscription";

/** Everything the ledger holds that has not ended, as the chain has it now. With an RPC it needs no Facilitator. */
export async function list(context: AgentContext): Promise<Subscription[]> {
  const book = await context.book();
  const views: Subscription[] = [];
  for (const entry of book.subscriptions()) {
    if (entry.state === "ended") continue;
    const state = await stateOnChain(context, entry);
    if (!state) continue;
    const { signup: _done, ...kept } = entry;
    const now: SubscriptionEntry = {
      ...kept,
      state: state.status === "CANCELLED" ? "ended" : "live",
      cap: state.allowance.cap.toString(),
    };
    if (now.state !== entry.state || now.cap !== entry.cap) await book.put(now);
    views.push(await viewOf(context, now, state));
  }
  return views;
}

export async function addOrigins(
  context: AgentContext,
  ref: SubscriptionRef,
  origins: readonly string[],
): Promise<readonly string[]> {
  const book = await context.book();
  const entry = entryOf(book, ref);
  const merged = { ...entry, origins: [...new Set([...entry.origins, ...originsOf(origins)])] };
  await book.put(merged);
  return merged.origins;
}
