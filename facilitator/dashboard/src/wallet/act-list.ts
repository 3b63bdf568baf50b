/** What a provider's wallet can do, each by the address of its page under `/acts/`. */
const act = (group: "Plans" | "Customers" | "Keys", title: string, about: string) => ({ group, title, about });

export const ACTS = {
  "create-plan": act(
    "Plans",
    "Create a plan",
    "Its price and period never change: to change them, create another plan.",
  ),
  "deprecate-plan": act(
    "Plans",
    "Deprecate a plan",
    "Final: nobody can subscribe to it any more. Its subscriptions go on.",
  ),
  "stop-plan": act(
    "Plans",
    "Stop a plan",
    "Final: it charges nothing any more, and each subscription ends with its paid period.",
  ),
  "change-payee": act(
    "Plans",
    "Change a plan's payee",
    "A proposal can be applied after seven days, by anyone; at once if the present payee proposes the same.",
  ),
  "grant-right": act(
    "Plans",
    "Grant or revoke a right",
    "Gives one account one right on one plan, in place of those that it had. Debits by this service need the right for its relayers.",
  ),
  "end-subscription": act(
    "Customers",
    "End a subscription at its period's end",
    "It is served until then and charged for no further period.",
  ),
  voucher: act(
    "Customers",
    "Make a voucher for one customer",
    "Offers one customer another first period, such as a trial. Its agent asks for it with its address and the hash of its secret.",
  ),
  "make-key": act("Keys", "Make an API key", "For your programs. Only your wallet makes one; this tab's key cannot."),
  keys: act("Keys", "Keys and audit log", "Opened by one signature, for ten minutes."),
} as const;

export type ActId = keyof typeof ACTS;

/** @param about fills in the fields of those names */
export const actAt = (id: ActId, about: Readonly<Record<string, string>> = {}): string =>
  `#/acts/${id}${Object.keys(about).length === 0 ? "" : `?${new URLSearchParams(about)}`}`;
