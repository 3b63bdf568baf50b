/** Prints what happens, for a reader who is new to the project: requests, transactions, gas and balances. */
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

/**
 * @param accounts whose balances are printed, by name
 * @param signal when it is aborted, printing stops and the next step does not begin
 * @param steps counts those of the walk's other narrators, too
 */
export function createNarrator(
  world: World,
  accounts: () => Readonly<Record<string, string>>,
  signal: AbortSignal = new AbortController().signal,
  steps: StepCounter = { started: 0 },
): Narrator {
  const failures: string[] = [];
  const say = (line: string): void => {
    if (!signal.aborted) process.stdout.write(`${line}\n`);
  };

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
    say(`   -> ${withShortHex(request)}\n   <- ${withShortHex(answer)}`);
  };
  const printRepeats = (): void => {
    if (repeats > 0) say(`      (the same ${repeats} ${repeats === 1 ? "time" : "times"} more)`);
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
      say(`\n${number}. ${title}\n   ${about}`);
      const from = await world.chain.provider.getBlockNumber();
      const before = await balances(world, accounts());
      try {
        await act();
        printRepeats();
        say("   ok");
      } catch (error) {
        signal.throwIfAborted();
        printRepeats();
        const message = error instanceof Error ? error.message : String(error);
        failures.push(`${number}. ${title}: ${message}`);
        say(`   NOT AS IT MUST BE: ${message}`);
        if (!(error instanceof Unexpected) && error instanceof Error) say(`   ${error.stack ?? ""}`);
      }
      for (const line of await transactionsSince(world, from)) say(`   chain: ${line}`);
      for (const line of changes(before, await balances(world, accounts()))) say(`   balance: ${line}`);
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

function changes(before: Balances, after: Balances): string[] {
  return Object.entries(after)
    .filter(([name, balance]) => before[name] !== undefined && before[name] !== balance)
    .map(([name, balance]) => `${name} ${units(before[name])} -> ${units(balance)} tUSD`);
}
