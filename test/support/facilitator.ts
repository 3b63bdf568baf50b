/**
 * The Facilitator's core on a chain of its own, for tests: real blocks, a real database, nothing mocked. The embedded
 * database serves unless TEST_PG_URL names a PostgreSQL server, on which each world gets a database of its own.
 */
import { cpSync, existsSync, mkdtempSync, renameSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { Contract, Wallet } from "ethers";
import pino from "pino";
import {
  type Address,
  addressOfKey,
  type Hex,
  issueMemo,
  keccakText,
  paymentIdOf,
  paymentNonce,
  randomBytes,
  randomRef,
  type SignedPayment,
  signDigest,
  type TransferAuthorization,
  toHex,
  transferTypedData,
  typedDataDigest,
} from "turnpike/protocol";
import { type Core, type CoreEffects, startCore } from "../../facilitator/src/app/core";
import { type FacilitatorConfig, loadConfig } from "../../facilitator/src/config";
import { MIGRATIONS } from "../../facilitator/src/db/migrations";
import { openStore } from "../../facilitator/src/db/open";
import { type ExactRequest, purchaseOfServer } from "../../facilitator/src/payments";
import { type Chain, type LocalChain, startChain, testKey } from "./chain";
import { deployAll, type LocalContracts } from "./deployment";
import { startPostgres, type TestPostgres } from "./postgres";

export { until } from "./until";

/** Not so fast that a service with little of a processor falls behind. */
export const BLOCK_MS = 200;
export const RESOURCE = "https://api.example/quote?symbol=ABC";
const MEMO_KEY = { id: "k1", secret: new Uint8Array(32).fill(7) };

export interface Payer {
  readonly key: Hex;
  readonly address: Address;
}

export interface PaymentFields {
  /** of a gate's purchase; absent: a stock server asks */
  readonly grantId?: Hex;
  readonly payer?: Payer;
  readonly payTo?: Address;
  readonly amount?: bigint;
  readonly resource?: string;
  /** of the memo; the same one with the same resource is the same nonce */
  readonly ref?: string;
  /** seconds from now, by the chain */
  readonly validForSec?: number;
  readonly validAfter?: bigint;
  readonly token?: Address;
  /** of the token's EIP-712 domain */
  readonly tokenName?: string;
  readonly network?: string;
}

export interface FacilitatorWorld {
  readonly chain: LocalChain;
  readonly contracts: LocalContracts;
  readonly token: Contract;
  readonly payee: Address;
  /** with so many base units; each call another account, unless `key` is given */
  payer(funds?: bigint, key?: Hex): Promise<Payer>;
  nowSec(): Promise<number>;
  signPayment(fields?: PaymentFields): Promise<SignedPayment>;
  /** a standard x402 payment, with a random nonce */
  signExact(fields?: PaymentFields): Promise<ExactRequest>;
  idOf(signed: SignedPayment | ExactRequest): Hex;
  /** transfers to the payee, by the token's own logs */
  transfers(payTo?: Address): Promise<{ from: string; value: bigint; transaction: string }[]>;
  env(more?: Readonly<Record<string, string>>): Record<string, string>;
  config(more?: Readonly<Record<string, string>>): FacilitatorConfig;
  /** A core on the world's database; stopped with the world unless before. */
  core(more?: Readonly<Record<string, string>>, effects?: Partial<CoreEffects>): Promise<Core>;
  /** Settings of a database of one's own, beside the world's. */
  database(): Promise<Record<string, string>>;
  /** Another database for the cores to come: as if the old one were lost. */
  loseDatabase(): Promise<void>;
  stop(): Promise<void>;
}

export interface WorldOptions {
  /** undefined: each transaction is mined at once */
  readonly blockMs?: number | undefined;
  readonly chainId?: number;
  /** its node has a process of its own, which can be suspended */
  readonly own?: boolean;
  /** its databases are on this server; on the embedded one when absent */
  readonly postgres?: TestPostgres;
}

export async function startWorld(options: WorldOptions = { blockMs: BLOCK_MS }): Promise<FacilitatorWorld> {
  const { blockMs, chainId, own = false } = options;
  const chain = await startChain({
    own,
    ...(blockMs !== undefined && { blockMs }),
    ...(chainId !== undefined && { chainId }),
  });
  const contracts = await deployAll(chain);
  const relayerKey = testKey(`relayer ${Math.random()}`) as Hex;
  await fund(chain, addressOfKey(relayerKey));
  const minter = await chain.wallet("minter");
  const token = new Contract(contracts.token, TOKEN_ABI, minter);
  const payee = addressOfKey(testKey("payee") as Hex);
  const homes: string[] = [];
  const cores: Core[] = [];
  let minted = 0;
  /** Many at once: the nonce is counted here, not asked for. */
  const mint = async (to: Address, amount: bigint): Promise<void> => {
    await (await token.getFunction("mint")(to, amount, { nonce: minted++, gasLimit: 100_000n })).wait();
  };
  const postgres = options.postgres ?? (process.env.TEST_PG_URL ? await startPostgres() : undefined);
  const newDatabase = async (): Promise<Record<string, string>> => {
    if (postgres) return { DATABASE_URL: await postgres.migrated() };
    const { home, dir } = await embeddedDatabase();
    homes.push(home);
    return { PGLITE_DIR: dir };
  };
  let database = await newDatabase();

  const nowSec = async (): Promise<number> => (await chain.provider.getBlock("latest"))?.timestamp ?? 0;

  const env = (more: Readonly<Record<string, string>> = {}): Record<string, string> => ({
    CHAIN_ID: String(chain.chainId),
    RPC_URLS: chain.rpcUrl,
    TURNPIKE: contracts.turnpike,
    BATCH_SETTLER: contracts.batchSettler,
    TOKENS: JSON.stringify([{ address: contracts.token, name: contracts.tokenName, version: contracts.tokenVersion }]),
    RELAYER_KEYS: relayerKey,
    PROOF_KEY: testKey("proof signer"),
    BLOCK_TIME_MS: String(options.blockMs ?? BLOCK_MS),
    POLL_MS: "150",
    LANE_LEASE_MS: "2000",
    METRICS_PORT: "public",
    LOG_LEVEL: process.env.TURNPIKE_TEST_LOG ?? "silent",
    ...database,
    ...more,
  });

  async function authorization(
    fields: PaymentFields,
    nonce: Hex,
  ): Promise<{ payer: Payer; signed: TransferAuthorization; signature: Hex }> {
    const payer = fields.payer ?? (await world.payer());
    const signed: TransferAuthorization = {
      from: payer.address,
      to: fields.payTo ?? payee,
      value: fields.amount ?? 250_000n,
      validAfter: fields.validAfter ?? 0n,
      validBefore: BigInt((await nowSec()) + (fields.validForSec ?? 300)),
      nonce,
    };
    const domain = {
      chainId: chain.chainId,
      token: fields.token ?? contracts.token,
      name: fields.tokenName ?? contracts.tokenName,
      version: contracts.tokenVersion,
    };
    return { payer, signed, signature: signDigest(typedDataDigest(transferTypedData(domain, signed)), payer.key) };
  }

  const world: FacilitatorWorld = {
    chain,
    contracts,
    token,
    payee,
    async payer(funds = 1_000_000n, key = toHex(randomBytes(32))) {
      const address = addressOfKey(key);
      if (funds > 0n) await mint(address, funds);
      return { key, address };
    },
    nowSec,
    async signPayment(fields = {}) {
      const resource = fields.resource ?? RESOURCE;
      const ref = fields.ref ?? randomRef();
      const network = fields.network ?? contracts.network;
      const { signed, signature } = await authorization(fields, paymentNonce(ref, resource));
      const quoted = {
        method: "GET",
        resource,
        amount: signed.value,
        token: contracts.token,
        payTo: signed.to,
        network,
      };
      const memo = issueMemo(MEMO_KEY, quoted, ref, Number(signed.validBefore) + 1);
      return {
        scheme: "exact",
        network,
        token: fields.token ?? contracts.token,
        authorization: signed,
        signature,
        memo,
        resource,
      };
    },
    async signExact(fields = {}) {
      const { signed, signature } = await authorization(fields, toHex(randomBytes(32)));
      return {
        network: fields.network ?? contracts.network,
        token: fields.token ?? contracts.token,
        payTo: signed.to,
        amount: signed.value,
        resource: fields.resource ?? RESOURCE,
        maxTimeoutSec: 20,
        purchase: fields.grantId ? { grantId: fields.grantId, isGate: true } : purchaseOfServer(),
        authorization: signed,
        signature,
      };
    },
    idOf: ({ token: address, authorization: { from, nonce } }) =>
      paymentIdOf({ chainId: chain.chainId, token: address, payer: from, nonce }),
    async transfers(payTo = payee) {
      const logs = await token.queryFilter(token.filters.Transfer?.(null, payTo) ?? "Transfer", 0);
      return logs.flatMap((log) =>
        "args" in log ? [{ from: log.args.from, value: log.args.value, transaction: log.transactionHash }] : [],
      );
    },
    env,
    config: (more) => loadConfig(env(more)),
    async core(more, effects = {}) {
      const config = loadConfig(env(more));
      const core = await startCore(config, { log: pino({ level: config.logLevel }), ...effects });
      cores.push(core);
      return core;
    },
    database: newDatabase,
    async loseDatabase() {
      database = await newDatabase();
    },
    async stop() {
      for (const core of cores) await core.stop();
      await chain.stop();
      for (const home of homes) rmSync(home, { recursive: true, force: true });
      if (!options.postgres) await postgres?.stop();
    },
  };
  return world;
}

export async function fund(chain: Chain, address: Address): Promise<void> {
  await chain.provider.send("hardhat_setBalance", [address, "0x3635c9adc5dea00000"]);
}

export function walletOf(chain: Chain, key: Hex): Wallet {
  return new Wallet(key, chain.provider);
}

const TOKEN_ABI = [
  "function mint(address to, uint256 amount)",
  "function transfer(address to, uint256 amount) returns (bool)",
  "function balanceOf(address account) view returns (uint256)",
  "function authorizationState(address authorizer, bytes32 nonce) view returns (bool)",
  "function transferWithAuthorization(address from, address to, uint256 value, uint256 validAfter, uint256 validBefore, bytes32 nonce, bytes signature)",
  "function cancelAuthorization(address authorizer, bytes32 nonce, bytes signature)",
  "function approve(address spender, uint256 amount) returns (bool)",
  "event Transfer(address indexed from, address indexed to, uint256 value)",
];

/** An embedded database of one's own. home: its folder's, to be removed */
export async function embeddedDatabase(): Promise<{ readonly home: string; readonly dir: string }> {
  const home = mkdtempSync(path.join(tmpdir(), "turnpike-core-"));
  const dir = path.join(home, "db");
  cpSync(await emptyDatabase(), dir, { recursive: true });
  return { home, dir };
}

/** A folder to copy from: making an embedded database takes seconds, and every test wants its own. */
export async function emptyDatabase(): Promise<string> {
  const version = keccakText(JSON.stringify(MIGRATIONS)).slice(2, 14);
  const template = path.join(tmpdir(), `turnpike-empty-database-${version}`);
  if (existsSync(template)) return template;
  const made = mkdtempSync(path.join(tmpdir(), "turnpike-making-"));
  const store = await openStore({ kind: "pglite", dir: path.join(made, "db"), lockMs: 10_000 });
  await store.close();
  try {
    renameSync(path.join(made, "db"), template);
  } catch (error) {
    // Another test process was faster: its folder is as good.
    if (!existsSync(template)) throw error;
  }
  rmSync(made, { recursive: true, force: true });
  return template;
}
