/**
 * Defines the commands of the program. Each reads its settings from the environment and ends with an exit status for
 * scripts.
 */
import { Command, InvalidArgumentError } from "commander";
import { ConfigError, isTurnpikeError } from "turnpike/protocol";
import { type RunningFacilitator, startFacilitator } from "../app/start";
import { openChain } from "../chain/open";
import { type DatabaseSettings, type FacilitatorConfig, loadConfig, loadDatabase } from "../config";
import { type ChainConfigs, chainsOf, loadChains } from "../config/chains";
import { ROLES } from "../config/roles";
import { openStore } from "../db/open";
import { untilDatabaseAnswers } from "../db/patience";
import { terminalProgress } from "../lib/progress";
import { createLog, secretsOf, secretsOfDatabase } from "../telemetry/log";
import { doctorCommand } from "./doctor";
import { reindex } from "./maintenance/reindex";
import { reconcileCommand } from "./reconcile";
import { addWebhookCommands, webhookCommand } from "./webhooks";

export type Environment = Readonly<Record<string, string | undefined>>;

export async function runCommands(argv: readonly string[], env: Environment = process.env): Promise<void> {
  const program = new Command("turnpike-facilitator").description(
    "Turnpike's Facilitator: settles payments, renews subscriptions and sends webhooks. Settings come from the environment: settings.env.example lists them.",
  );
  program
    .command("start", { isDefault: true })
    .description("run the service until it is stopped")
    .option(
      "--roles <roles>",
      `what this process does, comma-separated: ${ROLES.join(", ")} (default: ROLES, or all)`,
      rolesOf,
    )
    .action(({ roles }: { roles?: string }) => {
      const own = roles ? { ...env, ROLES: roles } : env;
      return startCommand(loadChains(own) ?? loadConfig(own));
    });
  program
    .command("migrate")
    .description("apply pending database migrations, then exit")
    .option("--force", "apply a breaking migration also while processes run on the database: they stop by themselves")
    .action(async ({ force = false }: { force?: boolean }) => {
      await migrateCommand(loadDatabase(env), force);
      end(0);
    });
  program
    .command("doctor")
    .description("check the chain, contracts, database and keys; exits with 1 when a check fails")
    .option("--chain <network>", CHAIN_OPTION)
    .action(async ({ chain }: ChainOption) => end(await doctorCommand(env, chain)));
  program
    .command("reindex")
    .description("index the chain into an empty database; no Facilitator may run on it")
    .option("--wipe", "first delete what the chain determines; accepted payments and providers are kept")
    .option("--chain <network>", "which of CHAINS to index; the others go on")
    .action(async ({ wipe, chain }: ChainOption & { wipe?: true }) => {
      const [config, ...others] = chainsOf(env, chain);
      if (others.length > 0) throw new ConfigError("CHAINS names several: name one with --chain");
      await reindexCommand(config, wipe === true);
      end(0);
    });
  program
    .command("reconcile")
    .description(
      "compare the database with the chain and list the differences; exits with 1 on a difference, 2 when no node answers",
    )
    .option("--since <time>", "compare only what settled since a UTC time or a duration, such as 24h, in final blocks")
    .option("--cursor <file>", "with --since: keep how far it has compared in this file, and continue there")
    .option("--chain <network>", CHAIN_OPTION)
    .action(async ({ since, cursor, chain }: ChainOption & { since?: string; cursor?: string }) => {
      if (since === undefined && cursor !== undefined) throw new ConfigError("--cursor needs --since: name a time too");
      const configs = chainsOf(env, chain);
      if (cursor !== undefined && configs.length > 1)
        throw new ConfigError("--cursor keeps the place of one chain: name it with --chain");
      end(await reconcileCommand(configs, since === undefined ? undefined : { since, cursor }));
    });
  addWebhookCommands(program, async (act, id) => {
    await webhookCommand(loadDatabase(env), act, id);
    end(0);
  });
  const [given] = argv.slice(2);
  const known = program.commands.map((command) => command.name());
  if (given !== undefined && !given.startsWith("-") && ![...known, "help"].includes(given)) {
    process.stderr.write(`unknown command "${given}": use ${known.join(", ")}\n`);
    end(1);
  }
  try {
    await program.parseAsync([...argv]);
  } catch (error) {
    process.stderr.write(`${describe(error)}\n`);
    end(1);
  }
}

