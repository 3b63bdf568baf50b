/**
 * Runs thousands of renewals that fall due at once on anvil with one block per second. Two Facilitators on one
 * PostgreSQL collect them; one is killed when a third is done. One in ten fails, in five ways. Results come from the
 * chain's own logs.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import path from "node:path";
import { Contract, ContractFactory, type InterfaceAbi, id, JsonRpcProvider, keccak256, MaxUint256 } from "ethers";
import { Client } from "pg";
import { createPlan, turnpikeInterface } from "turnpike/chain";
import { type Address, addressOfKey, type Hex } from "turnpike/protocol";
import { freePort, testKey } from "../../scripts/sandbox/chain";
import { signupArgs } from "../../test/support/acts";
import { CHAIN_ID, type LoadChain, startLoadChain } from "../settle/chain";
import { end, endWithParent, ROOT } from "../settle/process";

export interface LiveAsk {
  readonly serverUrl: string;
  readonly anvil: string;
  readonly subscriptions: number;
  say(line: string): void;
}

export interface LiveReport {
  readonly subscriptions: number;
  readonly expected: number;
  readonly renewed: number;
  /** periods charged more than once */
  readonly doubled: number;
  readonly failing: number;
  /** subscriptions with a failure event */
  readonly failuresReported: number;
  /** number of failures by reason */
  readonly reasons: Readonly<Record<string, number>>;
  readonly seconds: number;
  readonly perSecond: number;
  readonly transactions: number;
  readonly gasPerRenewal: number;
}

const DAY_SEC = 86_400;
const INTERVAL_SEC = 30 * DAY_SEC;
const SUBSCRIBERS = 100;
const IN_ONE_TRANSACTION = 25;
const PATIENCE_MS = 600_000;
const FAULTS = ["FalseToken", "PausedToken", "RevertBombToken"] as const;

const TOKEN_ABI = [
  "function mint(address to, uint256 amount)",
  "function approve(address spender, uint256 amount) returns (bool)",
  "function transfer(address to, uint256 amount) returns (bool)",
  "function arm(bool armed)",
];

export async function measureLive({ serverUrl, anvil, subscriptions, say }: LiveAsk): Promise<LiveReport> {
  const chain = await startLoadChain(anvil);
  const provider = new JsonRpcProvider(chain.rpcUrl, CHAIN_ID, { staticNetwork: true, cacheTimeout: -1 });
  provider.pollingInterval = 100;
  const name = `live_${Math.random().toString(36).slice(2, 8)}`;
  const admin = await connect(serverUrl);
  await admin.query(`create database ${name}`);
  const url = new URL(serverUrl);
  url.pathname = `/${name}`;
  const program = buildProgram();
  const runners: ChildProcess[] = [];
  try {
    const world = await subscribeAll(chain, provider, subscriptions);
    say(`${subscriptions} subscriptions exist, of which ${world.failing} will fail`);
    const keys = ["runner 1", "runner 2"].map((each) => testKey(each) as Hex);
    for (const key of keys) await chain.giveGas(addressOfKey(key));
    const env = settings(chain, world.tokens, keys, url.href);
    for (let i = 0; i < 2; i++) runners.push(await startRunner(program.file, env));
    const db = await connect(url.href);
    await until(async () => (await count(db, "select count(*) from renewal_due")) === subscriptions, "all are read");

    await chain.mine("each second");
    await provider.send("evm_increaseTime", [INTERVAL_SEC]);
    await provider.send("evm_mine", []);
    const startedMs = performance.now();
    const expected = subscriptions - world.failing;
    const renewed = (): Promise<number> =>
      count(db, "select count(*) from events where type = 'subscription.renewed' and not reverted");
    await until(async () => (await renewed()) >= expected / 3, "a third is collected");
    runners[0]?.kill("SIGKILL");
    say("one of the two runners is killed");
    let doneMs = performance.now();
    await until(async () => {
      const all = await renewed();
      doneMs = performance.now();
      return all >= expected;
    }, "all are collected");
    const failed = "select count(distinct object_id) from events where type = 'subscription.renewal_failed'";
    await until(async () => (await count(db, failed)) >= world.failing, "every failure has its event");
    const seconds = (doneMs - startedMs) / 1_000;
    const logs = await renewedLogs(chain, provider);
    const periods = new Set(logs);
    const { rows } = await db.query<{ gas: string; transactions: string }>(
      "select sum(gas_used) as gas, count(*) as transactions from transactions where purpose like 'renew%' and status = 'mined'",
    );
    const reasons = await db.query<{ reason: string; count: string }>(
      `select payload->>'reason' as reason, count(distinct object_id) from events where type = 'subscription.renewal_failed' group by 1`,
    );
    await db.end();
    return {
      subscriptions,
      expected,
      renewed: periods.size,
      doubled: logs.length - periods.size,
      failing: world.failing,
      failuresReported: reasons.rows.reduce((sum, row) => sum + Number(row.count), 0),
      reasons: Object.fromEntries(reasons.rows.map((row) => [row.reason, Number(row.count)])),
      seconds,
      perSecond: expected / seconds,
      transactions: Number(rows[0]?.transactions ?? 0),
      gasPerRenewal: Number(rows[0]?.gas ?? 0) / Math.max(1, logs.length),
    };
  } finally {
    for (const runner of runners) await end(runner);
    program.remove();
    provider.destroy();
    await chain.stop();
    await admin.query(`drop database ${name} with (force)`);
    await admin.end();
  }
}

