/**
 * Every setting of the Facilitator in one table: its variable, unit, default and danger. Read once at the start, from
 * the environment; nothing else reads `process.env`. Secrets are wrapped so that no log or error can print them.
 */
import { inspect } from "node:util";
import {
  type Address,
  addressSchema,
  ConfigError,
  type Hex,
  type Network,
  networkOfChain,
  parseAmount,
} from "turnpike/protocol";
import { z } from "zod";

/** A value that prints as `[redacted]` wherever it ends up. */
export class Secret<T extends string = string> {
  readonly #value: T;
  constructor(value: T) {
    this.#value = value;
  }
  reveal(): T {
    return this.#value;
  }
  toString(): string {
    return "[redacted]";
  }
  toJSON(): string {
    return "[redacted]";
  }
  [inspect.custom](): string {
    return "[redacted]";
  }
}

const list = (text: string): string[] =>
  text
    .split(",")
    .map((part) => part.trim())
    .filter(Boolean);

const key = z
  .string()
  .regex(/^0x[0-9a-fA-F]{64}$/, "must be a private key: 0x and 64 hex digits")
  .transform((value) => new Secret<Hex>(value.toLowerCase() as Hex));
const url = z.url({ protocol: /^https?$/, error: "must be an http(s) URL" });
const whole = (min: number, max = Number.MAX_SAFE_INTEGER) =>
  z
    .string()
    .regex(/^[0-9]+$/, "must be a whole number")
    .transform(Number)
    .pipe(z.number().min(min).max(max));
const amount = z
  .string()
  .refine((text) => parseAmount(text) !== undefined, "must be a whole number of base units")
  .transform(BigInt);
const flag = z.enum(["true", "false"], { error: "must be true or false" }).transform((text) => text === "true");
const addresses = z.string().transform(list).pipe(z.array(addressSchema).min(1));

export const tokenConfigSchema = z.object({
  address: addressSchema,
  /** of the token's EIP-712 domain */
  name: z.string().min(1),
  version: z.string().min(1),
  decimals: z.number().int().min(0).max(36).default(6),
  /** base units: less is refused, since it would cost more gas than it moves */
  minAmount: z
    .string()
    .refine((text) => parseAmount(text) !== undefined, "must be a decimal string of base units")
    .transform(BigInt)
    .default(100n),
  /** base units: from here on `LARGE_CONFIRMATIONS` are waited for */
  largeAmount: z
    .string()
    .refine((text) => parseAmount(text) !== undefined, "must be a decimal string of base units")
    .transform(BigInt)
    .default(1_000_000_000n),
});
export type TokenConfig = z.output<typeof tokenConfigSchema>;

const tokens = z
  .string()
  .transform((text, context) => {
    try {
      return JSON.parse(text) as unknown;
    } catch {
      context.addIssue({ code: "custom", message: "must be JSON" });
      return z.NEVER;
    }
  })
  .pipe(z.array(tokenConfigSchema).min(1));

interface Setting<S extends z.ZodType> {
  readonly env: string;
  readonly about: string;
  /** as it would stand in the environment; absent: the setting is required, unless `optional` */
  readonly fallback?: string;
  readonly optional?: true;
  /** what goes wrong when it is set carelessly */
  readonly danger?: string;
  readonly schema: S;
}
const setting = <S extends z.ZodType>(value: Setting<S>) => value;
const optional = <S extends z.ZodType>(value: Setting<S>) => ({ ...value, optional: true as const });

