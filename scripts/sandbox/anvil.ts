/** Foundry's node as the sandbox's chain, where Hardhat is not installed: `npx turnpike sandbox` runs on it. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import path from "node:path";
import { attachChain, type ChainOptions, type LocalChain, reportEnd, untilListening } from "./chain";
import { freePort } from "./free-port";
import { installed } from "./installed";

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
  const packages = installed("@foundry-rs/anvil/package.json", folder).flatMap((manifest) =>
    installed(`${PLATFORM_PACKAGE}/bin/${FILE}`, path.dirname(manifest)),
  );
  const programs = searchPath.split(path.delimiter).flatMap((each) => (each === "" ? [] : [path.join(each, FILE)]));
  return [...packages, ...programs].find((file) => existsSync(file));
}

/** @returns how to start it as startChain starts Hardhat's node */
export function anvilChain(anvil: string): (options?: ChainOptions) => Promise<LocalChain> {
  return async ({ chainId = 31_337, port: preferred } = {}) => {
    const port = await freePort(preferred);
    const args = ["--host", "127.0.0.1", "--port", `${port}`, "--chain-id", `${chainId}`, "--hardfork", "osaka"];
    // Of a node that is killed, states on disk would stay.
    const inMemory = ["--max-persisted-states", "0"];
    const child = spawn(process.execPath, [WITH_PARENT, anvil, ...args, ...inMemory], {
      stdio: ["ignore", "pipe", "pipe", "ipc"],
      // A process group of its own, which a terminal's Ctrl-C does not reach and which can be ended as a whole.
      detached: true,
    });
    child.once("exit", () => endGroup(child));
    await untilListening(child, "Listening on", "anvil");
    const stopReporting = reportEnd(child);
    const chain = attachChain(
      { rpcUrl: `http://127.0.0.1:${port}`, chainId, blockMs: undefined },
      {
        suspend: refuse,
        resume: refuse,
        async stop() {
          stopReporting();
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

/** Ends anvil, too, where its guard was killed alone. */
function endGroup({ pid }: ChildProcess): void {
  try {
    if (pid !== undefined) process.kill(-pid, "SIGKILL");
  } catch {
    // Both are gone.
  }
}

function refuse(): never {
  throw new TypeError("Only Hardhat's node can be suspended.");
}