interface Subscribed {
  readonly failing: number;
  readonly tokens: readonly Address[];
}

/** A hundred subscribers with as many subscriptions each; the last ten of them fail, two for each cause. */
async function subscribeAll(chain: LoadChain, provider: JsonRpcProvider, subscriptions: number): Promise<Subscribed> {
  const { contracts } = chain;
  const each = subscriptions / SUBSCRIBERS;
  const minter = await provider.getSigner(0);
  const faulty = await Promise.all(FAULTS.map((fault) => deployFaulty(fault, minter)));
  const merchants = await Promise.all(["merchant 1", "merchant 2"].map((each) => impersonated(chain, provider, each)));
  const planOf = async (token: string, place: number): Promise<Hex> => {
    const merchant = merchants[place] as (typeof merchants)[number];
    const terms = { token: token as Address, amount: 1_000_000n, intervalSec: INTERVAL_SEC, graceSec: 3 * DAY_SEC };
    return (await createPlan(merchant as never, contracts.turnpike, { ...terms, payTo: merchant.address as Address }))
      .planId;
  };
  const sound = [await planOf(contracts.token, 0), await planOf(contracts.token, 1)];
  const broken: Hex[] = [];
  for (const token of faulty) broken.push(await planOf(await token.getAddress(), 0));

  const tokenAt = (place: number): Contract => {
    const fault = place - (SUBSCRIBERS - 6);
    return fault >= 0 ? (faulty[Math.floor(fault / 2)] as Contract) : new Contract(contracts.token, TOKEN_ABI, minter);
  };
  const accounts: { address: string; token: Contract }[] = [];
  for (let place = 0; place < SUBSCRIBERS; place++) {
    const subscriber = await impersonated(chain, provider, `subscriber ${place}`);
    const token = tokenAt(place);
    const fault = place - (SUBSCRIBERS - 6);
    const planId = (fault >= 0 ? broken[Math.floor(fault / 2)] : sound[place % 2]) as Hex;
    await call(token, "mint", [subscriber.address, 10n ** 15n]);
    await call(token.connect(subscriber) as Contract, "approve", [contracts.turnpike, MaxUint256]);
    for (let start = 0; start < each; start += IN_ONE_TRANSACTION) {
      const calls = Array.from({ length: Math.min(IN_ONE_TRANSACTION, each - start) }, (_, index) =>
        turnpikeInterface.encodeFunctionData(
          "subscribe",
          signupArgs(subscriber.address, { planId, secretHash: keccak256(id(`${place} ${start + index}`)) }),
        ),
      );
      const data = turnpikeInterface.encodeFunctionData("multicall", [calls]);
      await (await subscriber.sendTransaction({ to: contracts.turnpike, data, gasLimit: 15_000_000 })).wait();
    }
    accounts.push({ address: subscriber.address, token });
  }
  for (const token of faulty) await call(token, "arm", [true]);
  const failing = accounts.slice(-10);
  for (const [index, { address, token }] of failing.slice(0, 4).entries()) {
    const subscriber = (await impersonatedAt(provider, address)) as never;
    const own = token.connect(subscriber) as Contract;
    if (index < 2) await call(own, "approve", [contracts.turnpike, 0n]);
    else await call(own, "transfer", [await minter.getAddress(), 10n ** 15n - 1_000_000n * BigInt(each)]);
  }
  const tokens = [contracts.token, ...(await Promise.all(faulty.map((token) => token.getAddress())))] as Address[];
  return { failing: 10 * each, tokens };
}

