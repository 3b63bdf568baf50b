/**
 * Reads the file that holds the wallet's limits. Only its owner may be able to change it: a file that others can write
 * to is refused, and so is every field that is not known.
 */
import { existsSync } from "node:fs";
import { realpath, stat } from "node:fs/promises";
import { dirname, resolve } from "node:path";
import * as z from "zod";
import type { AgentOptions } from "../../agent/core/agent-options";
import { policyFields } from "../../agent/core/policy-fields";
import { walletFromKey } from "../../agent/signing/wallet";
import { ConfigError, type Hex, isAddress, isTurnpikeError, parseMoney, parseStrictJson } from "../../protocol";
import { readOpened } from "./opened-file";

/** Names the file, where no argument does. */
export const CONFIG_VARIABLE = "TURNPIKE_WALLET_CONFIG";

/** Holds the wallet's private key, where the file names no `keyFile`. */
const KEY_VARIABLE = "TURNPIKE_WALLET_KEY";

/** Where the wallet may send requests, and how much of an answer it returns. */
export interface Reach {
  readonly allowHttp: boolean;
  /** when set, no other origin is requested; subscriptions may be used there without a question */
  readonly origins: ReadonlySet<string> | undefined;
  /** origins that may lead to private addresses */
  readonly privateOrigins: ReadonlySet<string>;
  /** The most bytes of a response's body that are read. */
  readonly maxBytes: number;
  /** A response has to begin within it, and its body to arrive within as long again. */
  readonly timeoutMs: number;
}

/** What the wallet is made of: options of an agent, and its reach. */
export interface WalletConfig {
  readonly agent: Pick<AgentOptions, "wallet" | "policy" | "facilitators" | "deployments" | "tokens" | "rpc">;
  readonly ledgerFile: string;
  readonly reach: Reach;
}

const MAX_FILE_BYTES = 262_144;

const DEFAULT_MAX_BYTES = 262_144;

const DEFAULT_TIMEOUT_SEC = 30;

/** Returns the message of a field that is missing, or of another form than this. */
const must = (form: string) => ({
  error: ({ input }: { readonly input?: unknown }) =>
    input === undefined ? `is required: ${form}` : `is ${shown(input)}, and must be ${form}`,
});

/** Longer values are cut in messages. */
const MAX_SHOWN = 60;

const shown = (input: unknown): string => (JSON.stringify(input) ?? typeof input).slice(0, MAX_SHOWN);

/** Text is a price ("$0.50"), a whole number is base units of a token with 6 decimals. */
const money = z.union(
  [z.string(), z.number().int().nonnegative()],
  must('a price in quotes, such as "$0.50", or base units as a whole number'),
);

const isHttpUrl = (text: string): boolean => URL.canParse(text) && /^https?:$/.test(new URL(text).protocol);

const httpUrl = z.string().refine(isHttpUrl, must("an http(s) URL, such as https://facilitator.example.com"));

const origin = z
  .string()
  .refine(
    (text) => isHttpUrl(text) && new URL(text).origin === text && !text.includes("*"),
    must("an origin: scheme, host and port alone, such as https://api.example.com, without wildcards"),
  );

const address = z.string().refine(isAddress, must("an address: 0x and 40 hex digits"));

const chainId = z.number().int().positive();

const configSchema = z.strictObject({
  /** file with the private key, 0x and 64 hex digits; relative to this file's folder */
  keyFile: z.string().min(1).optional(),
  /** the ledger that every host shares; default `wallet-ledger.jsonl` beside this file */
  ledger: z.string().min(1).optional(),
  policy: z.strictObject(policyFields(money)),
  facilitators: z
    .array(
      z.union(
        [httpUrl, z.strictObject({ url: httpUrl, signers: z.array(z.string()).min(1).optional() })],
        must("an http(s) URL, or {url, signers}"),
      ),
    )
    .min(1),
  deployments: z.array(z.strictObject({ chainId, turnpike: z.string() })).optional(),
  tokens: z.array(z.strictObject({ chainId, address, name: z.string(), version: z.string() })).optional(),
  rpc: z
    .union(
      [httpUrl, z.record(z.string().regex(/^[1-9][0-9]{0,15}$/), httpUrl)],
      must('an http(s) URL, or one for each chain id, such as {"8453": "https://rpc.example.com"}'),
    )
    .optional(),
  origins: z.array(origin).optional(),
  privateOrigins: z.array(origin).optional(),
  content: z
    .strictObject({
      maxBytes: z.number().int().min(1_024).max(4_194_304).optional(),
      timeoutSec: z.number().int().min(1).max(50).optional(),
    })
    .optional(),
});

type ConfigFile = z.output<typeof configSchema>;

/** Fields of the policy that are amounts. */
const AMOUNTS = ["perPayment", "perDay", "perPayee", "perSubscription", "perFirstCharge", "askAbove"] as const;

/** How prices in the file are read: the policy counts tokens with 6 decimals, each worth one dollar. */
const DOLLAR = { decimals: 6, currency: "USD" } as const;

/** Returns an amount of dollars or base units. @throws ConfigError that names the field */
export function parseDollars(value: string | number, field: string): bigint {
  const text = typeof value === "string" ? value.trim() : "";
  if (!/^[0-9]+$/.test(text)) return parseMoney(value, DOLLAR, field);
  throw new ConfigError(
    `${field} is "${value}", which could mean dollars or base units: write "$${text}.00" for dollars`,
  );
}

/**
 * Reads and checks the file.
 * @throws ConfigError without file, for one that is unreadable, that others can change, or that holds anything unknown
 */
