/**
 * Every setting of the Facilitator: its variable, unit, default and danger, grouped by file. Read once at the start;
 * nothing else reads `process.env`.
 */
import { type Address, ConfigError, type Network, networkOfChain } from "turnpike/protocol";
import type { z } from "zod";
import { BLOCKS } from "./blocks";
import { CHAIN, type TokenConfig } from "./chain";
import { refuseContradictions } from "./contradictions";
import { DATABASE } from "./database";
import type { KeySource } from "./key-source";
import { KEYS } from "./keys";
import { PAYMENTS } from "./payments";
import { PROVIDERS } from "./providers";
import { RELAYING } from "./relaying";
import type { Role } from "./roles";
import { SERVICE } from "./service";
import type { Secret, Setting } from "./setting";
import { TRACING } from "./tracing";

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
  ...TRACING,
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
    | "chains"
    | "databaseUrl"
    | "pgliteDir"
    | "pgliteLockMs"
    | "databasePoolSize"
    | "startBlock"
    | "finalityDepth"
    | "relayerKeys"
  > {
  readonly network: Network;
  readonly database: DatabaseConfig;
  readonly startBlock: number;
  readonly finalityDepth: number;
  /** empty without the role relayer */
  readonly relayerKeys: readonly KeySource[];
}

export type DatabaseSettings = Pick<FacilitatorConfig, "database" | "logLevel">;

/**
 * Reads and checks every setting of a service on one chain.
 * @throws ConfigError naming every variable that is malformed, a line for each, or every one that is missing; never a
 * secret value
 */
export function loadConfig(env: Readonly<Record<string, string | undefined>>): FacilitatorConfig {
  if (env.CHAINS?.trim())
    throw new ConfigError("CHAINS is for `loadChains`: remove it, or read the settings with that");
  const { parsed, absent } = parse(env, Object.entries(SETTINGS));
  return assemble(parsed as unknown as Parsed, absent);
}

/**
 * Reads what a command needs that works on the database alone: no key, no chain.
 * @throws ConfigError as loadConfig
 */
export function loadDatabase(env: Readonly<Record<string, string | undefined>>): DatabaseSettings {
  const { parsed } = parse(env, Object.entries({ ...DATABASE, logLevel: SERVICE.logLevel }));
  const { logLevel } = parsed as unknown as Parsed;
  return { database: databaseOf(parsed as unknown as Parsed), logLevel };
}

const databaseOf = ({ databaseUrl, databasePoolSize, pgliteDir, pgliteLockMs }: Parsed): DatabaseConfig =>
  databaseUrl
    ? { kind: "postgres", url: databaseUrl, poolSize: databasePoolSize }
    : { kind: "pglite", dir: pgliteDir, lockMs: pgliteLockMs };

function parse(
  env: Readonly<Record<string, string | undefined>>,
  entries: [string, Setting][],
): { readonly parsed: Readonly<Record<string, unknown>>; readonly absent: readonly Setting[] } {
  const parsed: Record<string, unknown> = {};
  const absent: Setting[] = [];
  const malformed: string[] = [];
  // Settings of a single role come last, when the roles are known: another role's key is not even opened.
  entries.sort(([, a], [, b]) => Number(a.role !== undefined) - Number(b.role !== undefined));
  for (const [name, entry] of entries) {
    if (entry.role && !(parsed.roles as readonly Role[]).includes(entry.role)) continue;
    const text = unquoted(env[entry.env]?.trim()) || entry.fallback;
    if (text === undefined) {
      if (!entry.optional) absent.push(entry);
      continue;
    }
    const result = entry.schema.safeParse(text);
    if (result.success) {
      parsed[name] = result.data;
      continue;
    }
    const issue = result.error.issues[0];
    const path = issue?.path.length ? ` (at ${issue.path.join(".")})` : "";
    malformed.push(`${entry.env} ${issue?.message ?? "is malformed"}${path}. ${entry.about}`);
    if (entry === SETTINGS.roles) break;
  }
  if (malformed.length > 0) throw new ConfigError(malformed.join("\n"));
  return { parsed, absent };
}

/** Some readers of env files, as podman's, leave the quotes on that a shell takes away. */
const unquoted = (text: string | undefined): string | undefined => /^'(.*)'$/s.exec(text ?? "")?.[1] ?? text;

/** @param absent required variables that are not set: nothing else of `parsed` is used then */
function assemble(parsed: Parsed, absent: readonly Setting[]): FacilitatorConfig {
  const { databaseUrl, pgliteDir, pgliteLockMs, databasePoolSize, startBlock, finalityDepth, relayerKeys, ...others } =
    parsed;
  const { chains: _read, ...rest } = others;
  const network = rest.chainId === undefined ? undefined : networkOfChain(rest.chainId);
  const isLocal = network?.name.startsWith("local-") ?? true;
  const required: readonly (Setting | false)[] = [
    ...absent,
    startBlock === undefined && !isLocal && SETTINGS.startBlock,
    relayerKeys === undefined && rest.roles.includes("relayer") && SETTINGS.relayerKeys,
    rest.proofKey === undefined && rest.roles.includes("api") && SETTINGS.proofKey,
  ];
  const unset = required.filter((each) => each !== false);
  if (unset.length > 0 || !network) throw missing(unset, unset.includes(SETTINGS.startBlock) ? network : undefined);
  if (databaseUrl === undefined && !ALONE.every((role) => rest.roles.includes(role))) {
    throw new ConfigError(
      `ROLES needs ${ALONE.join(", ")} with the embedded database, which serves one process: name them, or set DATABASE_URL`,
    );
  }
  if (rest.uptoSigner && !rest.permit2) {
    throw new ConfigError("UPTO_SIGNER needs PERMIT2: set PERMIT2 to true, or remove UPTO_SIGNER");
  }
  refuseOwnFactories(rest);
  refuseContradictions({ ...rest, relayerKeys: relayerKeys ?? [] });
  return {
    ...rest,
    network,
    database: databaseOf(parsed),
    startBlock: startBlock ?? 0,
    relayerKeys: relayerKeys ?? [],
    finalityDepth: finalityDepth ?? (isLocal ? 1 : 64),
  };
}

/** The relayer calls a factory with a payer's data: in these contracts such a call may spend or change something. */
function refuseOwnFactories({
  walletFactories,
  turnpike,
  batchSettler,
  tokens,
}: Pick<FacilitatorConfig, "walletFactories" | "turnpike" | "batchSettler" | "tokens">): void {
  const own = [turnpike, batchSettler, ...tokens.map(({ address }) => address)];
  const refused = walletFactories?.find((factory) => own.includes(factory));
  if (refused)
    throw new ConfigError(
      `WALLET_FACTORIES names ${refused}, which is no factory: it is in TURNPIKE, BATCH_SETTLER or TOKENS`,
    );
}

/** @param network the public one that START_BLOCK is asked for: another CHAIN_ID may be meant */
function missing(settings: readonly Pick<Setting, "env" | "about">[], network?: Network): ConfigError {
  const [first] = settings;
  const names = settings.map(({ env }) => env).join(", ");
  const what =
    first && settings.length === 1
      ? `${first.env} is missing: ${first.about}`
      : `${settings.length} settings are missing: ${names}. See docs/reference/settings.md for each, or facilitator/settings.env.example`;
  const hint = network ? ` CHAIN_ID ${network.chainId} is ${network.name}; a local chain needs no START_BLOCK.` : "";
  return new ConfigError(`${what}${hint}`);
}

export function findToken(config: FacilitatorConfig, token: Address): TokenConfig | undefined {
  return config.tokens.find((known) => known.address === token);
}
