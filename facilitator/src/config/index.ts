/**
 * Every setting of the Facilitator: its variable, unit, default and danger, grouped by file. Read once at the start;
 * nothing else reads `process.env`.
 */
import { type Address, ConfigError, type Network, networkOfChain } from "turnpike/protocol";
import type { z } from "zod";
import { BLOCKS } from "./blocks";
import { CHAIN, type TokenConfig } from "./chain";
import { DATABASE } from "./database";
import type { KeySource } from "./key-source";
import { KEYS } from "./keys";
import { PAYMENTS } from "./payments";
import { PROVIDERS } from "./providers";
import { RELAYING } from "./relaying";
import type { Role } from "./roles";
import { SERVICE } from "./service";
import type { Secret, Setting } from "./setting";

export type { TokenConfig } from "./chain";
export type { KeySource } from "./key-source";
export { Secret } from "./setting";

export const SETTINGS = {
  ...CHAIN,
  ...KEYS,
  ...DATABASE,
  ...BLOCKS,
  ...RELAYING,
  ...PAYMENTS,
  ...SERVICE,
  ...PROVIDERS,
} as const;

/** Roles that the only process of an embedded database must have. */
const ALONE: readonly Role[] = ["api", "relayer", "indexer"];

type Settings = typeof SETTINGS;

type Parsed = {
  readonly [K in keyof Settings]: Settings[K] extends { readonly optional: true }
    ? z.output<Settings[K]["schema"]> | undefined
    : z.output<Settings[K]["schema"]>;
};

export type DatabaseConfig =
  | { readonly kind: "pglite"; readonly dir: string; readonly lockMs: number }
  | { readonly kind: "postgres"; readonly url: Secret; readonly poolSize: number };

export interface FacilitatorConfig
  extends Omit<
    Parsed,
    "databaseUrl" | "pgliteDir" | "pgliteLockMs" | "databasePoolSize" | "startBlock" | "finalityDepth" | "relayerKeys"
  > {
  readonly network: Network;
  readonly database: DatabaseConfig;
  readonly startBlock: number;
  readonly finalityDepth: number;
  /** empty without the role relayer */
  readonly relayerKeys: readonly KeySource[];
}

/**
 * Reads and checks every setting.
 * @throws ConfigError naming the first variable that is missing or malformed, never its value
 */
export function loadConfig(env: Readonly<Record<string, string | undefined>>): FacilitatorConfig {
  const parsed: Record<string, unknown> = {};
  const entries = Object.entries(SETTINGS) as [string, Setting][];
  // Settings of a single role come last, when the roles are known: another role's key is not even opened.
  entries.sort(([, a], [, b]) => Number(a.role !== undefined) - Number(b.role !== undefined));
  for (const [name, entry] of entries) {
    if (entry.role && !(parsed.roles as readonly Role[]).includes(entry.role)) continue;
    const text = env[entry.env]?.trim() || entry.fallback;
    if (text === undefined) {
      if (!entry.optional) throw missing(entry);
      continue;
    }
    const result = entry.schema.safeParse(text);
    if (!result.success) {
      const issue = result.error.issues[0];
      const path = issue?.path.length ? ` (at ${issue.path.join(".")})` : "";
      throw new ConfigError(`${entry.env} ${issue?.message ?? "is malformed"}${path}. ${entry.about}`);
    }
    parsed[name] = result.data;
  }
  return assemble(parsed as unknown as Parsed);
}

function assemble(parsed: Parsed): FacilitatorConfig {
  const { databaseUrl, pgliteDir, pgliteLockMs, databasePoolSize, startBlock, finalityDepth, relayerKeys, ...rest } =
    parsed;
  const network = networkOfChain(rest.chainId);
  const isLocal = network.name.startsWith("local-");
  if (startBlock === undefined && !isLocal) throw missing(SETTINGS.startBlock);
  if (relayerKeys === undefined && rest.roles.includes("relayer")) throw missing(SETTINGS.relayerKeys);
  if (rest.proofKey === undefined && rest.roles.includes("api")) throw missing(SETTINGS.proofKey);
  if (databaseUrl === undefined && !ALONE.every((role) => rest.roles.includes(role))) {
    throw new ConfigError(
      `ROLES needs ${ALONE.join(", ")} with the embedded database, which serves one process: name them, or set DATABASE_URL`,
    );
  }
  const database: DatabaseConfig = databaseUrl
    ? { kind: "postgres", url: databaseUrl, poolSize: databasePoolSize }
    : { kind: "pglite", dir: pgliteDir, lockMs: pgliteLockMs };
  return {
    ...rest,
    network,
    database,
    startBlock: startBlock ?? 0,
    relayerKeys: relayerKeys ?? [],
    finalityDepth: finalityDepth ?? (isLocal ? 1 : 64),
  };
}

const missing = ({ env, about }: Pick<Setting, "env" | "about">) => new ConfigError(`${env} is missing: ${about}`);

export function findToken(config: FacilitatorConfig, token: Address): TokenConfig | undefined {
  return config.tokens.find((known) => known.address === token);
}
