/** Says in words why a contract refuses a call, by the selector of its error. */

/** By selector. test/agreement/wallet-calls.ts compares them with the ABI. */
export const REASONS: Readonly<Record<string, readonly [name: string, words: string]>> = {
  "0xf191a031": ["InvalidTerms", "one of the terms is not allowed"],
  "0x0fb403cb": ["UnknownPlan", "there is no such plan"],
  "0x4a4c1bc8": ["PlanExists", "the same plan exists already"],
  "0xc41a5749": ["PlanDeprecated", "the plan is deprecated already"],
  "0xa5c28892": ["PlanStopped", "the plan is stopped already"],
  "0xb02d653e": ["InvalidSuccessor", "the successor must be another open plan of yours in the same token"],
  "0x3a5187b5": ["NotProvider", "this account is not the plan's provider or payee"],
  "0x506e5258": ["NotProposed", "no other payee is proposed"],
  "0xd47800eb": ["TooEarly", "seven days have not passed since the payee was proposed"],
  "0x0fc88c3a": ["SubscriptionNotActive", "the subscription has ended already"],
  "0xd69030c2": ["NotSubscriber", "this account is neither the subscriber nor the plan's provider"],
};

/** Finds the selector of a contract's error in what a wallet throws: wallets nest it differently. */
export function reasonOf(error: unknown): string | undefined {
  const found = selectorIn(error, 0);
  if (found === undefined) return undefined;
  const [name, words] = REASONS[found] ?? ["", `for a reason that this page does not know (${found})`];
  return `The contract refuses this${name && ` (${name})`}: ${words}. Nothing was changed.`;
}

function selectorIn(value: unknown, depth: number): string | undefined {
  if (typeof value === "string") return /^0x[0-9a-f]{8}(?:[0-9a-f]{64})*$/.exec(value)?.[0].slice(0, 10);
  if (typeof value !== "object" || value === null || depth > 4) return undefined;
  const { data, error, originalError, result } = value as Record<string, unknown>;
  for (const inner of [data, originalError, error, result]) {
    const found = selectorIn(inner, depth + 1);
    if (found !== undefined) return found;
  }
  return undefined;
}
