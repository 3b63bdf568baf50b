/**
 * A wallet for any assistant: an MCP server on standard input and output. Its limits come from a file that the model
 * cannot change. It needs `@modelcontextprotocol/server` or `@modelcontextprotocol/sdk`.
 */
import { anObject, aText, optionsOf } from "../../protocol/arguments";
import { deferred } from "../../protocol/exchange";
import { CONFIG_VARIABLE, configFault, readWalletConfig } from "./config";
import { logToStderr } from "./log";
import { serveWallet } from "./server";
import type { Availability } from "./tool-runs";
import { Wallet } from "./wallet";

/** How to start the wallet. */
export interface WalletOptions {
  /** the file of its limits; without one that can be used the wallet pays nothing, and says so */
  readonly configFile?: string | undefined;
  /** where the key is looked for when the file names no `keyFile`; default: the process's environment */
  readonly env?: Readonly<Record<string, string | undefined>>;
}

/** A wallet that serves. */
export interface RunningWallet {
  /** Resolves when the host has disconnected, and the ledger is released. */
  readonly closed: Promise<void>;
  /** Ends every call, and disconnects. What was signed stays in the ledger. */
  close(): Promise<void>;
}

/**
 * Starts the wallet on standard input and output.
 * @throws ConfigError when neither package is installed
 */
export async function runWallet(options: WalletOptions): Promise<RunningWallet> {
  optionsOf<WalletOptions>({ configFile: aText, env: anObject })(options, "");
  const available = await openWallet(options);
  const server = await serveWallet(available, logToStderr);
  const closed = deferred();
  let closing: Promise<void> | undefined;
  const close = () => {
    closing ??= (async () => {
      if ("wallet" in available) await available.wallet.close();
      await server.close();
      closed.resolve();
    })();
    return closing;
  };
  // The host ends the server by closing its input.
  process.stdin.once("end", close);
  process.stdin.once("close", close);
  return { closed: closed.promise, close };
}

async function openWallet({ configFile, env = process.env }: WalletOptions): Promise<Availability> {
  try {
    const config = await readWalletConfig(configFile, env);
    const wallet = new Wallet(config, logToStderr);
    logToStderr("wallet.ready", { file: configFile, ledger: config.ledgerFile });
    return { wallet };
  } catch (error) {
    const fault = configFault(error);
    logToStderr("wallet.unusable", { fault });
    return { fault };
  }
}

/**
 * Runs `turnpike mcp` until the host disconnects.
 * @param configFile the file of its limits; default: the one that the environment names
 * @returns the exit code: 0 when the host disconnected, 2 when the wallet cannot start
 */
export async function main(
  configFile: string | undefined,
  env: Readonly<Record<string, string | undefined>> = process.env,
): Promise<number> {
  try {
    const wallet = await runWallet({ configFile: configFile ?? env[CONFIG_VARIABLE], env });
    for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, () => void wallet.close());
    await wallet.closed;
    return 0;
  } catch (error) {
    process.stderr.write(`turnpike mcp: ${configFault(error)}\n`);
    return 2;
  }
}
