/**
 * Prints what happens, for a reader who is new to the project: a row for each step, with what was answered, what moved
 * and the gas. A step that fails is shown whole, as all are when asked for: requests, transactions, gas and balances.
 */
import { styleText } from "node:util";
import { HEADER, isPlanEntry, type PaymentRequiredWire } from "turnpike/protocol";
import { transactionsSince } from "./transactions";
import { shortened, units, withoutHex, withShortHex } from "./wording";
import type { World } from "./world";

export interface Narrator {
  /** A fetch that prints every request and response. */
  readonly fetch: typeof fetch;
  say(line: string): void;
  /** Prints the error that a step provokes. */
  sayError(error: unknown): void;
  /** Runs one step and prints its title, events, transactions and changed balances. */
  step(title: string, about: string, act: () => Promise<void>): Promise<void>;
  readonly failures: readonly string[];
}

/** Counts the steps of a walk; its narrators share it. */
export interface StepCounter {
  started: number;
}

/** Thrown when a result is not as expected. */
export class Unexpected extends Error {
  override readonly name = "Unexpected";
}

export function mustBe<T>(actual: T, expected: T, what: string): void {
  if (actual !== expected) throw new Unexpected(`${what} must be ${String(expected)}, and is ${String(actual)}`);
}

const SECRET_HEADERS: readonly string[] = [HEADER.payment, HEADER.subscription, HEADER.paymentSignatureV2];

const MAX_BODY = 220;

export interface NarratorOptions {
  /** when it is aborted, printing stops and the next step does not begin */
  readonly signal?: AbortSignal;
  /** counts those of the walk's other narrators, too */
  readonly steps?: StepCounter;
  /** shows every step whole */
  readonly isVerbose?: boolean;
}

/** Widths of a row's columns. */
const TITLE = 54;
const ANSWERS = 16;
const MOVED = 32;

const isColoured = process.stdout.isTTY === true && !process.env.NO_COLOR;

const styled = (style: "green" | "red" | "dim" | "bold", text: string): string =>
  isColoured ? styleText(style, text) : text;

const rowOf = (sign: string, [number, title, answers, moved, gas]: readonly string[]): string =>
  `${sign} ${(number ?? "").padStart(2)}  ${(title ?? "").padEnd(TITLE)}  ${(answers ?? "").padEnd(ANSWERS)}  ${(moved ?? "").padEnd(MOVED)} ${(gas ?? "").padStart(9)}`;

/** @param accounts whose balances are printed, by name */
export function createNarrator(
  world: World,
  accounts: () => Readonly<Record<string, string>>,
  { signal = new AbortController().signal, steps = { started: 0 }, isVerbose = false }: NarratorOptions = {},
): Narrator {
  const failures: string[] = [];
  const print = (line: string): void => {
    if (!signal.aborted) process.stdout.write(`${line}\n`);
  };
  /** lines of the step that runs; its details are printed where it is shown whole */
  let ofStep: { readonly line: string; readonly isDetail: boolean }[] | undefined;
  let answers: number[] = [];
  const put = (line: string, isDetail: boolean): void => {
    if (ofStep && !isVerbose) ofStep.push({ line, isDetail });
    else print(line);
  };
  const say = (line: string): void => put(line, false);
  const detail = (line: string): void => put(line, true);

  // An exchange is printed when it completes, so that simultaneous ones do not mix; repetitions are only counted.
  let last = "";
  let repeats = 0;
  const printExchange = (request: string, answer: string): void => {
    const exchange = withoutHex(`${request} ${answer}`);
    if (exchange === last) {
      repeats += 1;
      return;
    }
    printRepeats();
    last = exchange;
    detail(`   -> ${withShortHex(request)}\n   <- ${withShortHex(answer)}`);
  };
  const printRepeats = (): void => {
    if (repeats > 0) detail(`      (the same ${repeats} ${repeats === 1 ? "time" : "times"} more)`);
    last = "";
    repeats = 0;
  };

  const telling: typeof fetch = async (input, init) => {
    const request = new Request(input, init);
    // What an agent asks its own node is no part of the payment.
    if (request.url.startsWith(world.chain.rpcUrl)) return fetch(input, init);
    const shown = [...SECRET_HEADERS, HEADER.idempotencyKey]
      .filter((name) => request.headers.has(name))
      .map((name) => `  ${name}: ${shortened(request.headers.get(name) ?? "")}`);
    const line = `${request.method} ${request.url}${shown.join("")}`;
    try {
      const response = await fetch(input, init);
      if (!request.url.startsWith(world.facilitator.url)) answers.push(response.status);
      printExchange(line, `${response.status} ${await summaryOf(world, response.clone())}`);
      return response;
    } catch (error) {
      printExchange(line, "no answer");
      throw error;
    }
  };

  return {
    fetch: telling,
    say,
    sayError(error) {
      const { code, message } = error as { code?: string; message?: string };
      if (message !== undefined) say(`   error ${code}: ${withShortHex(message)}`);
    },
    failures,
    async step(title, about, act) {
      signal.throwIfAborted();
      const number = ++steps.started;
      if (number === 1 && !isVerbose)
        print(styled("bold", `\n${rowOf(" ", ["", "step", "answers", "received, tUSD", "gas"])}`));
      ofStep = [];
      answers = [];
      detail(`\n${number}. ${title}\n   ${about}`);
      const from = await world.chain.provider.getBlockNumber();
      const before = await balances(world, accounts());
      try {
        await act();
        printRepeats();
        detail("   ok");
      } catch (error) {
        signal.throwIfAborted();
        printRepeats();
        const message = error instanceof Error ? error.message : String(error);
        failures.push(`${number}. ${title}: ${message}`);
        say(`   NOT AS IT MUST BE: ${message}`);
        if (!(error instanceof Unexpected) && error instanceof Error) say(`   ${error.stack ?? ""}`);
      }
      const mined = await transactionsSince(world, from);
      for (const { line } of mined) detail(`   chain: ${line}`);
      const changed = changesOf(before, await balances(world, accounts()));
      for (const { name, was, is } of changed) detail(`   balance: ${name} ${units(was)} -> ${units(is)} tUSD`);
      const lines = ofStep;
      ofStep = undefined;
      if (isVerbose) return;
      const hasFailed = failures.some((failure) => failure.startsWith(`${number}. `));
      const received = changed
        .filter(({ was, is }) => is > was)
        .map(({ name, was, is }) => `${name} ${units(is - was)}`);
      const gas = mined.reduce((sum, one) => sum + one.gas, 0n);
      const columns = [
        String(number),
        title,
        inRuns(answers),
        received.join(", "),
        gas ? gas.toLocaleString("en") : "",
      ];
      print(rowOf(hasFailed ? styled("red", "✘") : styled("green", "✔"), columns));
      for (const { line, isDetail } of lines) if (hasFailed || !isDetail) print(line);
    },
  };
}