export const SETTINGS = {
  chainId: setting({ env: "CHAIN_ID", about: "Chain that is settled on, by EIP-155 id.", schema: whole(1) }),
  rpcUrls: setting({
    env: "RPC_URLS",
    about: "JSON-RPC URLs of that chain, comma-separated; the first is preferred, the others are asked when it fails.",
    danger: "A lying RPC can delay payments; two independent ones are better than one.",
    schema: z.string().transform(list).pipe(z.array(url).min(1)),
  }),
  turnpike: setting({ env: "TURNPIKE", about: "Address of the Turnpike contract.", schema: addressSchema }),
  batchSettler: setting({
    env: "BATCH_SETTLER",
    about: "Address of the BatchSettler contract.",
    schema: addressSchema,
  }),
  tokens: setting({
    env: "TOKENS",
    about:
      'Tokens that are settled: JSON [{"address","name","version","decimals","minAmount","largeAmount"}], name and version of the EIP-712 domain, amounts as decimal strings of base units.',
    danger: "A token that is not a well-behaved EIP-3009 stablecoin can burn the relayer's gas.",
    schema: tokens,
  }),
  payTo: optional({
    env: "PAY_TO",
    about: "Payees that are settled for, comma-separated addresses; every payee when absent.",
    danger: "When absent, strangers can spend the relayer's gas on payments to themselves.",
    schema: addresses,
  }),
  relayerKeys: setting({
    env: "RELAYER_KEYS",
    about: "Private keys that pay the gas, comma-separated; each is one lane.",
    danger: "A key that anything else also sends with stops its lane.",
    schema: z.string().transform(list).pipe(z.array(key).min(1)),
  }),
  proofKey: setting({
    env: "PROOF_KEY",
    about: "Private key that signs payment proofs; gates pin its address.",
    danger: "Whoever holds it can forge proofs of payment.",
    schema: key,
  }),
  databaseUrl: optional({
    env: "DATABASE_URL",
    about: "PostgreSQL connection URL; several processes may share it. Absent: the embedded database in PGLITE_DIR.",
    schema: z
      .string()
      .regex(/^postgres(ql)?:\/\//, "must be a postgres:// URL")
      .transform((value) => new Secret(value)),
  }),
  pgliteDir: setting({
    env: "PGLITE_DIR",
    about: "Folder of the embedded database; one process at a time.",
    fallback: ".turnpike/db",
    schema: z.string().min(1),
  }),
  pgliteLockMs: setting({
    env: "PGLITE_LOCK_MS",
    about: "Milliseconds after which the lock of a process that died on PGLITE_DIR is taken over.",
    fallback: "10000",
    danger: "Too short, and a process that merely stalls loses its database to another; it ends itself then.",
    schema: whole(2_000, 600_000),
  }),
  databasePoolSize: setting({
    env: "DATABASE_POOL_SIZE",
    about: "PostgreSQL connections of this process.",
    fallback: "10",
    schema: whole(2, 200),
  }),
  startBlock: optional({
    env: "START_BLOCK",
    about: "Block from which the chain is read: that of Turnpike's deployment. Default 0 on local chains.",
    danger: "Too late, and earlier plans and subscriptions are unknown here.",
    schema: whole(0),
  }),
  confirmations: setting({
    env: "CONFIRMATIONS",
    about: "Blocks, the transaction's own included, until a payment counts as settled.",
    fallback: "1",
    danger: "1 trusts that the newest block is not reorganised away; right for an L2 with one sequencer only.",
    schema: whole(1, 1_000),
  }),
  largeConfirmations: setting({
    env: "LARGE_CONFIRMATIONS",
    about: "The same for payments of the token's `largeAmount` and above.",
    fallback: "3",
    schema: whole(1, 1_000),
  }),
  finalityDepth: optional({
    env: "FINALITY_DEPTH",
    about: "Blocks after which a reorganisation is taken to be impossible. Default 64; 1 on local chains.",
    danger: "Too small, and a payment may be called failed that still lands.",
    schema: whole(1, 100_000),
  }),
  blockTimeMs: setting({
    env: "BLOCK_TIME_MS",
    about: "Milliseconds between blocks, for pacing batches.",
    fallback: "2000",
    schema: whole(1, 60_000),
  }),
  pollMs: setting({
    env: "POLL_MS",
    about: "Milliseconds between looks at the chain's head.",
    fallback: "250",
    schema: whole(10, 60_000),
  }),
  rpcTimeoutMs: setting({
    env: "RPC_TIMEOUT_MS",
    about: "Milliseconds until an unanswered RPC request is given up and the next URL asked.",
    fallback: "10000",
    schema: whole(100, 120_000),
  }),
  lanesInFlight: setting({
    env: "LANE_IN_FLIGHT",
    about: "Transactions of one key that may wait in the pool.",
    fallback: "16",
    danger: "Public pools drop more than 16 per key.",
    schema: whole(1, 64),
  }),
  laneLeaseMs: setting({
    env: "LANE_LEASE_MS",
    about: "Milliseconds for which one process owns a key before it has to renew.",
    fallback: "15000",
    schema: whole(1_000, 600_000),
  }),
  bumpAfterMs: setting({
    env: "BUMP_AFTER_MS",
    about: "Milliseconds without inclusion after which the fee of the oldest transaction is raised.",
    fallback: "20000",
    schema: whole(500, 3_600_000),
  }),
  maxFeePerGasWei: setting({
    env: "MAX_FEE_PER_GAS_WEI",
    about: "Ceiling of the fee per gas, in wei; nothing is sent above it.",
    fallback: "100000000000",
    danger: "Too high, and a fee spike empties the relayer; too low, and payments wait.",
    schema: amount,
  }),
  priorityFeeWei: setting({
    env: "PRIORITY_FEE_WEI",
    about: "Tip per gas, in wei, of a first attempt.",
    fallback: "1000000",
    schema: amount,
  }),
  maxFeePerDayWei: setting({
    env: "MAX_FEE_PER_DAY_WEI",
    about: "Ceiling of what one key may commit to fees within 24 hours, in wei.",
    fallback: "1000000000000000000",
    schema: amount,
  }),
  minBalanceWei: setting({
    env: "MIN_BALANCE_WEI",
    about: "Relayer balance, in wei, below which health reports the key as low and new payments are refused.",
    fallback: "1000000000000000",
    schema: amount,
  }),
  adoptNonce: setting({
    env: "ADOPT_NONCE",
    about: "Take the chain's nonce at the start where the chain is ahead of the database (after restoring a backup).",
    fallback: "false",
    danger: "Hides that somebody else uses the key.",
    schema: flag,
  }),
  batchItems: setting({
    env: "BATCH_ITEMS",
    about: "Payments in one transaction, at most.",
    fallback: "250",
    schema: whole(1, 1_000),
  }),
  batchGas: setting({
    env: "BATCH_GAS",
    about: "Gas limit of one batch, at most.",
    fallback: "15000000",
    danger: "Above 2^24 a transaction is invalid since the Osaka fork.",
    schema: whole(500_000, 16_777_216),
  }),
  batchBytes: setting({
    env: "BATCH_BYTES",
    about: "Bytes of calldata of one batch, at most.",
    fallback: "100000",
    schema: whole(2_000, 120_000),
  }),
  gasPerItem: setting({
    env: "GAS_PER_ITEM",
    about: "Gas that each payment in a batch may use.",
    fallback: "120000",
    danger: "Too little, and honest payments of contract wallets fail.",
    schema: whole(60_000, 1_000_000),
  }),
  maxQueueAgeMs: setting({
    env: "MAX_QUEUE_AGE_MS",
    about: "Age of the oldest queued payment, in milliseconds, past which new ones are refused with 503.",
    fallback: "10000",
    schema: whole(100, 600_000),
  }),
  maxLossesPerPayer: setting({
    env: "MAX_LOSSES_PER_PAYER",
    about: "Payments of one payer within an hour that cost gas and moved nothing, until the payer is refused.",
    fallback: "5",
    danger: "Too high, and a payer who empties the wallet in time burns the relayer's gas.",
    schema: whole(1, 1_000_000),
  }),
  maxLossesPerPayee: setting({
    env: "MAX_LOSSES_PER_PAYEE",
    about: "The same for one payee.",
    fallback: "200",
    schema: whole(1, 1_000_000),
  }),
  minWindowSec: setting({
    env: "MIN_WINDOW_SEC",
    about: "Seconds that an authorization must still be valid for to be accepted.",
    fallback: "6",
    danger: "Too short, and authorizations expire in the queue.",
    schema: whole(1, 3_600),
  }),
  maxWindowSec: setting({
    env: "MAX_WINDOW_SEC",
    about: "Seconds that an authorization may be valid for, at most.",
    fallback: "86400",
    schema: whole(60, 31_536_000),
  }),
  authorizeWaitMs: setting({
    env: "AUTHORIZE_WAIT_MS",
    about: "Milliseconds for which POST /authorize waits for the chain before it answers 202.",
    fallback: "25000",
    schema: whole(0, 120_000),
  }),
  actsPerHour: setting({
    env: "ACTS_PER_HOUR",
    about: "Signed acts (signups, changes, permits) that are submitted for one account within an hour.",
    fallback: "60",
    danger: "Acts cost the relayer gas and the account nothing.",
    schema: whole(1, 100_000),
  }),
  requestsPerMinute: setting({
    env: "REQUESTS_PER_MINUTE",
    about: "POST requests from one address within a minute; 0 for no limit.",
    fallback: "0",
    danger: "Behind a proxy every client has the proxy's address: limit there instead.",
    schema: whole(0, 10_000_000),
  }),
  renewals: setting({
    env: "RENEWALS",
    about: "Whether this process collects renewals that fall due.",
    fallback: "true",
    danger: "If no process does, subscriptions lapse at the end of their grace.",
    schema: flag,
  }),
  renewalBatch: setting({
    env: "RENEWAL_BATCH",
    about: "Renewals in one transaction, at most.",
    fallback: "200",
    schema: whole(1, 400),
  }),
  host: setting({ env: "HOST", about: "Address to listen on.", fallback: "127.0.0.1", schema: z.string().min(1) }),
  port: setting({
    env: "PORT",
    about: "Port to listen on; 0 picks a free one.",
    fallback: "8402",
    schema: whole(0, 65_535),
  }),
  logLevel: setting({
    env: "LOG_LEVEL",
    about: "silent, error, warn, info or debug.",
    fallback: "info",
    schema: z.enum(["silent", "error", "warn", "info", "debug"]),
  }),
} as const;

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
    "databaseUrl" | "pgliteDir" | "pgliteLockMs" | "databasePoolSize" | "startBlock" | "finalityDepth"
  > {
  readonly network: Network;
  readonly database: DatabaseConfig;
  readonly startBlock: number;
  readonly finalityDepth: number;
}

/**
 * Reads and checks every setting.
 * @throws ConfigError naming the first variable that is missing or malformed, never its value
 */
export function loadConfig(env: Readonly<Record<string, string | undefined>>): FacilitatorConfig {
  const parsed: Record<string, unknown> = {};
  for (const [name, entry] of Object.entries(SETTINGS) as [string, Setting<z.ZodType>][]) {
    const text = env[entry.env]?.trim() || entry.fallback;
    if (text === undefined) {
      if (!entry.optional) throw new ConfigError(`${entry.env} is missing: ${entry.about}`);
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
  const { databaseUrl, pgliteDir, pgliteLockMs, databasePoolSize, startBlock, finalityDepth, ...rest } = parsed;
  const network = networkOfChain(rest.chainId);
  const isLocal = network.name.startsWith("local-");
  if (startBlock === undefined && !isLocal) {
    throw new ConfigError(`START_BLOCK is missing: ${SETTINGS.startBlock.about}`);
  }
  const database: DatabaseConfig = databaseUrl
    ? { kind: "postgres", url: databaseUrl, poolSize: databasePoolSize }
    : { kind: "pglite", dir: pgliteDir, lockMs: pgliteLockMs };
  return {
    ...rest,
    network,
    database,
    startBlock: startBlock ?? 0,
    finalityDepth: finalityDepth ?? (isLocal ? 1 : 64),
  };
}

export function findToken(config: FacilitatorConfig, token: Address): TokenConfig | undefined {
  return config.tokens.find((known) => known.address === token);
}
