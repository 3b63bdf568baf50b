import { open } from "node:fs/promises";
import { resolve } from "node:path";
import { describeFinding, type VerifiedAudit, verifyAudit } from "../../agent";
import { writeAudit } from "../../agent/file-ledger";
import type { Command, CommandContext } from "../command";
import { CommandFailed, UsageError } from "../command-errors";
import { variable } from "../environment";
import { EXIT_CODES } from "../exit-codes";
import { shownMoney } from "../money";
import { policyWithoutPayment, withAgent } from "../open-agent";
import { safeLine } from "../text";
import { timeText } from "./shown-subscription";

const MAX_FILE_BYTES = 256 * 1_024 * 1_024;

/** The command `audit`. It may write the file first. */
export const auditCommand: Command = {
  name: "audit",
  summary: "verify the audit of a metered bill: its signatures, the signers' rights and the debits, by the chain alone",
  words: [{ name: "FILE", about: "what an agent's audit has written" }],
  flags: {
    write: {
      about: "first write FILE: the audit of your own subscriptions. It needs TURNPIKE_RPC_URL",
    },
    "from-block": {
      value: "NUMBER",
      about: "with --write: the first block to read, before your first signup; default 0",
    },
    rpc: { value: "URL", about: "a JSON-RPC of the audit's chain; default TURNPIKE_RPC_URL" },
    contract: {
      value: "ADDRESS",
      about: "the Turnpike contract to accept; default TURNPIKE_ADDRESS, or the known one",
    },
  },
  examples: [
    "npx turnpike audit bill.json --rpc https://rpc.example",
    "npx turnpike audit bill.json --json",
    "npx turnpike audit bill.json --write",
  ],
  async run(context) {
    const { args, output, io } = context;
    const file = args.word("FILE");
    const given = args.has("write") ? undefined : await fileText(context, file);
    const rpc = args.value("rpc") ?? variable(io, "TURNPIKE_RPC_URL")?.split(",")[0]?.trim();
    if (rpc === undefined) {
      throw new UsageError("No JSON-RPC is named.", "Give --rpc URL, or set TURNPIKE_RPC_URL.");
    }
    if (!URL.canParse(rpc) || !/^https?:$/.test(new URL(rpc).protocol)) {
      throw new UsageError("--rpc is no http(s) URL.", "Write it as --rpc https://rpc.example.");
    }
    const turnpike = args.value("contract") ?? variable(io, "TURNPIKE_ADDRESS");
    if (given === undefined) await writeOwn(context, resolve(io.cwd, file));
    const text = given ?? (await fileText(context, file));
    const verified = await verifyAudit(text, { rpc, fetch: io.fetch, ...(turnpike !== undefined && { turnpike }) });
    const { isClean, subscriptions, unproven, differences } = verified;
    const shown = subscriptions.map(({ receipts, ...rest }) => ({ ...rest, receipts: receipts.length }));
    const isFine = isClean && differences.length === 0;
    output.result({ clean: isFine, subscriptions: shown, unproven, differences }, linesOf(verified));
    return isFine ? EXIT_CODES.done.code : EXIT_CODES.failed.code;
  },
};

async function writeOwn(context: CommandContext, file: string): Promise<void> {
  const fromBlock = blockOf(context.args.value("from-block"));
  const audit = await withAgent(context, await policyWithoutPayment(context), (agent) => agent.audit({ fromBlock }));
  await writeAudit(file, audit).catch((cause: unknown) => {
    throw new CommandFailed(
      `The file ${safeLine(file)} cannot be written.`,
      "Name a file in a folder of yours.",
      cause,
    );
  });
}

function blockOf(text = "0"): number {
  if (/^[0-9]{1,15}$/.test(text)) return Number(text);
  throw new UsageError("--from-block is no number of a block.", "Write it as --from-block 12345678.");
}

async function fileText({ io }: CommandContext, name: string): Promise<string> {
  const file = resolve(io.cwd, name);
  const wrong = (why: string) =>
    new UsageError(`The file ${safeLine(file)} ${why}.`, "Name a file that an agent's audit has written.");
  const handle = await open(file).catch((error: { readonly code?: string }) => {
    throw wrong(error.code === "ENOENT" ? "does not exist" : "cannot be read");
  });
  try {
    const facts = await handle.stat();
    if (!facts.isFile()) throw wrong("is no regular file");
    if (facts.size > MAX_FILE_BYTES) throw wrong(`is longer than ${MAX_FILE_BYTES} bytes`);
    return await handle.readFile("utf8");
  } finally {
    await handle.close();
  }
}

function linesOf({ subscriptions, unproven, differences }: VerifiedAudit): string[] {
  const lines = subscriptions.length === 0 ? ["The file audits no subscription."] : [];
  for (const { idHashes, chainId, turnpike, toBlock, cycles, receipts, findings } of subscriptions) {
    lines.push(
      `subscription ${idHashes.at(-1)} on chain ${chainId}, contract ${turnpike}, through block ${toBlock}, receipts: ${receipts.length}`,
    );
    for (const { paidThrough, debited, refunded, receipted } of cycles) {
      const refund = refunded > 0n ? `, refunded ${shownMoney(refunded)}` : "";
      lines.push(
        `  cycle until ${timeText(paidThrough)}: debited ${shownMoney(debited)}${refund}, by receipts ${shownMoney(receipted)}`,
      );
    }
    for (const finding of findings) lines.push(`  ${describeFinding(finding)}`);
  }
  for (const finding of unproven) lines.push(`by the file's writer alone: ${safeLine(describeFinding(finding))}`);
  for (const difference of differences) lines.push(`the file differs from the chain: ${safeLine(difference)}`);
  return lines;
}
