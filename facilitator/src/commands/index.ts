/** The commands of the program. Each reads its settings from the environment and ends with a status that scripts can read. */
import { Command, InvalidArgumentError } from "commander";
import { isTurnpikeError } from "turnpike/protocol";
import { loadConfig } from "../config";
import { ROLES } from "../roles";
import { doctorCommand } from "./doctor";
import { migrateCommand } from "./migrate";
import { reconcileCommand } from "./reconcile";
import { reindexCommand } from "./reindex";
import { startCommand } from "./start";

export type Environment = Readonly<Record<string, string | undefined>>;

/** @param argv as the process was given it */
export async function runCommands(argv: readonly string[], env: Environment = process.env): Promise<void> {
  const program = new Command("facilitator").description(
    "Turnpike's Facilitator: submits, confirms, renews and tells. Settings come from the environment: docs/configuration.md.",
  );
  program
    .command("start", { isDefault: true })
    .description("run the service until it is told to stop")
    .option(
      "--roles <roles>",
      `what this process does, comma-separated: ${ROLES.join(", ")} (default: ROLES, or all)`,
      rolesOf,
    )
    .action(({ roles }: { roles?: string }) => startCommand(loadConfig(roles ? { ...env, ROLES: roles } : env)));
  program
    .command("migrate")
    .description("bring the database to this release's form, and end")
    .action(async () => {
      await migrateCommand(loadConfig(env));
      end(0);
    });
  program
    .command("doctor")
    .description("look at chain, contracts, database and keys, say what is wrong and what to do; 1 when something is")
    .action(async () => end(await doctorCommand(env)));
  program
    .command("reindex")
    .description("read the chain into an empty database; no Facilitator may run on it")
    .option("--wipe", "take out what the chain decides first; accepted payments and providers stay")
    .action(async ({ wipe }: { wipe?: true }) => {
      await reindexCommand(loadConfig(env), wipe === true);
      end(0);
    });
  program
    .command("reconcile")
    .description(
      "compare the database with the chain, name every difference; 1 when there is one, 2 when no node answers",
    )
    .action(async () => end(await reconcileCommand(loadConfig(env))));
  try {
    await program.parseAsync([...argv]);
  } catch (error) {
    process.stderr.write(`${told(error)}\n`);
    end(1);
  }
}

/** Connections that are kept open would hold the process. */
function end(status: number): never {
  process.exit(status);
}

function rolesOf(text: string): string {
  const unknown = text.split(",").find((role) => !(ROLES as readonly string[]).includes(role.trim()));
  if (unknown !== undefined)
    throw new InvalidArgumentError(`${unknown || "an empty name"} is none of ${ROLES.join(", ")}`);
  return text;
}

function told(error: unknown): string {
  if (isTurnpikeError(error)) return `${error.code}: ${error.message}`;
  return error instanceof Error ? (error.stack ?? error.message) : "unknown";
}
