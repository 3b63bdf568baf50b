/**
 * Holds several of Hardhat's chains, each at its own port, and starts and stops them for its parent. Hardhat's command
 * `node` holds one, and loads the compiler and the tasks first.
 */
require("../../tools/typescript.cjs");
const path = require("node:path");
const { HardhatContext } = require("hardhat/internal/context");
const { loadConfigAndTasks } = require("hardhat/internal/core/config/config-loading");
const { createProvider } = require("hardhat/internal/core/providers/construction");
const { normalizeHardhatNetworkAccountsConfig } = require("hardhat/internal/core/providers/util");
const { JsonRpcServer } = require("hardhat/internal/hardhat-network/jsonrpc/server");
const { nodeSettings } = require("../../scripts/networks.ts");

const chains = new Map();
const config = load();

function load() {
  HardhatContext.createHardhatContext();
  const file = path.resolve(__dirname, "../../scripts/sandbox/chain.config.cjs");
  const { resolvedConfig } = loadConfigAndTasks({ config: file });
  const { hardhat } = resolvedConfig.networks;
  // Keys from a mnemonic take a third of a second, for each chain.
  hardhat.accounts = normalizeHardhatNetworkAccountsConfig(hardhat.accounts);
  return resolvedConfig;
}

async function start({ chainId, blockMs, hardfork }) {
  const given = { TURNPIKE_NODE_CHAIN_ID: chainId, TURNPIKE_NODE_BLOCK_MS: blockMs, TURNPIKE_NODE_HARDFORK: hardfork };
  const { hardhat } = config.networks;
  const { mining, ...settings } = nodeSettings(given);
  // The configuration's date is that of this process: a later chain would lag behind the machine's clock.
  const initialDate = new Date().toISOString();
  const own = { ...hardhat, ...settings, initialDate, mining: { ...hardhat.mining, ...mining } };
  // Without the artifacts, which take a second of processor for each chain and name errors in its messages alone.
  const provider = await createProvider({ ...config, networks: { ...config.networks, hardhat: own } }, "hardhat");
  // Created on the first request otherwise, and mines from then on.
  await provider.request({ method: "eth_blockNumber" });
  const server = new JsonRpcServer({ hostname: "127.0.0.1", port: 0, provider });
  const { port } = await server.listen();
  chains.set(port, { provider, server });
  return { port };
}

async function stop(port) {
  const chain = chains.get(port);
  if (chain === undefined) return {};
  chains.delete(port);
  const closed = chain.server.close();
  // Clients that stay connected would keep it open.
  for (const client of chain.server._wsServer.clients) client.terminate();
  chain.server._httpServer.closeAllConnections();
  await closed;
  await chain.provider.request({ method: "evm_setIntervalMining", params: [0] });
  // The chain's memory is not on the heap of V8, which does not know how much it could free.
  setImmediate(global.gc);
  return {};
}

// The next chain may be asked for when none is left: the process ends with its parent alone.
process.channel.ref();
process.on("message", async ({ id, start: options, stop: port }) => {
  try {
    process.send({ id, ...(options ? await start(options) : await stop(port)) });
  } catch (error) {
    process.send({ id, error: String(error?.stack ?? error) });
  }
});