/** Prints a 402 as its options and an error as its message; any other body as it is, cut to a line. */
async function summaryOf(world: World, response: Response): Promise<string> {
  const text = await response.text();
  const cut = (line: string) => (line.length > MAX_BODY ? `${line.slice(0, MAX_BODY)}...` : line);
  const body = parsed(text);
  if (response.status === 402 && Array.isArray(body.accepts))
    return optionsOf(world, body as unknown as PaymentRequiredWire);
  if (response.status >= 400) return cut(`${body.code ?? body.error}: ${body.message}`);
  return cut(withShortHex(text).replace(/\s+/g, " "));
}

function optionsOf({ plans: known }: World, { accepts, plans = [], error, reason }: PaymentRequiredWire): string {
  const nameOf = (planId: string) => Object.entries(known).find(([, id]) => id === planId)?.[0] ?? shortened(planId);
  const once = accepts.filter((entry) => !isPlanEntry(entry));
  const options = [
    ...once.map(({ scheme, amount }) => (scheme === "upto" ? `at most ${units(amount)}` : `${units(amount)} once`)),
    ...plans.map(
      ({ amount, interval, planId }) => `${units(amount)} per ${interval / 86_400} days (plan ${nameOf(planId)})`,
    ),
  ];
  return `${[error, reason].filter(Boolean).join("/")}: pay ${options.join(", or ")}`;
}

function parsed(text: string): Record<string, unknown> {
  try {
    return JSON.parse(text) as Record<string, unknown>;
  } catch {
    return { message: text };
  }
}

type Balances = Readonly<Record<string, bigint>>;

async function balances({ contracts }: World, accounts: Readonly<Record<string, string>>): Promise<Balances> {
  const entries = Object.entries(accounts).map(
    async ([name, account]) => [name, await contracts.balanceOf(account)] as const,
  );
  return Object.fromEntries(await Promise.all(entries));
}

function changesOf(before: Balances, after: Balances) {
  return Object.entries(after).flatMap(([name, is]) => {
    const was = before[name];
    return was === undefined || was === is ? [] : [{ name, was, is }];
  });
}

/** Writes statuses with the number of times that each came in turn: "402 200x10". */
function inRuns(statuses: readonly number[]): string {
  const runs: { status: number; times: number }[] = [];
  for (const status of statuses) {
    const last = runs.at(-1);
    if (last?.status === status) last.times += 1;
    else runs.push({ status, times: 1 });
  }
  return runs.map(({ status, times }) => (times === 1 ? `${status}` : `${status}x${times}`)).join(" ");
}
