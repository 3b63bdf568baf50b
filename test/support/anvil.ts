/** Foundry's node as a child process, for tests that must hold on more than Hardhat's. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { JsonRpcProvider } from "ethers";
import {
  type Chain,
  type ChainOptions,
  type FundedWallet,
  freePort,
  TestWallet,
  testKey,
} from "../../scripts/sandbox/chain";

const START_TIMEOUT_MS = 60_000;

/** @returns undefined where npm has no anvil for this platform, which CI does not accept */
export function findAnvil(): string | undefined {
  const arch = process.arch === "x64" ? "amd64" : process.arch;
  const file = process.platform === "win32" ? "anvil.exe" : "anvil";
  try {
    const found = require.resolve(`@foundry-rs/anvil-${process.platform}-${arch}/bin/${file}`);
    if (existsSync(found)) return found;
  } catch {
    // An optional dependency that is not installed: answered below.
  }
  if (process.env.CI === "true") throw new Error("anvil is missing: npm ci installs it on this platform");
  return undefined;
}

/** A fresh chain that mines each transaction at once. */
export async function startAnvil(
  anvil: string,
  { chainId = 31_337, hardfork }: Pick<ChainOptions, "chainId" | "hardfork"> = {},
): Promise<Chain> {
  const port = await freePort();
  const options = ["--port", String(port), "--chain-id", String(chainId), "--max-persisted-states", "0"];
  const child = spawn(anvil, [...options, ...(hardfork ? ["--hardfork", hardfork] : [])], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  const killAtExit = () => void child.kill("SIGKILL");
  process.once("exit", killAtExit);
  child.once("exit", () => process.off("exit", killAtExit));
  await untilListening(child);
  const rpcUrl = `http://127.0.0.1:${port}`;
  const provider = new JsonRpcProvider(rpcUrl, chainId, { staticNetwork: true, polling: true, cacheTimeout: -1 });
  return {
    rpcUrl,
    chainId,
    provider,
    async wallet(name) {
      const wallet = new TestWallet(testKey(name), provider) as FundedWallet;
      await provider.send("anvil_setBalance", [wallet.address, `0x${(10n ** 21n).toString(16)}`]);
      return wallet;
    },
    async advance(seconds) {
      await provider.send("evm_increaseTime", [seconds]);
      await provider.send("evm_mine", []);
    },
    async stop() {
      provider.destroy();
      if (child.exitCode !== null || child.signalCode !== null) return;
      const gone = once(child, "exit");
      child.kill("SIGKILL");
      await gone;
    },
  };
}

async function untilListening(child: ChildProcess): Promise<void> {
  const timer = setTimeout(() => child.kill("SIGKILL"), START_TIMEOUT_MS);
  try {
    await new Promise<void>((resolve, reject) => {
      let output = "";
      child.stdout?.on("data", (chunk: Buffer) => {
        if (output.length < 64_000) output += chunk.toString();
        if (output.includes("Listening on")) resolve();
      });
      child.once("error", reject);
      child.once("exit", (code) => reject(new Error(`anvil ended with ${code} before it listened:\n${output}`)));
    });
  } finally {
    clearTimeout(timer);
  }
}
