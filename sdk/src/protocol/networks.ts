/**
 * Settlement chains by name. Presets live in this one table; any other EVM chain is `local-<chainId>` or configured.
 */
import { type Address, sameAddress } from "./address";
import type { PricedToken } from "./amounts";
import { aList, aNumber, aText, fieldsOf } from "./arguments";
import { ConfigError } from "./errors";

/** A stablecoin that a network is known for. */
export interface TokenPreset extends PricedToken {
  readonly address: Address;
  /** of the token's EIP-712 domain */
  readonly name: string;
  readonly version: string;
  readonly decimals: number;
  /** public sources agree on the address, and not on name and version: the token itself says them */
  readonly isUnverified?: boolean;
  /** a bridge's token, which has no EIP-3009 */
  readonly isBridged?: boolean;
}

/** A settlement chain. */
export interface Network {
  /** as this project writes it: `<chain>-mainnet`, the testnet's name, or `local-<chainId>` */
  readonly name: string;
  readonly chainId: number;
  /** as stock x402 version 1 clients know it, where they do */
  readonly x402v1?: string;
  /** what is paid in where no token is named */
  readonly token?: TokenPreset;
  readonly otherTokens?: readonly TokenPreset[];
}

const IN_DOLLARS = { decimals: 6, currency: "USD" } as const;

const UNVERIFIED = { isUnverified: true };

const usdc = (address: Address, name = "USDC"): TokenPreset => ({
  ...IN_DOLLARS,
  address,
  name,
  version: "2",
  symbol: "USDC",
});

const bridged = (address: Address, name: string, symbol = "USDC.e"): TokenPreset => ({
  ...IN_DOLLARS,
  address,
  name,
  version: "1",
  symbol,
  isUnverified: true,
  isBridged: true,
});

const eurc = (address: Address): TokenPreset => ({
  address,
  name: "EURC",
  version: "2",
  decimals: 6,
  symbol: "EURC",
  isUnverified: true,
});

/** Circle's USDC where there is one; name and version as two public sources have them, or marked. */
const PRESETS: readonly Network[] = [
  {
    name: "base-mainnet",
    chainId: 8453,
    x402v1: "base",
    token: usdc("0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913", "USD Coin"),
    otherTokens: [
      eurc("0x60a3E35Cc302bFA44Cb288Bc5a4F316Fdb1adb42"),
      bridged("0xd9aAEc86B65D86f6A7B5B1b0c42FFA531710b6CA", "USD Base Coin", "USDbC"),
    ],
  },
  {
    name: "base-sepolia",
    chainId: 84532,
    x402v1: "base-sepolia",
    token: usdc("0x036CbD53842c5426634e7929541eC2318f3dCF7e"),
    otherTokens: [eurc("0x808456652fdb597867f38412077A9182bf77359F")],
  },
  {
    name: "polygon-mainnet",
    chainId: 137,
    x402v1: "polygon",
    token: usdc("0x3c499c542cEF5E3811e1192ce70d8cC03d5c3359", "USD Coin"),
    otherTokens: [bridged("0x2791Bca1f2de4661ED88A30C99A7a9449Aa84174", "USD Coin (PoS)")],
  },
  {
    name: "polygon-amoy",
    chainId: 80002,
    x402v1: "polygon-amoy",
    token: usdc("0x41E94Eb019C0762f9Bfcf9Fb1E58725BfB0e7582"),
  },
  {
    name: "arbitrum-mainnet",
    chainId: 42161,
    token: usdc("0xaf88d065e77c8cC2239327C5EDb3A432268e5831", "USD Coin"),
    otherTokens: [bridged("0xFF970A61A04b1cA14834A43f5dE4533eBDDB5CC8", "USD Coin (Arb1)")],
  },
  {
    name: "arbitrum-sepolia",
    chainId: 421614,
    token: { ...usdc("0x75faf114eafb1BDbe2F0316DF893fd58CE46AA4d", "USD Coin"), ...UNVERIFIED },
  },
  {
    name: "optimism-mainnet",
    chainId: 10,
    token: usdc("0x0b2C639c533813f4Aa9D7837CAf62653d097Ff85", "USD Coin"),
    otherTokens: [bridged("0x7F5c764cBc14f9669B88837ca1490cCa17c31607", "USD Coin")],
  },
  {
    name: "optimism-sepolia",
    chainId: 11155420,
    token: { ...usdc("0x5fd84259d66Cd46123540766Be93DFE6D43130D7"), ...UNVERIFIED },
  },
  {
    name: "avalanche-mainnet",
    chainId: 43114,
    x402v1: "avalanche",
    token: usdc("0xB97EF9Ef8734C71904D8002F8b6Bc66Dd9c48a6E", "USD Coin"),
    otherTokens: [
      eurc("0xC891EB4cbdEFf6e073e859e987815Ed1505c2ACD"),
      bridged("0xA7D7079b0FEaD91F3e65f86E8915Cb59c1a4C664", "USD Coin"),
    ],
  },
  {
    name: "avalanche-fuji",
    chainId: 43113,
    x402v1: "avalanche-fuji",
    token: usdc("0x5425890298aed601595a70AB815c96711a31Bc65", "USD Coin"),
    otherTokens: [eurc("0x5E44db7996c682E92a960b65AC713a54AD815c6B")],
  },
  {
    name: "world-mainnet",
    chainId: 480,
    token: { ...usdc("0x79A02482A880bCE3F13e09Da970dC34db4CD24d1"), ...UNVERIFIED },
    otherTokens: [eurc("0x1C60ba0A0eD1019e8Eb035E6daF4155A5cE2380B")],
  },
  {
    name: "world-sepolia",
    chainId: 4801,
    token: { ...usdc("0x66145f38cBAC35Ca6F1Dfb4914dF98F1614aeA88"), ...UNVERIFIED },
    otherTokens: [eurc("0xe479EcA5740Ac65d6E1823bea2f1C08Bc14e954F")],
  },
  {
    name: "celo-mainnet",
    chainId: 42220,
    x402v1: "celo",
    token: usdc("0xcebA9300f2b948710d2653dD7B07f33A8B32118C"),
  },
  {
    name: "celo-sepolia",
    chainId: 11142220,
    token: usdc("0x01C5C0122039549AD1493B8220cABEdD739BC44E"),
  },
  {
    name: "linea-mainnet",
    chainId: 59144,
    token: { ...usdc("0x176211869cA2b568f2A7D4EE941E073a821EE1ff"), ...UNVERIFIED },
  },
  {
    name: "linea-sepolia",
    chainId: 59141,
    token: { ...usdc("0xFEce4462D57bD51A6A552365A011b95f0E16d9B7"), ...UNVERIFIED },
  },
  {
    name: "monad-mainnet",
    chainId: 143,
    x402v1: "monad",
    token: usdc("0x754704Bc059F8C67012fEd69BC8A327a5aafb603"),
  },
  {
    name: "monad-testnet",
    chainId: 10143,
    token: usdc("0x534b2f3A21130d7a60830c2Df862319e593943A3"),
  },
  {
    name: "robinhood-mainnet",
    chainId: 4663,
    token: {
      ...IN_DOLLARS,
      address: "0x5fc5360D0400a0Fd4f2af552ADD042D716F1d168",
      name: "Global Dollar",
      version: "1",
      symbol: "USDG",
      isUnverified: true,
    },
  },
  { name: "robinhood-testnet", chainId: 46630 },
];

