/** Foundry's node as the sandbox's chain, where Hardhat is not installed: `npx turnpike sandbox` runs on it. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { createRequire } from "node:module";
import path from "node:path";
import { attachChain, type ChainOptions, type LocalChain, untilListening } from "./chain";
import { freePort } from "./free-port";

const WITH_PARENT = path.join(__dirname, "with-parent.cjs");

const FILE = process.platform === "win32" ? "anvil.exe" : "anvil";

const PLATFORM_PACKAGE = `@foundry-rs/anvil-${process.platform}-${process.arch === "x64" ? "amd64" : process.arch}`;

/** It counts the time between blocks in whole seconds. */
const BLOCK_SEC = 1;

/**
 * @param folder of the project whose packages are searched, after those beside this file
 * @param searchPath folders of programs, as in PATH
 * @returns undefined when neither npm nor Foundry's installer has placed it here
 */
export function findAnvil(folder: string, searchPath = ""): string | undefined {
  const packages = [__filename, path.join(folder, "any.js")].flatMap((from) => {
    const requireFrom = createRequire(from);
    try {
      const beside = createRequire(requireFrom.resolve("@foundry-rs/anvil/package.json"));
      return [beside.resolve(`${PLATFORM_PACKAGE}/bin/${FILE}`)];
    } catch {
      return [];
    }
  });
  const programs = searchPath.split(path.delimiter).flatMap((each) => (each === "" ? [] : [path.join(each, FILE)]));
  return [...packages, ...programs].find((file) => existsSync(file));
}

/** @returns how to start it as startChain starts Hardhat's node */
export function anvilChain(anvil: string): (options?: ChainOptions) => Promise<LocalChain> {
  return async ({ chainId = 31_337, isSpared = false, port: preferred } = {}) => {
    const port = await freePort(preferred);
    const args = ["--host", "127.0.0.1", "--port", `${port}`, "--chain-id", `${chainId}`, "--hardfork", "osaka"];
    const child = spawn(process.execPath, [WITH_PARENT, anvil, ...args], {
      stdio: ["ignore", "pipe", "pipe", "ipc"],
      detached: isSpared,
    });
    await untilListening(child, "Listening on", "anvil");
    const chain = attachChain(
      { rpcUrl: `http://127.0.0.1:${port}`, chainId, blockMs: undefined },
      {
        suspend: refuse,
        resume: refuse,
        async stop() {
          if (child.exitCode !== null || child.signalCode !== null) return;
          const gone = once(child, "exit");
          child.disconnect();
          await gone;
        },
      },
    );
    return {
      ...chain,
      // Without an interval it mines each transaction at once, which suits the set-up.
      async mineEvery(blockMs) {
        if (blockMs >= 1_000 * BLOCK_SEC) await chain.provider.send("evm_setIntervalMining", [blockMs / 1_000]);
      },
    };
  };
}

function refuse(): never {
  throw new TypeError("Only Hardhat's node can be suspended.");
}
