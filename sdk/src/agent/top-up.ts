/** Raises token approvals before they run out, so that renewals go on without the agent. */
import type { AgentContext } from "./context";
import type { SubscriptionEntry } from "./ledger";
import { requirePeriods, type TopUp, withApproval } from "./permits";
import { isRefused, submit } from "./submit";
import { requireFacilitator } from "./subscription";

/** How far approvals are raised. */
export interface TopUpOptions {
  /** how many periods the approval should cover from now on; default: what each was subscribed with */
  readonly periods?: number;
  /** raise it to the whole even where it is not low; default false */
  readonly whole?: boolean;
}

/** Raises the token approvals that have become low, by permits that the Facilitator relays. */
export async function topUp(context: AgentContext, options: TopUpOptions = {}): Promise<TopUp[]> {
  const book = await context.book();
  if (options.periods !== undefined) {
    const periods = requirePeriods(options.periods);
    for (const entry of book.subscriptions()) if (entry.state === "live") await book.put({ ...entry, periods });
  }
  const owner = await context.signer.address();
  const groups = new Map<string, SubscriptionEntry>();
  for (const entry of book.subscriptions()) {
    if (entry.state === "live" && entry.subscriber === owner) groups.set(`${entry.chainId}:${entry.token}`, entry);
  }
  const topUps: TopUp[] = [];
  for (const entry of groups.values()) {
    const { token, chainId } = entry;
    const facilitator = requireFacilitator(context, entry.facilitator);
    const need = { book, facilitator, deployment: entry, token, when: options.whole ? "whole" : "low" } as const;
    const done = await withApproval(context, need, async ({ account, permit }) => {
      if (!permit) return { token, chainId, approval: account.approval, transaction: undefined };
      const request = { network: entry.network, token, owner, ...permit };
      const { outcome } = await submit(context.effects, {
        idHash: undefined,
        post: () => facilitator.client.permit(request),
      });
      if (isRefused(outcome)) throw outcome.error;
      const { approval, transaction } = outcome.permit;
      context.effects.emit({ type: "approval.topped_up", token, value: approval, transaction });
      return { token, chainId, approval, transaction };
    });
    topUps.push(done);
  }
  return topUps;
}
