/**
 * Starts a private chain for the sandbox or a test: Hardhat's node as a child process on a free port. Knows nothing of
 * the contracts (see contracts.ts) and never leaves loopback.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import path from "node:path";
import { JsonRpcProvider, keccak256, type TransactionRequest, toBeHex, toUtf8Bytes, Wallet } from "ethers";
import { freePort } from "./free-port";
import { oneShot } from "./one-shot";

export { freePort };

const ROOT = path.resolve(__dirname, "../..");

const CONFIG = path.join(__dirname, "chain.config.cjs");

const END_WITH_PARENT = path.join(__dirname, "end-with-parent.cjs");

const START_TIMEOUT_MS = 240_000;

const STOP_TIMEOUT_MS = 5_000;

const MAX_POLL_MS = 250;

const MAX_REPORT_CHARS = 4_000;

export interface ChainOptions {
  /** default 31337 */
  readonly chainId?: number;
  /** block interval in milliseconds; without it each transaction is mined at once */
  readonly blockMs?: number;
  /** default: the newest hardfork that the contracts run on */
  readonly hardfork?: string;
  /**
   * Protects the node from a terminal's Ctrl-C, which goes to the whole process group. For callers that must settle on
   * the chain before they stop it; the others want it to end at once.
   */
  readonly isSpared?: boolean;
  /** the preferred port; default any free one */
  readonly port?: number | undefined;
}

export type FundedWallet = Wallet & { provider: JsonRpcProvider };

/**
 * Adds half to each gas estimate. The block that mines a transaction is later than the one that estimated it, and an
 * act in a subscription's next period may cost more.
 */
export class TestWallet extends Wallet {
  override async estimateGas(transaction: TransactionRequest): Promise<bigint> {
    return ((await super.estimateGas(transaction)) * 3n) / 2n;
  }
}

export interface Chain {
  readonly rpcUrl: string;
  readonly chainId: number;
  readonly provider: JsonRpcProvider;
  /** Derives a wallet from `name` and gives it 1,000 ether: the same name is the same key. For tests only. */
  wallet(name: string): Promise<FundedWallet>;
  /** Moves the chain's clock forward and mines a block. */
  advance(seconds: number): Promise<void>;
  stop(): Promise<void>;
}

/** Hardhat's node, whose block time can change while it runs. */
export interface LocalChain extends Chain {
  /** Sets the block interval in milliseconds from now on. */
  mineEvery(blockMs: number): Promise<void>;
  /** Stops the node's process where it is: connections are accepted, and nothing is answered. Not on Windows. */
  suspend(): void;
  /** Lets a suspended node go on with the state that it had. */
  resume(): void;
}

export async function startChain({
  chainId = 31_337,
  blockMs,
  hardfork,
  isSpared = false,
  port: preferred,
}: ChainOptions = {}): Promise<LocalChain> {
  const port = await freePort(preferred);
  // The CLI's file, not npx: a signal to npx leaves the node behind. Where the chain is another node, it is not there.
  const cli = require.resolve("hardhat/internal/cli/cli.js");
  const args = ["-r", END_WITH_PARENT, cli, "--config", CONFIG, "node", "--hostname", "127.0.0.1", "--port", `${port}`];
  const child = spawn(process.execPath, args, {
    cwd: ROOT,
    env: {
      ...process.env,
      HARDHAT_NETWORK: "hardhat",
      TURNPIKE_NODE_CHAIN_ID: String(chainId),
      TURNPIKE_NODE_BLOCK_MS: blockMs === undefined ? "" : String(blockMs),
      TURNPIKE_NODE_HARDFORK: hardfork ?? "",
    },
    stdio: ["ignore", "pipe", "pipe", "ipc"],
    detached: isSpared,
  });
  const killAtExit = () => void child.kill("SIGKILL");
  process.once("exit", killAtExit);
  child.once("exit", () => process.off("exit", killAtExit));
  const rpcUrl = `http://127.0.0.1:${port}`;
  await untilListening(child, "Started HTTP", "hardhat node");
  const stopReporting = reportEnd(child);
  const chain = attachChain(
    { rpcUrl, chainId, blockMs },
    {
      suspend: () => void child.kill("SIGSTOP"),
      resume: () => void child.kill("SIGCONT"),
      async stop() {
        stopReporting();
        // A suspended process would not see that it is to end.
        if (process.platform !== "win32") child.kill("SIGCONT");
        await end(child);
      },
    },
  );
  // Hardhat prints every call otherwise, which costs more than answering it.
  await chain.provider.send("hardhat_setLoggingEnabled", [false]);
  return chain;
}

