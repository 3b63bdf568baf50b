import { access, constants, stat, writeFile } from "node:fs/promises";
import { dirname, resolve } from "node:path";
import { type Agent, type PaymentReceipt, receiptOf } from "../../agent";
import { PolicyRefused, ReceiptRejected } from "../../protocol";
import type { Command, CommandContext } from "../command";
import { CommandFailed, UsageError } from "../command-errors";
import { EXIT_CODES } from "../exit-codes";
import { shownMoney } from "../money";
import { BUDGET_FLAGS, type Budget, policyWithoutPayment, requireBudget, withAgent } from "../open-agent";
import { safeLine } from "../text";
import { REQUEST_FLAGS, type Requested, readRequest, URL_WORD } from "./request";

/** The command `pay`. */
export const payCommand: Command = {
  name: "pay",
  summary: "request a URL and pay for it, once, within --max and the policy",
  words: [URL_WORD],
  flags: {
    ...BUDGET_FLAGS,
    ...REQUEST_FLAGS,
    purchase: {
      value: "NAME",
      about: "a name of your choice for this purchase: the same name never pays twice for the same request",
    },
    subscription: { about: "use a subscription of the ledger, and pay nothing" },
    output: { value: "FILE", about: "write the answer's body to a file, byte for byte" },
  },
  examples: [
    "npx turnpike pay https://api.example/quote --max 0.10",
    'npx turnpike pay https://api.example/jobs --max 1.00 --data \'{"size": 3}\' --header "Content-Type: application/json"',
    "npx turnpike pay https://api.example/report --subscription --output report.pdf",
  ],
  async run(context) {
    const { args, io } = context;
    const request = await readRequest(context);
    const isFree = args.has("subscription");
    if (isFree && args.has("max")) {
      throw new UsageError("--subscription pays nothing, so --max has no use.", "Give one of the two.");
    }
    const budget = isFree ? { policy: await policyWithoutPayment(context), max: 0n } : await requireBudget(context);
    const file =
      args.value("output") === undefined ? undefined : await writableFile(io.cwd, args.value("output") ?? "");
    return withAgent(context, budget.policy, async (agent) => {
      const answer = isFree
        ? { response: await agent.fetch(request.url, { ...request.init, maxAmount: 0n, signal: io.signal }) }
        : await payWithin(context, agent, { request, budget }).catch(answerWithoutReceipt);
      return show(context, answer, { isFree, file });
    });
  },
};

interface PaidAnswer {
  readonly response: Response;
  /** why it is no success: the policy requires a signed receipt */
  readonly receiptFault?: string;
}

/** Returns the answer that was paid for: it does not come again. @throws every other error */
function answerWithoutReceipt(error: unknown): PaidAnswer {
  // Not by instanceof: libraries replace the global Response.
  if (error instanceof ReceiptRejected && error.response !== undefined) {
    return { response: error.response as Response, receiptFault: error.message };
  }
  throw error;
}

interface Purchase {
  readonly request: Requested;
  readonly budget: Budget;
}

async function payWithin(
  { args, io }: CommandContext,
  agent: Agent,
  { request: { url, init }, budget: { max } }: Purchase,
): Promise<PaidAnswer> {
  await refuseDearerLeftover(agent, url, max);
  const purchase = args.value("purchase");
  const response = await agent.pay(url, {
    ...init,
    signal: io.signal,
    ...(max !== undefined && { maxAmount: max }),
    ...(purchase !== undefined && { idempotencyKey: purchase }),
  });
  return { response };
}

/** An unfinished payment of an earlier run is presented again, so its amount is compared with this run's limit too. */
async function refuseDearerLeftover(agent: Agent, url: string, max: bigint | undefined): Promise<void> {
  if (max === undefined) return;
  const isOpen = (state: string) => state === "signed" || state === "settled";
  const held = (await agent.payments()).find(
    ({ resource, state, amount }) => resource === url && isOpen(state) && amount > max,
  );
  if (!held) return;
  throw new PolicyRefused(
    `An earlier command signed ${shownMoney(held.amount)} for this URL and has not got its answer; that is above --max, which is ${shownMoney(max)}.`,
    { reason: "max_amount" },
  );
}

/** Checks before anything is paid that the answer can be written. @throws UsageError */
async function writableFile(cwd: string, name: string): Promise<string> {
  const file = resolve(cwd, name);
  const isFolder = await stat(file).then(
    (found) => found.isDirectory(),
    () => false,
  );
  const isWritable = await access(dirname(file), constants.W_OK).then(
    () => true,
    () => false,
  );
  if (!isFolder && isWritable) return file;
  throw new UsageError(
    `The file ${file} of --output cannot be written.`,
    "Name a file in a folder that you can write to.",
  );
}

/** @throws CommandFailed when the answer breaks off, which a repeated command would not continue */
async function bodyOf(response: Response, receipt: PaymentReceipt | undefined): Promise<Uint8Array> {
  try {
    return new Uint8Array(await response.arrayBuffer());
  } catch (error) {
    if (!receipt) throw error;
    throw new CommandFailed(
      `The server broke off its answer after it was paid (payment ${receipt.paymentId}).`,
      "Repeating the command is a new purchase, unless --purchase NAME was given. Ask the provider for its answer.",
      error,
    );
  }
}

interface Shown {
  readonly isFree: boolean;
  readonly file: string | undefined;
}

async function show(
  { output }: CommandContext,
  { response, receiptFault }: PaidAnswer,
  { isFree, file }: Shown,
): Promise<number> {
  const receipt = receiptOf(response);
  const bytes = await bodyOf(response, receipt);
  if (file !== undefined) await writeFile(file, bytes);
  const { status } = response;
  const text = file === undefined ? new TextDecoder().decode(bytes) : undefined;
  const body = text === undefined ? { file, bytes: bytes.length } : { body: text };
  output.note(summaryOf(status, receipt, isFree));
  const paid = { paid: receipt !== undefined, ...(receipt && { receipt }) };
  output.result({ status, ...paid, ...(receiptFault !== undefined && { receiptFault }), ...body }, text ? [text] : []);
  if (receiptFault !== undefined) {
    output.note(`error: ${safeLine(receiptFault)} (ReceiptRejected)`);
    return EXIT_CODES.failed.code;
  }
  if (status === 402 && isFree) return EXIT_CODES.refused.code;
  return response.ok ? EXIT_CODES.done.code : EXIT_CODES.failed.code;
}

function summaryOf(status: number, receipt: PaymentReceipt | undefined, isFree: boolean): string {
  if (!receipt) {
    const why =
      status === 402 && isFree ? " No subscription of the ledger is served here: `npx turnpike list` shows them." : "";
    return `HTTP ${status}; nothing was paid.${why}`;
  }
  const { amount, method, payTo, network, transaction, resumed } = receipt;
  const how = `${resumed ? "paid by an earlier command" : "paid"} ${method === "upto" ? "at most " : ""}${shownMoney(amount)}`;
  const where = transaction === undefined ? "" : `, transaction ${transaction}`;
  return `HTTP ${status}; ${how} to ${payTo} on ${safeLine(network)}${where}`;
}
