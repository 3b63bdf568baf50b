/** Runs the Facilitator as operators do: its own process, settings from the environment, its database on disk. */
import { spawn } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { type Address, addressOfKey, type Hex } from "turnpike/protocol";
import { freePort, testKey } from "../../scripts/sandbox/chain";
import type { LoadChain } from "./chain";
import { end, endWithParent, ROOT, RUN_TS } from "./process";
import type { Profile } from "./split";

export interface LoadedFacilitator {
  readonly url: string;
  readonly pid: number;
  /** Profiles the process while `work` runs. */
  profile(work: () => Promise<unknown>): Promise<Profile>;
  stop(): Promise<void>;
}

export interface FacilitatorOptions {
  readonly chain: LoadChain;
  readonly rpcUrl: string;
  readonly blockMs: number;
  /** an empty PostgreSQL database; default: the embedded one on disk */
  readonly databaseUrl?: string | undefined;
  /** runs from its sources, so that a profile shows the parts of the program */
  readonly fromSources?: boolean | undefined;
  /** further settings, by their names in the environment */
  readonly settings?: Readonly<Record<string, string>> | undefined;
}

/** The program as its image runs it, built once. */
const PROGRAM = path.join(ROOT, "facilitator/dist/program/bench.cjs");
const { build }: { build(outfile: string): string } = require("../../facilitator/tools/build.cjs");
let built: string | undefined;

const relayerKey = testKey("bench relayer") as Hex;
const relayer: Address = addressOfKey(relayerKey);

export async function startLoadedFacilitator(options: FacilitatorOptions): Promise<LoadedFacilitator> {
  const { chain, rpcUrl, blockMs, databaseUrl, fromSources = false, settings = {} } = options;
  const { contracts } = chain;
  await chain.giveGas(relayer);
  const folder = mkdtempSync(path.join(tmpdir(), "turnpike-bench-"));
  const profileFile = path.join(folder, "profile.cpuprofile");
  const port = await freePort();
  const url = `http://127.0.0.1:${port}`;
  if (!fromSources) built ??= build(PROGRAM);
  const program =
    built && !fromSources ? [built] : [...RUN_TS, "-r", "./bench/settle/profiled.ts", "facilitator/src/main.ts"];
  const child = spawn(process.execPath, ["--max-semi-space-size=64", ...program], {
    cwd: ROOT,
    stdio: ["ignore", "ignore", "inherit"],
    env: {
      PATH: process.env.PATH,
      CHAIN_ID: String(contracts.chainId),
      RPC_URLS: rpcUrl,
      TURNPIKE: contracts.turnpike,
      BATCH_SETTLER: contracts.batchSettler,
      TOKENS: JSON.stringify([
        { address: contracts.token, name: contracts.tokenName, version: contracts.tokenVersion },
      ]),
      RELAYER_KEYS: relayerKey,
      PROOF_KEY: testKey("bench proof signer"),
      START_BLOCK: String(contracts.block),
      BLOCK_TIME_MS: String(blockMs),
      POLL_MS: "100",
      PORT: String(port),
      METRICS_PORT: "public",
      PGLITE_DIR: path.join(folder, "db"),
      PROFILE_FILE: profileFile,
      ...(databaseUrl && { DATABASE_URL: databaseUrl }),
      ...Object.fromEntries(Object.entries(process.env).filter(([name]) => name in TUNABLE)),
      ...settings,
    },
  });
  endWithParent(child);
  const pid = child.pid ?? 0;
  for (let tries = 0; !(await isReady(url)); tries++) {
    if (child.exitCode !== null || tries > 1_800)
      throw new TypeError(`the Facilitator did not start: ${child.exitCode}`);
    await pause();
  }
  return {
    url,
    pid,
    async profile(work) {
      child.kill("SIGUSR2");
      await work();
      child.kill("SIGUSR2");
      while (!existsSync(profileFile)) await pause();
      await pause();
      return JSON.parse(readFileSync(profileFile, "utf8")) as Profile;
    },
    async stop() {
      await end(child);
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

/** Settings that may be set in the bench's own environment. */
const TUNABLE: Readonly<Record<string, true>> = {
  LOG_LEVEL: true,
  POLL_MS: true,
  GAS_PER_ITEM: true,
  BATCH_ITEMS: true,
  RENEWALS: true,
  LANE_IN_FLIGHT: true,
  MAX_CONNECTIONS: true,
  MAX_INTAKE: true,
};

const pause = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, 100));

async function isReady(url: string): Promise<boolean> {
  try {
    return (await fetch(`${url}/readyz`)).ok;
  } catch {
    // Not listening yet.
    return false;
  }
}
