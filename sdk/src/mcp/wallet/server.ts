/** Connects the wallet's tools to standard input and output. */
import { ConfigError } from "../../protocol";
import { loadServerPackage, serveInEveryRevision } from "./every-revision";
import type { Log } from "./log";
import {
  type Availability,
  INSTRUCTIONS,
  listed,
  personAt,
  run,
  SERVER_INFO,
  type Serving,
  type WalletServer,
} from "./tool-runs";
import { TOOLS } from "./tools";

/**
 * Connects the server to standard input and output: in every revision of the protocol where `@modelcontextprotocol/server`
 * is installed, else in those that `@modelcontextprotocol/sdk` has.
 * @throws ConfigError when neither is installed
 */
export async function serveWallet(available: Availability, log: Log): Promise<WalletServer> {
  const serving = { available, log };
  const newest = await ifInstalled(SERVER_PACKAGE, loadServerPackage);
  if (newest) return serveInEveryRevision(newest, serving);
  const sdk = await ifInstalled(SDK_PACKAGE, loadSdk);
  if (sdk) return serveByHandshake(sdk, serving);
  throw new ConfigError(
    `the wallet needs the package ${SDK_PACKAGE}, or ${SERVER_PACKAGE}: run npx -y -p turnpike -p ${SDK_PACKAGE} turnpike mcp`,
  );
}

const SDK_PACKAGE = "@modelcontextprotocol/sdk";

const SERVER_PACKAGE = "@modelcontextprotocol/server";

/** Loads an optional peer: the rest of the package works without it. */
async function ifInstalled<T>(name: string, load: () => Promise<T>): Promise<T | undefined> {
  try {
    return await load();
  } catch (error) {
    if (!String(error).includes(name)) throw error;
    return undefined;
  }
}

async function loadSdk() {
  const [{ McpServer }, { StdioServerTransport }] = await Promise.all([
    import("@modelcontextprotocol/sdk/server/mcp.js"),
    import("@modelcontextprotocol/sdk/server/stdio.js"),
  ]);
  return { McpServer, StdioServerTransport };
}

async function serveByHandshake(
  { McpServer, StdioServerTransport }: Awaited<ReturnType<typeof loadSdk>>,
  serving: Serving,
): Promise<WalletServer> {
  const server = new McpServer(SERVER_INFO, { instructions: INSTRUCTIONS });
  const person = personAt(server.server);
  for (const tool of TOOLS) {
    server.registerTool(tool.name, listed(tool), (args, { signal }) => run(tool, args, { ...serving, person, signal }));
  }
  await server.connect(new StdioServerTransport());
  return server;
}
