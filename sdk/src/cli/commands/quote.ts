import type { PriceOption, PriceQuote } from "../../agent";
import { UINT256_MAX } from "../../protocol";
import type { Command } from "../command";
import { EXIT_CODES } from "../exit-codes";
import { shownMoney } from "../money";
import { BUDGET_FLAGS, readBudget, withPriceReader } from "../open-agent";
import { remedyOfReason } from "../remedies";
import { safeLine } from "../text";
import { REQUEST_FLAGS, readRequest, URL_WORD } from "./request";

/** The command `quote`. */
export const quoteCommand: Command = {
  name: "quote",
  summary: "show what a URL costs, every way that it offers; signs and pays nothing",
  words: [URL_WORD],
  flags: {
    ...REQUEST_FLAGS,
    max: { value: "AMOUNT", about: "judge the offers by this limit, as `pay --max` would" },
    policy: BUDGET_FLAGS.policy,
  },
  examples: ["npx turnpike quote https://api.example/report"],
  async run(context) {
    const { output } = context;
    const { url, init } = await readRequest(context);
    const budget = await readBudget(context);
    const policy = budget?.policy ?? { perPayment: UINT256_MAX, perDay: UINT256_MAX };
    const quote = await withPriceReader(context, policy, (agent) =>
      agent.quote(url, { ...init, signal: context.io.signal }),
    );
    output.result(quote, linesOf(quote, budget !== undefined));
    return quote.status === 402 || quote.status < 300 ? EXIT_CODES.done.code : EXIT_CODES.failed.code;
  },
};

/** @param isLimited by `--max` or a policy file */
function linesOf(quote: PriceQuote, isLimited: boolean): string[] {
  const { url, method, status, options, refusals } = quote;
  const first = `${method} ${safeLine(url)}`;
  if (status >= 300 && status < 400) {
    return [
      first,
      `The server redirects (HTTP ${status}) to another origin. Ask for the price of that URL if you trust it.`,
    ];
  }
  if (status !== 402) return [first, `The server asks for no payment: it answers HTTP ${status}.`];
  const lines = options.flatMap((option) => optionLines(option, isLimited));
  const left = refusals.length === 0 ? [] : [`Offers that cannot be read: ${safeLine(refusals.join(", "))}`];
  if (lines.length > 0) return [first, ...lines, ...left];
  return [
    first,
    "The server asks for payment without terms that can be understood; see `npx turnpike validate`.",
    ...left,
  ];
}

function optionLines(option: PriceOption, isLimited: boolean): string[] {
  const { kind, amount, network, token, verdict, reason } = option;
  const command = kind === "one-time" ? "pay" : "subscribe";
  const allowed = isLimited ? "allowed" : `none; \`${command}\` needs --max or a policy file`;
  const judged = verdict === "allow" ? allowed : `${verdict}${reason === undefined ? "" : `: ${safeLine(reason)}`}`;
  const remedy = verdict === "allow" ? undefined : remedyOfReason(reason);
  const facts = [`  token ${token} on ${safeLine(network)}`, `  your limits: ${judged}`];
  if (remedy !== undefined) facts.push(`    ${remedy}`);
  if (option.kind === "one-time") {
    const upTo = option.method === "upto" ? "at most " : "";
    return [
      `${kind}: ${upTo}${shownMoney(amount)} for one request`,
      `  to ${option.payTo}, by ${option.method}`,
      ...facts,
    ];
  }
  const { planId, name, intervalSec, verified } = option;
  return [
    `${kind}: ${shownMoney(amount)} every ${periodText(intervalSec)}`,
    `  plan ${planId}${name === undefined ? "" : `, "${safeLine(name)}"`}${verified ? "" : ", terms not proven"}`,
    ...facts,
  ];
}

const DAY_SEC = 86_400;

/** Writes a period for people: "30 days" or "3600 seconds". */
export const periodText = (sec: number): string =>
  sec % DAY_SEC === 0 ? `${sec / DAY_SEC} ${sec === DAY_SEC ? "day" : "days"}` : `${sec} seconds`;
