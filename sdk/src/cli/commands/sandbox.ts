import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import type { Command, CommandContext } from "../command";
import { CommandFailed, UsageError } from "../command-errors";
import { packageFolder } from "../package-folder";

/** What the package holds beside this program: scripts/sandbox/packaged.ts in the repository. */
export interface SandboxProgram {
  /** Returns the packages that the user has to install. */
  missingPackages(at: Pick<SandboxRun, "cwd" | "env">): readonly string[];
  /** @returns the exit code, when the user has interrupted it */
  run(options: SandboxRun): Promise<number>;
  /** Whether the error's message is meant for the user. */
  isUsersMatter(error: unknown): boolean;
}

/** What a run gets, and where it prints. */
export interface SandboxRun {
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly cwd: string;
  write(line: string): void;
  onUp(state: object, lines: readonly string[]): void;
}

const ANVIL = "@foundry-rs/anvil";

/** The command `sandbox`. */
export const sandboxCommand: Command = {
  name: "sandbox",
  summary: "run a chain, the contracts, a Facilitator and a provider on this machine, with funded test keys",
  words: [],
  flags: {
    port: { value: "N", about: "Facilitator on N, provider on N+1, and so on; 0 takes any free ports; default: 8402" },
    "facilitator-port": { value: "N", about: "the Facilitator's port alone" },
    "provider-port": { value: "N", about: "the provider's port alone; default: 4021" },
    "specialist-port": { value: "N", about: "the port of an agent that sells, too, alone; default: 4022" },
    "inbox-port": { value: "N", about: "the port of the inbox of webhooks alone; default: 4023" },
    "chain-port": { value: "N", about: "the chain's port alone; default: any free one" },
    "documentation-port": { value: "N", about: "the port of these pages alone; default: 4024" },
    "chain-id": { value: "N", about: "the chain's id; default: 31337" },
    chains: { value: "N", about: "1, or 2 chains with one Facilitator; default: 1" },
    folder: { value: "PATH", about: "where state.json and state.env are; one sandbox at a time; default: .sandbox" },
  },
  examples: ["npx turnpike sandbox", "npx turnpike sandbox --port 9000 --folder /tmp/sandbox"],
  async run(context) {
    const { args, io, output } = context;
    const program = sandboxProgram();
    requirePackages(program, context);
    try {
      return await program.run({
        args: Object.keys(sandboxCommand.flags).flatMap((name) =>
          args.values(name).map((value) => `--${name}=${value}`),
        ),
        env: io.env,
        cwd: io.cwd,
        write: (line) => output.note(line),
        onUp: (state, lines) => output.result(state, lines),
      });
    } catch (error) {
      if (!program.isUsersMatter(error)) throw error;
      throw new UsageError((error as Error).message, "See `npx turnpike sandbox --help`.");
    }
  },
};

function sandboxProgram(): SandboxProgram {
  const file = join(packageFolder(__dirname), "dist/sandbox/scripts/sandbox/program.js");
  if (existsSync(file)) return require(file) as SandboxProgram;
  throw new CommandFailed(`The program ${file} is missing.`, "Install the package again.");
}

/** @throws UsageError with the command that installs what is missing */
function requirePackages(program: SandboxProgram, { io }: CommandContext): void {
  const missing = program.missingPackages(io);
  if (missing.length === 0) return;
  const manifest = JSON.parse(readFileSync(join(packageFolder(__dirname), "package.json"), "utf8"));
  const exact = missing.map((name) => `${name}@${manifest.peerDependencies[name].replace(/^\^/, "")}`);
  throw new UsageError(
    `The sandbox needs packages that are not installed: ${missing.join(", ")}.`,
    `Run: npm install --save-dev ${exact.join(" ")}${missing.includes(ANVIL) ? ", or have Foundry's anvil in PATH." : ""}`,
  );
}
