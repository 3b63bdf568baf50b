import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { isPrivateChannel } from "../../agent/core/request";
import { makeFolder } from "../../agent/file-ledger/folder";
import { createFacilitatorClient, type FacilitatorClient, isWebhookEventType } from "../../facilitator";
import { webhookKeyOf, webhookSecretOf } from "../../facilitator/verify-webhook";
import { randomBytes } from "../../protocol";
import type { Command, CommandContext } from "../command";
import { UsageError } from "../command-errors";
import { homeFolder, listVariable, readSecretFile, secretVariable } from "../environment";
import { EXIT_CODES } from "../exit-codes";
import { endOfLog, pagesAfter } from "../listen/event-log";
import { type Delivery, forward, type Target } from "../listen/forward";
import { safeLine } from "../text";
import { readUrl } from "./request";

const API_KEY = {
  variable: "TURNPIKE_API_KEY",
  what: "API key",
  pattern: /^tpk_[0-9a-f]{16}_[A-Za-z0-9_-]{43}$/,
  form: "tpk_<id>_<secret>",
} as const;

const WEBHOOK_SECRET = {
  variable: "TURNPIKE_WEBHOOK_SECRET",
  what: "webhook secret",
  pattern: /^whsec_[A-Za-z0-9+/]{22,}={0,2}$/,
  form: "whsec_ and base64 of 16 bytes or more",
} as const;

/** The command `listen`. */
export const listenCommand: Command = {
  name: "listen",
  summary: "forward your events of a Facilitator to a server on this machine, signed like webhooks",
  words: [],
  flags: {
    "forward-to": { value: "URL", about: "where to post each event: this machine, or https; required" },
    types: { value: "TYPES", about: "comma-separated event types; default: all" },
    cursor: {
      value: "CURSOR",
      about: "start after this place of the event log; 0 is its start; default: new events alone",
    },
    count: { value: "NUMBER", about: "end after so many events; default: until interrupted" },
  },
  examples: [
    "npx turnpike listen --forward-to http://localhost:3000/webhooks",
    "npx turnpike listen --forward-to http://localhost:3000/webhooks --types payment.settled --cursor 0 --count 10",
  ],
  isStream: true,
  async run(context) {
    const { args, io, output } = context;
    const url = targetUrl(args.value("forward-to"));
    const types = typesOf(args.value("types"));
    const count = countOf(args.value("count"));
    const cursor = cursorOf(args.value("cursor"));
    const client = await openClient(context);
    const { network, chainId } = await client.supported({ signal: io.signal });
    const key = webhookKeyOf(await webhookSecret(context));
    const start = cursor ?? (await endOfLog(client, io.signal));
    output.note(`Forwarding events of ${network} after cursor ${safeLine(start)} to ${url}. Ctrl-C ends it.`);
    const failed = await forwardAll(context, { client, start, types, count, target: { url, key, network, chainId } });
    return failed === 0 ? EXIT_CODES.done.code : EXIT_CODES.failed.code;
  },
};

interface Forwarding {
  readonly client: FacilitatorClient;
  readonly start: string;
  readonly types: ReadonlySet<string> | undefined;
  readonly count: number | undefined;
  readonly target: Target;
}

/** @returns how many events could not be delivered */
async function forwardAll({ io, output }: CommandContext, job: Forwarding): Promise<number> {
  let left = job.count ?? Number.POSITIVE_INFINITY;
  let failed = 0;
  let reached = job.start;
  try {
    // No page holds more than is left: its end is where the next run continues.
    const limit = () => left;
    for await (const { events, next } of pagesAfter(job.client, job.start, { io, output, limit })) {
      for (const event of events) {
        if (job.types && !job.types.has(event.type)) continue;
        const delivery = await forward(io, job.target, event);
        output.result(delivery, [deliveryLine(delivery)]);
        if (!delivery.delivered) failed++;
        left--;
      }
      reached = next;
      if (left === 0) return failed;
    }
  } catch (error) {
    if (!io.signal.aborted) throw error;
  } finally {
    output.note(
      `Ended. --cursor ${safeLine(reached)} continues; an event of its last page may come again, under the same id.`,
    );
  }
  return failed;
}

