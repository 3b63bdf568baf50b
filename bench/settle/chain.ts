/** Runs a chain for load: anvil with high limits, the project's contracts and a token on it, payers with funds. */
import { type ChildProcess, spawn } from "node:child_process";
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { AbiCoder, JsonRpcProvider, keccak256, toBeHex, Wallet, zeroPadValue } from "ethers";
import type { Address } from "turnpike/protocol";
import { type FundedWallet, freePort, testKey } from "../../scripts/sandbox/chain";
import { deployAll, type LocalContracts } from "../../scripts/sandbox/contracts";
import { end, endWithParent } from "./process";

/** Stock x402 packages know only the chains of their list, so this one uses the id of Base Sepolia. */
export const CHAIN_ID = 84_532;
const GAS_LIMIT = 400_000_000;

export interface LoadChain {
  readonly rpcUrl: string;
  readonly pid: number;
  readonly contracts: LocalContracts;
  /** gives each account a number of base units of the token, without a transaction */
  fund(accounts: readonly Address[], amount: bigint): Promise<void>;
  giveGas(account: Address): Promise<void>;
  balanceOf(account: Address): Promise<bigint>;
  /** from now on: one block per second, or a block for each transaction at once */
  mine(how: "each second" | "at once"): Promise<void>;
  stop(): Promise<void>;
}

/** @returns undefined when npm has no anvil for this platform */
export function findAnvil(): string | undefined {
  const arch = process.arch === "x64" ? "amd64" : process.arch;
  const file = process.platform === "win32" ? "anvil.exe" : "anvil";
  try {
    const found = require.resolve(`@foundry-rs/anvil-${process.platform}-${arch}/bin/${file}`);
    return existsSync(found) ? found : undefined;
  } catch {
    // Not installed: it is an optional dependency.
    return undefined;
  }
}

export async function startLoadChain(anvil: string): Promise<LoadChain> {
  const port = await freePort();
  // By default it keeps the whole state of 500 blocks: 12 GB after half a million payments.
  const limits = ["--prune-history", "64", "--gas-limit", String(GAS_LIMIT), "--no-request-size-limit"];
  const child = spawn(anvil, ["--port", String(port), "--chain-id", String(CHAIN_ID), "--silent", ...limits], {
    stdio: ["ignore", "ignore", "inherit"],
  });
  endWithParent(child);
  const rpcUrl = `http://127.0.0.1:${port}`;
  const provider = new JsonRpcProvider(rpcUrl, CHAIN_ID, { staticNetwork: true, cacheTimeout: -1, batchMaxCount: 500 });
  provider.pollingInterval = 50;
  await untilUp(provider, child);
  const giveGas = (account: string) => provider.send("anvil_setBalance", [account, toBeHex(10n ** 24n)]);
  const folder = mkdtempSync(path.join(tmpdir(), "turnpike-bench-"));
  const contracts = await deployAll(
    {
      rpcUrl,
      chainId: CHAIN_ID,
      provider,
      async wallet(name) {
        const wallet = new Wallet(testKey(name), provider) as FundedWallet;
        await giveGas(wallet.address);
        return wallet;
      },
      advance: async () => undefined,
      stop: async () => undefined,
    },
    folder,
  );
  rmSync(folder, { recursive: true, force: true });
  return {
    rpcUrl,
    pid: child.pid ?? 0,
    contracts,
    async fund(accounts, amount) {
      const word = zeroPadValue(toBeHex(amount), 32);
      await Promise.all(
        accounts.map((account) => provider.send("anvil_setStorageAt", [contracts.token, balanceSlot(account), word])),
      );
      const [first] = accounts;
      if (first && (await contracts.balanceOf(first)) !== amount)
        throw new TypeError("the token keeps balances elsewhere");
    },
    giveGas,
    balanceOf: (account) => contracts.balanceOf(account),
    async mine(how) {
      // The order matters: without an interval, anvil mines nothing until automine is enabled.
      await provider.send("evm_setIntervalMining", [how === "at once" ? 0 : 1]);
      await provider.send("evm_setAutomine", [how === "at once"]);
    },
    async stop() {
      provider.destroy();
      await end(child);
    },
  };
}

/** The slot of the test token's balances, its first mapping. */
const balanceSlot = (account: Address): string =>
  keccak256(AbiCoder.defaultAbiCoder().encode(["address", "uint256"], [account, 0]));

async function untilUp(provider: JsonRpcProvider, child: ChildProcess): Promise<void> {
  for (let tries = 0; tries < 200; tries++) {
    if (child.exitCode !== null) throw new TypeError(`anvil ended with ${child.exitCode}`);
    try {
      await provider.send("eth_chainId", []);
      return;
    } catch {
      // Not listening yet.
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  }
  throw new TypeError("anvil does not answer");
}