export async function readWalletConfig(
  file: string | undefined,
  env: Readonly<Record<string, string | undefined>>,
): Promise<WalletConfig> {
  if (!file) {
    throw new ConfigError(`no file holds the wallet's limits: name it by --config FILE, or by ${CONFIG_VARIABLE}`);
  }
  const path = resolve(file);
  const text = await readOwned(path, "the wallet's file", requireUnchangeable);
  const parsed = configSchema.safeParse(jsonOf(text, path));
  if (!parsed.success) throw new ConfigError(`${path}: ${firstIssue(parsed.error)}`);
  const config = parsed.data;
  const folder = dirname(path);
  const { tokens, deployments, rpc } = config;
  const ledgerFile = resolve(folder, config.ledger ?? "wallet-ledger.jsonl");
  if (existsSync(dirname(ledgerFile))) await requireSafeFolder(dirname(ledgerFile), `the ledger ${ledgerFile}`);
  return {
    agent: {
      wallet: walletFromKey(await readKey(config, folder, env)),
      policy: policyOf(config),
      facilitators: config.facilitators as AgentOptions["facilitators"],
      ...(deployments && { deployments: deployments as AgentOptions["deployments"] }),
      ...(tokens && { tokens: tokens as AgentOptions["tokens"] }),
      ...(rpc !== undefined && { rpc: rpc as NonNullable<AgentOptions["rpc"]> }),
    } as WalletConfig["agent"],
    ledgerFile,
    reach: {
      allowHttp: config.policy.allowHttp ?? false,
      origins: config.origins && new Set(config.origins),
      privateOrigins: new Set(config.privateOrigins),
      maxBytes: config.content?.maxBytes ?? DEFAULT_MAX_BYTES,
      timeoutMs: (config.content?.timeoutSec ?? DEFAULT_TIMEOUT_SEC) * 1_000,
    },
  };
}

function policyOf({ policy }: ConfigFile): AgentOptions["policy"] {
  const amounts = AMOUNTS.flatMap((name) => {
    const value = policy[name];
    return value === undefined ? [] : [[name, parseDollars(value, `policy.${name}`)]];
  });
  return { ...policy, ...Object.fromEntries(amounts) };
}

async function readKey(
  { keyFile }: ConfigFile,
  folder: string,
  env: Readonly<Record<string, string | undefined>>,
): Promise<Hex> {
  const inFile =
    keyFile === undefined ? undefined : await readOwned(resolve(folder, keyFile), "keyFile", requireSecret);
  const key = (inFile ?? env[KEY_VARIABLE])?.trim();
  if (!key) throw new ConfigError(`the wallet has no key: name its file in keyFile, or set ${KEY_VARIABLE}`);
  return key as Hex;
}

type Check = (file: { readonly mode: number; readonly path: string; readonly what: string }) => void;

/** Reads a small file after checking the very file that was opened, and its folder. */
async function readOwned(path: string, what: string, check: Check): Promise<string> {
  try {
    const { text } = await readOpened(path, async (facts) => {
      if (!facts.isFile()) throw new ConfigError(`${what} ${path} is no regular file`);
      if (facts.size > MAX_FILE_BYTES) throw new ConfigError(`${what} ${path} is larger than ${MAX_FILE_BYTES} bytes`);
      // Windows has no such modes; its access lists are the owner's to set.
      if (process.platform === "win32") return;
      check({ mode: facts.mode, path, what });
      requireOwner(facts.uid, path, what);
      await requireSafeFolder(dirname(await realpath(path)), `${what} ${path}`);
      // Behind a link, whose own folder decides where it leads.
      await requireSafeFolder(dirname(path), `${what} ${path}`);
    });
    return text;
  } catch (cause) {
    if (isTurnpikeError(cause)) throw cause;
    const { code } = cause as { readonly code?: string };
    throw new ConfigError(`${what} ${path} cannot be read (${code ?? "unknown error"})`, { cause });
  }
}

const OTHERS_WRITE = 0o022;

const OTHERS_ANYTHING = 0o077;

const requireUnchangeable: Check = ({ mode, path, what }) => {
  if ((mode & OTHERS_WRITE) === 0) return;
  throw new ConfigError(`${what} ${path} can be changed by other users: run chmod go-w on it`);
};

const requireSecret: Check = ({ mode, path, what }) => {
  if ((mode & OTHERS_ANYTHING) === 0) return;
  throw new ConfigError(`${what} ${path} is open to other users: run chmod 600 on it`);
};

function requireOwner(uid: number, path: string, what: string): void {
  if (uid === 0 || uid === process.getuid?.()) return;
  throw new ConfigError(`${what} ${path} belongs to another user: it must be yours or root's`);
}

const STICKY = 0o1000;

/** In a folder that others may write to, they could put another file in its place. */
async function requireSafeFolder(folder: string, what: string): Promise<void> {
  const { mode } = await stat(folder);
  const isOpen = (mode & OTHERS_WRITE) !== 0 && (mode & STICKY) === 0;
  if (process.platform === "win32" || !isOpen) return;
  throw new ConfigError(`${what} is in a folder that other users can write to: move it, or run chmod go-w ${folder}`);
}

/** @throws ConfigError also for a repeated field: of two limits it is not clear which one holds */
function jsonOf(text: string, path: string): unknown {
  const read = parseStrictJson(text);
  if (read) return read;
  try {
    JSON.parse(text);
  } catch (cause) {
    throw new ConfigError(`${path} is not JSON`, { cause });
  }
  throw new ConfigError(`${path} is no JSON object, or repeats a field: name each field once`);
}

function firstIssue({ issues: [issue] }: z.ZodError): string {
  const at = issue?.path.join(".") ?? "";
  return `${at}${at && ": "}${issue?.message ?? "cannot be read"}`;
}

/** Returns the message of a configuration error; rethrows any other. */
export function configFault(error: unknown): string {
  if (isTurnpikeError(error) && error.code === "ConfigError") return error.message;
  throw error;
}