function deliveryLine({ type, subject, status, error, attempts, delivered }: Delivery): string {
  const answer = status === undefined ? `no answer (${error})` : `HTTP ${status}`;
  const tries = attempts === 1 ? "" : ` after ${attempts} attempts`;
  return `${safeLine(type)} ${safeLine(subject)}: ${delivered ? answer : `NOT DELIVERED, ${answer}`}${tries}`;
}

async function openClient({ io, output }: CommandContext): Promise<FacilitatorClient> {
  const [url] = listVariable(io, "TURNPIKE_FACILITATOR_URL");
  const apiKey = await secretVariable(io, output, API_KEY);
  if (url === undefined || apiKey === undefined) {
    throw new UsageError(
      `${url === undefined ? "TURNPIKE_FACILITATOR_URL" : "TURNPIKE_API_KEY"} is not set.`,
      "Set the Facilitator's URL, and TURNPIKE_API_KEY=file:PATH to a key with the scope read (docs/guides/api-keys.md).",
    );
  }
  if (!URL.canParse(url) || !isPrivateChannel(url)) {
    throw new UsageError(
      "TURNPIKE_FACILITATOR_URL is no https address, so the API key is not sent there.",
      "Use https.",
    );
  }
  return createFacilitatorClient({ url, apiKey, fetch: (input, init) => io.fetch(input, init) });
}

/** Returns the secret of the variable, or the one in the home folder, which is made where there is none. */
async function webhookSecret({ io, output }: CommandContext): Promise<string> {
  const named = await secretVariable(io, output, WEBHOOK_SECRET);
  if (named !== undefined) return named;
  const file = join(homeFolder(io), "webhook-secret");
  try {
    await makeFolder(homeFolder(io));
    await writeFile(file, `${webhookSecretOf(randomBytes(32))}\n`, { flag: "wx", mode: 0o600 });
  } catch (error) {
    const { code } = error as { readonly code?: string };
    if (code !== "EEXIST") {
      throw new UsageError(
        `The webhook secret ${file} cannot be written (${code}).`,
        "Set TURNPIKE_HOME to a folder that you can write to, or TURNPIKE_WEBHOOK_SECRET.",
      );
    }
  }
  output.note(`Events are signed with the secret in ${file}: verify them with it.`);
  return readSecretFile(file, output, WEBHOOK_SECRET);
}

function targetUrl(text: string | undefined): string {
  if (text === undefined) {
    throw new UsageError("--forward-to is missing.", "Name your server: --forward-to http://localhost:3000/webhooks");
  }
  const url = readUrl(text);
  if (isPrivateChannel(url)) return url;
  throw new UsageError(
    "--forward-to is plain http to another machine.",
    "Name a server on this machine, or use https.",
  );
}

function typesOf(text: string | undefined): ReadonlySet<string> | undefined {
  if (text === undefined) return undefined;
  const types = text.split(",").map((type) => type.trim());
  if (types.every(isWebhookEventType)) return new Set(types);
  throw new UsageError(
    "--types names an unknown event type.",
    "docs/reference/webhooks.md lists them, such as payment.settled.",
  );
}

function countOf(text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  if (/^[1-9][0-9]{0,8}$/.test(text)) return Number(text);
  throw new UsageError("--count is no whole number from 1 on.", "Write it as --count 10.");
}

function cursorOf(text: string | undefined): string | undefined {
  if (text === undefined || /^(?:0|[1-9][0-9]{0,14})$/.test(text)) return text;
  throw new UsageError("--cursor is no place of the event log.", "Use the cursor that an earlier run printed, or 0.");
}
