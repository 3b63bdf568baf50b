/**
 * The sandbox of `npx turnpike sandbox`, as the package carries it: that of `npm start`, on Foundry's node and without
 * the walk. tools/sandbox-program.cjs bundles this file. It imports nothing that the user may not have installed yet.
 */
import path from "node:path";
import { anvilChain, findAnvil } from "./anvil";
import { installed } from "./installed";
import { readOptions } from "./options";
import { runSandbox } from "./run";

export { isUsersMatter } from "./run";

/** In the package, from dist/sandbox/scripts/sandbox. */
const SITE = path.resolve(__dirname, "../../../../docs");

export interface PackagedRun {
  /** the options of `npm start` that have a value */
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string | undefined>>;
  /** where the user works: `.sandbox` is made there, and packages are found there */
  readonly cwd: string;
  /** receives whole lines about the start and the end */
  write(line: string): void;
  /** receives what `state.json` has, and the same for a reader */
  onUp(state: object, lines: readonly string[]): void;
}

/** Returns the packages that the user has to install, by name. */
export function missingPackages({ cwd, env }: Pick<PackagedRun, "cwd" | "env">): readonly string[] {
  const hasDatabase = installed("@electric-sql/pglite", cwd).length > 0;
  const hasChain = findAnvil(cwd, env.PATH) !== undefined;
  return [...(hasDatabase ? [] : ["@electric-sql/pglite"]), ...(hasChain ? [] : ["@foundry-rs/anvil"])];
}

/** @returns the exit code, after an interruption. @throws errors of which some are the user's matter */
export async function run({ args, env, cwd, write, onUp }: PackagedRun): Promise<number> {
  const options = readOptions(args, env, cwd);
  const { folder } = options;
  const anvil = findAnvil(cwd, env.PATH);
  if (!anvil) throw new Error("The package @foundry-rs/anvil is not installed.");
  return runSandbox({
    options,
    command: "npx turnpike sandbox",
    write,
    world: { startChain: anvilChain(anvil), blockMs: 1_000 },
    site: SITE,
    async onUp({ world, documentation }) {
      const { announce, firstSteps } = require("./announce") as typeof import("./announce");
      const { state, lines } = await announce(world, folder, documentation);
      onUp(state, [...lines, ...firstSteps(state, folder)]);
      write(`The sandbox stays up until Ctrl-C. Watch it at ${state.dashboardUrl}`);
      return [];
    },
  });
}
