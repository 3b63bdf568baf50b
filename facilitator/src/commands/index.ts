/** The commands of the program. Each reads its settings from the environment and ends with a status that scripts can read. */
import { Command, InvalidArgumentError } from "commander";
import { isTurnpikeError } from "turnpike/protocol";
import { loadConfig } from "../config";
import { ROLES } from "../roles";
import { migrateCommand } from "./migrate";
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
    .action(() => migrateCommand(loadConfig(env)));
  try {
    await program.parseAsync([...argv]);
  } catch (error) {
    process.stderr.write(`${told(error)}\n`);
    process.exitCode = 1;
    process.exit();
  }
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
