/** Runs commands in this process, in a home folder of their own, as a terminal would. */
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect } from "chai";
import type { CliIo } from "../../../../sdk/src/cli/io";
import { runCli } from "../../../../sdk/src/cli/run";
import { NETWORK, TOKEN, testKey } from "../../agent/support/world";

export interface Ran {
  readonly code: number;
  readonly out: string;
  readonly err: string;
  /** standard output, as `--json` prints it */
  // biome-ignore lint/suspicious/noExplicitAny: documents of all commands are asserted on
  json(): any;
}

type Effects = { -readonly [Name in keyof CliIo]?: CliIo[Name] };

export interface Terminal {
  /** the folder of everything that this terminal writes */
  readonly folder: string;
  readonly home: string;
  readonly env: Record<string, string>;
  /** effects that a test replaces */
  readonly io: Effects;
  run(...argv: string[]): Promise<Ran>;
}

const folders: string[] = [];

/** A terminal whose environment names the payer's wallet, the test network and its token. */
export function terminal(env: Record<string, string> = {}): Terminal {
  const folder = mkdtempSync(join(tmpdir(), "turnpike-cli-"));
  folders.push(folder);
  const key = join(folder, "wallet.key");
  writeSecret(key, testKey("payer"));
  const home = join(folder, "home");
  const all: Record<string, string> = {
    TURNPIKE_HOME: home,
    TURNPIKE_WALLET_KEY: `file:${key}`,
    TURNPIKE_NETWORK: NETWORK,
    TURNPIKE_TOKEN: TOKEN,
    ...env,
  };
  const io: Effects = {};
  return {
    folder,
    home,
    env: all,
    io,
    async run(...argv) {
      let out = "";
      let err = "";
      const code = await runCli(argv, {
        env: all,
        cwd: folder,
        home: folder,
        stdout: (text) => {
          out += text;
        },
        stderr: (text) => {
          err += text;
        },
        fetch: (input, init) => fetch(input, init),
        sleep: async () => {},
        signal: new AbortController().signal,
        ...io,
      });
      return { code, out, err, json: () => JSON.parse(out) };
    },
  };
}

/** Writes a file that only this user can read. */
export function writeSecret(file: string, text: string): void {
  writeFileSync(file, `${text}\n`, { mode: 0o600 });
  chmodSync(file, 0o600);
}

/** Call it in `afterEach`. */
export function removeTerminals(): void {
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true, force: true });
}

/** Expects a command to end with this code, and shows what it printed when it did not. */
export function expectCode(ran: Ran, code: number): void {
  expect(ran.code, `${ran.out}${ran.err}`).to.equal(code);
}
