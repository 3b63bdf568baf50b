/** A host of an assistant: the official MCP client, with the wallet as a real child process on stdio. */
import { mkdtempSync, rmSync } from "node:fs";
import { mkdtemp, rm, utimes, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Readable } from "node:stream";
import { text } from "node:stream/consumers";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { ElicitRequestSchema } from "@modelcontextprotocol/sdk/types.js";
import { bundled } from "../../../support/bundled";
import { CHAIN_ID, TOKEN, TURNPIKE, testKey } from "../../agent/support/world";

export type ElicitAnswer = {
  readonly action: "accept" | "decline" | "cancel";
  readonly content?: { approve: boolean };
};

export interface HostOptions {
  /** answers the wallet's questions; without it the host cannot ask */
  readonly person?: (question: string) => ElicitAnswer | Promise<ElicitAnswer>;
  /** default: the folder's file */
  readonly config?: string | undefined;
  readonly env?: Record<string, string>;
  /** a package that is not installed where the wallet runs */
  readonly lacks?: string;
}

export interface Called {
  // biome-ignore lint/suspicious/noExplicitAny: facts of all shapes are asserted on
  readonly facts: any;
  readonly isError: boolean;
  /** everything that the model gets, as one text */
  readonly whole: string;
  /** the parts after the facts */
  readonly parts: readonly { readonly type: string; readonly text?: string; readonly data?: string }[];
}

export interface Host {
  readonly client: Client;
  call(name: string, args?: Record<string, unknown>): Promise<Called>;
  /** everything that the wallet logged, once it has ended */
  readonly log: Promise<string>;
  readonly pid: number;
  stop(): Promise<void>;
}

const programs = new Map<string, string>();

/**
 * Returns the wallet's program, built once for all suites of this run.
 * @param lacks a package that is not installed where it runs
 */
export function walletProgram(lacks = ""): string {
  const known = programs.get(lacks);
  if (known !== undefined) return known;
  const folder = mkdtempSync(join(tmpdir(), "turnpike-wallet-program-"));
  process.once("exit", () => rmSync(folder, { recursive: true, force: true }));
  const program = bundled(join(__dirname, "wallet-process.ts"), folder, lacks === "" ? [] : [lacks, `${lacks}/*`]);
  programs.set(lacks, program);
  return program;
}

/** A folder with the wallet's file and its ledger. */
export class Desk {
  readonly folder: string;
  readonly ledger: string;
  readonly file: string;
  readonly #hosts = new Set<Host>();

  private constructor(folder: string) {
    this.folder = folder;
    this.ledger = join(folder, "wallet-ledger.jsonl");
    this.file = join(folder, "wallet.json");
  }

  static async open(): Promise<Desk> {
    return new Desk(await mkdtemp(join(tmpdir(), "turnpike-wallet-")));
  }

  /** Writes the wallet's file: limits of one dollar a payment and ten a day, unless `more` says otherwise. */
  async configure(
    facilitator: string,
    { policy = {}, ...more }: { readonly policy?: object; readonly [field: string]: unknown } = {},
  ): Promise<void> {
    await writeFile(join(this.folder, "key"), `${testKey("payer")}\n`, { mode: 0o600 });
    const config = {
      keyFile: "key",
      policy: { perPayment: "$1.00", perDay: "$10.00", tokens: [TOKEN], ...policy },
      facilitators: [facilitator],
      deployments: [{ chainId: CHAIN_ID, turnpike: TURNPIKE }],
      ...more,
    };
    await rm(this.file, { force: true });
    await writeFile(this.file, JSON.stringify(config), { mode: 0o600 });
  }

  async host({ person, config = this.file, env = {}, lacks }: HostOptions = {}): Promise<Host> {
    const client = new Client({ name: "test host", version: "1" }, { capabilities: person ? { elicitation: {} } : {} });
    if (person) {
      client.setRequestHandler(ElicitRequestSchema, async ({ params }) => ({ ...(await person(params.message)) }));
    }
    const args = [walletProgram(lacks), ...(config === "" ? [] : [config])];
    const transport = new StdioClientTransport({ command: process.execPath, args, env, stderr: "pipe" });
    const log = text(transport.stderr as Readable);
    await client.connect(transport);
    const host: Host = {
      client,
      log,
      pid: transport.pid as number,
      call: async (name, given = {}) => calledOf(await client.callTool({ name, arguments: given })),
      stop: async () => {
        this.#hosts.delete(host);
        await client.close();
      },
    };
    this.#hosts.add(host);
    return host;
  }

  /** Makes the lock of a killed process as old as it would be some seconds later. */
  async ageLock(): Promise<void> {
    await utimes(`${this.ledger}.lock`, 0, 0);
  }

  async clearLedger(): Promise<void> {
    await rm(this.ledger, { force: true });
  }

  async close(): Promise<void> {
    await Promise.all([...this.#hosts].map((host) => host.stop()));
    await rm(this.folder, { recursive: true, force: true });
  }
}

export function calledOf(result: object): Called {
  const { content, isError: failed } = result as { readonly content: unknown; readonly isError?: boolean };
  const [first, ...parts] = content as { type: string; text?: string; data?: string }[];
  const isError = failed === true;
  return { facts: parse(first?.text ?? ""), isError, parts, whole: JSON.stringify(result) };
}

function parse(given: string): unknown {
  try {
    return JSON.parse(given);
  } catch {
    return { text: given };
  }
}
