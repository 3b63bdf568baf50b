/**
 * A wallet for any assistant: an MCP server on standard input and output. Its limits come from a file that the model
 * cannot change. It needs the package `@modelcontextprotocol/sdk`.
 */
import { CONFIG_VARIABLE, configFault, readWalletConfig } from "./config";
import { logToStderr } from "./log";
import { type Availability, serveWallet } from "./server";
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
 * @throws ConfigError when `@modelcontextprotocol/sdk` is not installed
 */
export async function runWallet(options: WalletOptions): Promise<RunningWallet> {
  const available = await openWallet(options);
  const server = await serveWallet(available, logToStderr);
  let ended = () => {};
  const closed = new Promise<void>((resolve) => {
    ended = resolve;
  });
  let closing: Promise<void> | undefined;
  const close = () => {
    closing ??= (async () => {
      if ("wallet" in available) await available.wallet.close();
      await server.close();
      ended();
    })();
    return closing;
  };
  // The host ends the server by closing its input.
  process.stdin.once("end", close);
  process.stdin.once("close", close);
  return { closed, close };
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

const USAGE = `Usage: turnpike mcp [--config FILE]; without FILE, ${CONFIG_VARIABLE} names it.`;

/**
 * Runs `turnpike mcp` until the host disconnects.
 * @param argv the arguments after `mcp`
 * @returns the exit code: 0 when the host disconnected, 2 for arguments that cannot be used
 */
export async function main(
  argv: readonly string[],
  env: Readonly<Record<string, string | undefined>> = process.env,
): Promise<number> {
  const [first, value, ...rest] = argv;
  if (argv.length > 0 && (first !== "--config" || !value || rest.length > 0)) {
    process.stderr.write(`turnpike mcp: unknown arguments: ${argv.join(" ")}. ${USAGE}\n`);
    return 2;
  }
  try {
    const wallet = await runWallet({ configFile: value ?? env[CONFIG_VARIABLE], env });
    for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, () => void wallet.close());
    await wallet.closed;
    return 0;
  } catch (error) {
    process.stderr.write(`turnpike mcp: ${configFault(error)}\n`);
    return 2;
  }
}