/** The chain of a node that listens. @param node the process that it runs in */
export function attachChain(
  { rpcUrl, chainId, blockMs }: { rpcUrl: string; chainId: number; blockMs: number | undefined },
  node: Pick<LocalChain, "suspend" | "resume" | "stop">,
): LocalChain {
  const provider = new JsonRpcProvider(oneShot(rpcUrl), chainId, {
    staticNetwork: true,
    polling: true,
    cacheTimeout: -1,
  });
  provider.pollingInterval = Math.min(blockMs ?? 100, MAX_POLL_MS);
  return {
    ...node,
    rpcUrl,
    chainId,
    provider,
    async wallet(name) {
      const wallet = new TestWallet(testKey(name), provider) as FundedWallet;
      await provider.send("hardhat_setBalance", [wallet.address, toBeHex(10n ** 21n).replace(/^0x0+/, "0x")]);
      return wallet;
    },
    async advance(seconds) {
      await provider.send("evm_increaseTime", [seconds]);
      await provider.send("evm_mine", []);
    },
    async mineEvery(intervalMs) {
      provider.pollingInterval = Math.min(intervalMs, MAX_POLL_MS);
      await provider.send("evm_setIntervalMining", [intervalMs]);
    },
    async stop() {
      provider.destroy();
      await node.stop();
    },
  };
}

/** Prints why a node ended that nobody stopped: its callers only see connections that break. @returns stops doing so */
export function reportEnd(child: ChildProcess): () => void {
  let lastErrors = "";
  child.stderr?.on("data", (chunk: Buffer) => {
    lastErrors = (lastErrors + chunk).slice(-MAX_REPORT_CHARS);
  });
  const report = (code: number | null, signal: NodeJS.Signals | null): void => {
    // Ctrl-C ends the node and its caller together.
    if (signal !== "SIGINT") console.error(`The local chain ended by itself (${signal ?? code}): ${lastErrors}`);
  };
  child.once("exit", report);
  return () => child.off("exit", report);
}

/** Returns the private key of a named test role. Worthless except on a local chain. */
export function testKey(name: string): string {
  return keccak256(toUtf8Bytes(`turnpike test key: ${name}`));
}

/** @param sign what it prints once it listens. @param name what its user knows it as */
export async function untilListening(child: ChildProcess, sign: string, name: string): Promise<void> {
  let output = "";
  const timer = setTimeout(() => child.kill("SIGKILL"), START_TIMEOUT_MS);
  try {
    await new Promise<void>((resolve, reject) => {
      const collect = (chunk: Buffer) => {
        if (output.length < 64_000) output += chunk.toString();
        if (output.includes(sign)) resolve();
      };
      child.stdout?.on("data", collect);
      child.stderr?.on("data", collect);
      child.once("exit", (code) => reject(new Error(`${name} ended with ${code} before it listened:\n${output}`)));
    });
  } finally {
    clearTimeout(timer);
  }
}

async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const gone = once(child, "exit");
  child.kill("SIGTERM");
  const timer = setTimeout(() => child.kill("SIGKILL"), STOP_TIMEOUT_MS);
  await gone;
  clearTimeout(timer);
}
