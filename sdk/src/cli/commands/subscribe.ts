import { isHash32 } from "../../protocol";
import type { Command } from "../command";
import { UsageError } from "../command-errors";
import { EXIT_CODES } from "../exit-codes";
import { readMoney } from "../money";
import { BUDGET_FLAGS, requireBudget, withAgent } from "../open-agent";
import { readUrl, URL_WORD } from "./request";
import { shownSubscription, subscriptionLines } from "./shown-subscription";

/** The command `subscribe`. */
export const subscribeCommand: Command = {
  name: "subscribe",
  summary: "sign up for a plan that a URL offers, and pay its first period",
  words: [URL_WORD],
  flags: {
    ...BUDGET_FLAGS,
    max: {
      value: "AMOUNT",
      about: "the most that one period may cost, its overage cap included; required without a policy file",
    },
    plan: { value: "PLAN_ID", about: "the plan; default: the cheapest that the URL offers", isHash: true },
    "max-overage": { value: "AMOUNT", about: "the cap of metered overage in one period; default: none" },
    until: { value: "TIME", about: "end the subscription then: a date such as 2027-01-31 or unix seconds" },
    periods: { value: "NUMBER", about: "how many periods the token approval covers; default 12" },
  },
  examples: [
    "npx turnpike subscribe https://api.example/report --max 10.00",
    "npx turnpike subscribe https://api.example/complete --max 15.00 --max-overage 5.00 --until 2027-01-31",
  ],
  async run(context) {
    const { args, output, io } = context;
    const url = readUrl(args.word("URL"));
    const plan = args.value("plan");
    if (plan !== undefined && !isHash32(plan)) {
      throw new UsageError(
        "--plan is no plan id.",
        "A plan id is 0x and 64 hex digits; `npx turnpike quote URL` lists them.",
      );
    }
    const overage = args.value("max-overage");
    const until = untilOf(args.value("until"));
    const periods = periodsOf(args.value("periods"));
    const { policy } = await requireBudget(context);
    return withAgent(context, policy, async (agent) => {
      const subscription = await agent.subscribe({
        url,
        ...(plan !== undefined && { planId: plan }),
        ...(overage !== undefined && { maxOverage: readMoney(overage, "max-overage") }),
        ...(until !== undefined && { until }),
        ...(periods !== undefined && { periods }),
      });
      // Anyone who has the id is served.
      output.hide(subscription.id);
      if (subscription.existing) output.note("You have this subscription already: nothing was bought.");
      output.result(shownSubscription(subscription), subscriptionLines(subscription));
      if (!io.signal.aborted) output.note("Use it with `npx turnpike pay URL --subscription`.");
      return EXIT_CODES.done.code;
    });
  },
};

function untilOf(text: string | undefined): Date | number | undefined {
  if (text === undefined) return undefined;
  if (/^[0-9]{9,11}$/.test(text)) return Number(text);
  const date = /^\d{4}-\d{2}-\d{2}/.test(text) ? new Date(text) : new Date(Number.NaN);
  if (!Number.isNaN(date.getTime())) return date;
  throw new UsageError("--until is no time.", "Write it as 2027-01-31, as 2027-01-31T12:00:00Z, or as unix seconds.");
}

function periodsOf(text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  if (/^[1-9][0-9]{0,3}$/.test(text)) return Number(text);
  throw new UsageError("--periods is no whole number from 1 on.", "Write it as --periods 12.");
}
