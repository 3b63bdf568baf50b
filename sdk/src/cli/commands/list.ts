import type { PaymentView } from "../../agent";
import type { Command } from "../command";
import { EXIT_CODES } from "../exit-codes";
import { shownMoney } from "../money";
import { BUDGET_FLAGS, ledgerFile, policyWithoutPayment, withAgent } from "../open-agent";
import { safeLine } from "../text";
import { shownSubscription, subscriptionLines, timeText } from "./shown-subscription";

/** The command `list`. */
export const listCommand: Command = {
  name: "list",
  summary: "list the ledger's live subscriptions, as the chain has them, and its payments",
  words: [],
  flags: { policy: BUDGET_FLAGS.policy, payments: { about: "list the payments alone; asks no server" } },
  examples: ["npx turnpike list", "npx turnpike list --payments --json"],
  async run(context) {
    const { args, output, io } = context;
    const policy = await policyWithoutPayment(context);
    return withAgent(context, policy, async (agent) => {
      const subscriptions = args.has("payments") ? [] : await agent.list();
      for (const { id } of subscriptions) output.hide(id);
      const payments = await agent.payments();
      const lines = [...subscriptions.flatMap(subscriptionLines), ...payments.map(paymentLine)];
      if (lines.length === 0) output.note(`The ledger ${ledgerFile(io)} holds nothing.`);
      output.result({ subscriptions: subscriptions.map(shownSubscription), payments }, lines);
      return EXIT_CODES.done.code;
    });
  },
};

function paymentLine({ atSec, state, amount, payTo, network, resource }: PaymentView): string {
  return `payment ${timeText(atSec)} ${state}: ${shownMoney(amount)} to ${payTo} on ${safeLine(network)} for ${safeLine(resource)}`;
}