const LOCAL = /^local-([1-9][0-9]{0,15})$/;

const CAIP2 = /^eip155:([1-9][0-9]{0,15})$/;

function requireNetworks(extra: readonly Network[]): void {
  aList(extra, "extra");
  for (const network of extra) fieldsOf(network, "extra");
}

/** @returns undefined for a name that is neither a preset, `local-<chainId>` nor `eip155:<chainId>` */
export function findNetwork(name: string, extra: readonly Network[] = []): Network | undefined {
  aText(name, "name");
  requireNetworks(extra);
  const known = [...extra, ...PRESETS].find((network) => network.name === name || network.x402v1 === name);
  if (known) return known;
  const caip2 = CAIP2.exec(name);
  if (caip2) return networkOfChain(Number(caip2[1]), extra);
  const local = LOCAL.exec(name);
  return local ? { name, chainId: Number(local[1]) } : undefined;
}

/** The network of a chain id: its preset, or `local-<chainId>`. */
export function networkOfChain(chainId: number, extra: readonly Network[] = []): Network {
  aNumber(chainId, "chainId");
  requireNetworks(extra);
  return [...extra, ...PRESETS].find((network) => network.chainId === chainId) ?? { name: `local-${chainId}`, chainId };
}

/** @throws ConfigError naming the known networks */
export function requireNetwork(name: string, extra: readonly Network[] = []): Network {
  aText(name, "name");
  const network = findNetwork(name, extra);
  if (network) return network;
  const names = [...extra, ...PRESETS].map((known) => known.name).join(", ");
  throw new ConfigError(`network is "${name}": use one of ${names}, local-<chainId> or eip155:<chainId>`);
}

/** Returns the tokens that are known on a network, the usual one first. */
export function tokensOf(network: Network): readonly TokenPreset[] {
  requireNetworks([network]);
  const { token, otherTokens = [] } = network;
  return token ? [token, ...otherTokens] : otherTokens;
}

/** Returns what is known of a token on a network. */
export function knownToken(network: Network, token: Address): TokenPreset | undefined {
  aText(token, "token");
  return tokensOf(network).find(({ address }) => sameAddress(address, token));
}

/** A chain in CAIP-2, as x402 version 2 writes it: `eip155:8453`. */
export function caip2Of(chainId: number): string {
  aNumber(chainId, "chainId");
  return `eip155:${chainId}`;
}