interface ChainOption {
  readonly chain?: string;
}

const CHAIN_OPTION = "one of CHAINS (default: each of them)";

/** Open keep-alive connections would keep the process running. */
function end(status: number): never {
  process.exit(status);
}

/** A role may be followed by a colon and the chain that it is for. */
function rolesOf(text: string): string {
  const unknown = text.split(",").find((entry) => !ROLES.some((role) => role === entry.trim().replace(/:.*/, "")));
  if (unknown !== undefined)
    throw new InvalidArgumentError(`${unknown || "an empty name"} is not one of ${ROLES.join(", ")}`);
  return text;
}

function describe(error: unknown): string {
  if (isTurnpikeError(error)) return `${error.code}: ${error.message}`;
  return error instanceof Error ? (error.stack ?? error.message) : "unknown";
}

/** Waits for a server that is starting, or that its standby is taking over. */
const WAIT_MS = 60_000;

/** Migrates the database and exits: for installations where the service may not change tables. */
async function migrateCommand({ database, logLevel }: DatabaseSettings, isForced: boolean): Promise<void> {
  const log = createLog({ level: logLevel, secrets: secretsOfDatabase(database) });
  const store = await untilDatabaseAnswers(() => openStore(database, { isForced }), {
    log,
    limitMs: WAIT_MS,
    monotonicMs: () => performance.now(),
  });
  await store.close();
  const { migrated } = store;
  const done = migrated.length > 0 ? `applied ${migrated.join(", ")}` : "the database is up to date";
  process.stdout.write(`${done}\n`);
}

/** `facilitator reindex`: rebuilds what the chain decides, and exits. */
export async function reindexCommand(config: FacilitatorConfig, isWiped: boolean): Promise<void> {
  const log = createLog({ level: config.logLevel, secrets: secretsOf(config) });
  const chain = await openChain({ config, log });
  const store = await openStore(config.database);
  try {
    const last = await reindex({ config, store, chain, log, progress: terminalProgress(), isWiped });
    process.stdout.write(`read blocks ${config.startBlock} to ${last}\n`);
  } finally {
    await store.close();
  }
}

const LEAVE_MS = 2_000;

/** A longer stop ends like a kill: everything signed or promised is already stored. */
const STOP_LIMIT_MS = 10_000;

/** A signal ends a start in progress as well as a running service. It stops the started parts and exits with 0. */
export async function startCommand(config: FacilitatorConfig | ChainConfigs): Promise<void> {
  const stopping = new AbortController();
  const stopped = new Promise<void>((resolve) => {
    for (const signal of ["SIGINT", "SIGTERM"] as const) {
      process.on(signal, () => {
        if (stopping.signal.aborted) process.exit(130);
        stopping.abort(new Error("stopped by a signal"));
        setTimeout(() => {
          process.stderr.write(`not stopped after ${STOP_LIMIT_MS / 1_000} s: exits now; the next start resumes\n`);
          process.exit(1);
        }, STOP_LIMIT_MS).unref();
        resolve();
      });
    }
  });
  let facilitator: RunningFacilitator | undefined;
  try {
    facilitator = await startFacilitator(config, {
      progress: terminalProgress(),
      signal: stopping.signal,
      leaveMs: LEAVE_MS,
    });
  } catch (error) {
    if (error !== stopping.signal.reason) throw error;
  }
  const reason = await Promise.race([stopped, ...(facilitator ? [facilitator.ended] : [])]);
  if (reason) throw reason;
  await facilitator?.stop();
  process.exit(0);
}
