/**
 * Defines the chains that the scripts can reach, from the environment alone. One RPC URL and one key serve any network
 * that `--network` names. A missing setting is reported only when that network is used.
 */
import type { HardhatUserConfig, NetworkUserConfig } from "hardhat/types";

type Environment = Readonly<Record<string, string | undefined>>;

/** Chain ids by Hardhat's network name. `custom` is any other chain, with its id in TURNPIKE_CHAIN_ID. */
const CHAINS: Readonly<Record<string, number | undefined>> = {
  localhost: undefined,
  baseSepolia: 84_532,
  base: 8_453,
  robinhood: 4_663,
  custom: undefined,
};

const LOCALHOST_URL = "http://127.0.0.1:8545";
const KEY_FORM = /^0x[0-9a-fA-F]{64}$/;
const CHAIN_ID = /^[1-9][0-9]{0,15}$/;

/** The in-process chain and `hardhat node`, which accepts neither a chain id nor a block time as an argument. */
export function nodeSettings(env: Environment): NonNullable<HardhatUserConfig["networks"]>["hardhat"] {
  const chainId = env.TURNPIKE_NODE_CHAIN_ID;
  const blockMs = env.TURNPIKE_NODE_BLOCK_MS;
  return {
    hardfork: env.TURNPIKE_NODE_HARDFORK || "osaka",
    allowBlocksWithSameTimestamp: true,
    ...(chainId ? { chainId: Number(chainId) } : {}),
    // Mined at intervals, never at once: automine refuses a nonce gap, and a lane has several transactions in flight.
    ...(blockMs ? { mining: { auto: false, interval: Number(blockMs) } } : {}),
  };
}

export function liveNetworks(env: Environment): Record<string, NetworkUserConfig> {
  const key = env.TURNPIKE_DEPLOYER_KEY;
  const accounts = key && KEY_FORM.test(key) ? [key] : undefined;
  const networks = Object.entries(CHAINS).map(([name, chainId]) => {
    const wanted = chainId ?? (name === "custom" && env.TURNPIKE_CHAIN_ID ? Number(env.TURNPIKE_CHAIN_ID) : undefined);
    const url = env.TURNPIKE_RPC_URL || LOCALHOST_URL;
    return [name, { url, ...(wanted ? { chainId: wanted } : {}), ...(accounts ? { accounts } : {}) }] as const;
  });
  return Object.fromEntries(networks);
}

/** @returns one sentence on what the named network lacks, or undefined when it can be used */
export function missingFor(network: string, env: Environment): string | undefined {
  if (!Object.hasOwn(CHAINS, network)) return undefined;
  const key = env.TURNPIKE_DEPLOYER_KEY;
  if (key && !isPrivateKey(key)) {
    return "TURNPIKE_DEPLOYER_KEY is not a private key: write 0x and 64 hex digits, not all zeros.";
  }
  // Its value may contain a provider's key, so it is not printed.
  if (env.TURNPIKE_RPC_URL && !isHttpUrl(env.TURNPIKE_RPC_URL)) {
    return "TURNPIKE_RPC_URL is not one URL of an RPC server: write one that starts with http:// or https://.";
  }
  if (network === "localhost") return undefined;
  if (network === "custom" && !CHAIN_ID.test(env.TURNPIKE_CHAIN_ID ?? "")) {
    return "Network custom needs TURNPIKE_CHAIN_ID, the chain's id as a decimal number.";
  }
  if (!env.TURNPIKE_RPC_URL) return `Network ${network} needs TURNPIKE_RPC_URL, the address of one of its RPC servers.`;
  if (!key) return `Network ${network} needs TURNPIKE_DEPLOYER_KEY, the private key that pays for the transactions.`;
  return undefined;
}

/** Loaded on use: most of Hardhat's tasks need no key. */
function isPrivateKey(key: string): boolean {
  return (require("turnpike/protocol") as typeof import("turnpike/protocol")).isPrivateKey(key);
}

function isHttpUrl(text: string): boolean {
  return /^https?:\/\//.test(text) && !text.includes(",") && URL.canParse(text);
}

/** Verification on an explorer; TURNPIKE_EXPLORER_API_URL and _URL describe one that the plugin does not know. */
export function explorer(env: Environment): HardhatUserConfig["etherscan"] {
  const { TURNPIKE_EXPLORER_KEY: apiKey, TURNPIKE_EXPLORER_API_URL: apiURL, TURNPIKE_EXPLORER_URL: browserURL } = env;
  const custom = (network: string, chainId: number) =>
    apiURL ? [{ network, chainId, urls: { apiURL, browserURL: browserURL ?? apiURL } }] : [];
  return {
    enabled: Boolean(apiKey),
    apiKey: apiKey ?? "",
    customChains: [...custom("robinhood", 4_663), ...custom("custom", Number(env.TURNPIKE_CHAIN_ID ?? 0))],
  };
}