async function deployFaulty(
  name: string,
  signer: Awaited<ReturnType<JsonRpcProvider["getSigner"]>>,
): Promise<Contract> {
  const file = path.join(ROOT, `artifacts/contracts/test/FaultyTokens.sol/${name}.json`);
  const { abi, bytecode } = require(file) as { abi: InterfaceAbi; bytecode: string };
  const deployed = await (await new ContractFactory(abi, bytecode, signer).deploy()).waitForDeployment();
  return new Contract(await deployed.getAddress(), TOKEN_ABI, signer);
}

async function impersonated(chain: LoadChain, provider: JsonRpcProvider, name: string) {
  const address = addressOfKey(testKey(`live ${name}`) as Hex);
  await chain.giveGas(address);
  return impersonatedAt(provider, address);
}

async function impersonatedAt(provider: JsonRpcProvider, address: string) {
  await provider.send("anvil_impersonateAccount", [address]);
  return provider.getSigner(address);
}

async function call(contract: Contract, method: string, args: unknown[]): Promise<void> {
  await (await contract.getFunction(method)(...args)).wait();
}

/** Returns one entry for each `Renewed`: subscription and period. */
async function renewedLogs(chain: LoadChain, provider: JsonRpcProvider): Promise<string[]> {
  const head = await provider.getBlockNumber();
  const topics = [turnpikeInterface.getEvent("Renewed")?.topicHash ?? ""];
  const found: string[] = [];
  for (let from = 0; from <= head; from += 200) {
    const filter = { address: chain.contracts.turnpike, topics, fromBlock: from, toBlock: Math.min(head, from + 199) };
    for (const log of await provider.getLogs(filter)) found.push(`${log.topics[1]}/${log.data}`);
  }
  return found;
}

function settings(chain: LoadChain, tokens: readonly Address[], keys: readonly Hex[], databaseUrl: string) {
  const { contracts } = chain;
  const [sound, ...faulty] = tokens.map((address, index) =>
    index === 0
      ? { address, name: contracts.tokenName, version: contracts.tokenVersion }
      : { address, name: "Faulty", version: "1" },
  );
  return {
    CHAIN_ID: String(CHAIN_ID),
    RPC_URLS: chain.rpcUrl,
    TURNPIKE: contracts.turnpike,
    BATCH_SETTLER: contracts.batchSettler,
    TOKENS: JSON.stringify([sound, ...faulty]),
    RELAYER_KEYS: keys.join(","),
    PROOF_KEY: testKey("proofs"),
    DATABASE_URL: databaseUrl,
    METRICS_PORT: "public",
    START_BLOCK: "0",
    FINALITY_DEPTH: "1",
    BLOCK_TIME_MS: "1000",
    LANE_LEASE_MS: "5000",
    LOG_LEVEL: "info",
    MAX_FEE_PER_DAY_WEI: String(10n ** 24n),
  };
}

function buildProgram(): { file: string; remove(): void } {
  const tools: { build(outfile: string): string } = require("../../facilitator/tools/build.cjs");
  const folder = path.join(ROOT, "facilitator/dist");
  mkdirSync(folder, { recursive: true });
  const home = mkdtempSync(path.join(folder, "bench-"));
  return {
    file: tools.build(path.join(home, "facilitator.cjs")),
    remove: () => rmSync(home, { recursive: true, force: true }),
  };
}

async function startRunner(file: string, env: Readonly<Record<string, string>>): Promise<ChildProcess> {
  const child = spawn(process.execPath, [file, "start"], {
    cwd: ROOT,
    env: { PATH: process.env.PATH, ...env, PORT: String(await freePort()) },
    stdio: ["ignore", "pipe", "pipe"],
  });
  endWithParent(child);
  let said = "";
  const listen = (chunk: Buffer): void => {
    said = (said + chunk.toString()).slice(-20_000);
  };
  child.stdout?.on("data", listen);
  child.stderr?.on("data", listen);
  await until(async () => {
    if (child.exitCode !== null) throw new TypeError(`a runner ended with ${child.exitCode}:\n${said}`);
    return said.includes("the Facilitator is up");
  }, "a runner is up");
  return child;
}

async function until(look: () => Promise<boolean>, what: string): Promise<void> {
  const untilMs = performance.now() + PATIENCE_MS;
  while (!(await look())) {
    if (performance.now() > untilMs) throw new TypeError(`timed out waiting until ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}

async function count(db: Client, query: string): Promise<number> {
  const { rows } = await db.query<{ count: string }>(query);
  return Number(rows[0]?.count ?? 0);
}

async function connect(url: string): Promise<Client> {
  const client = new Client({ connectionString: url });
  await client.connect();
  return client;
}
