/**
 * Settlement chains by name. Presets live in this one table; any other EVM chain is `local-<chainId>` or configured.
 */
import type { Address } from "./address";
import { aList, aNumber, aText, fieldsOf } from "./arguments";
import { ConfigError } from "./errors";
import type { PricedToken } from "./prices";

/** A stablecoin that a network is known for. */
export interface TokenPreset extends PricedToken {
  readonly address: Address;
  /** of the token's EIP-712 domain */
  readonly name: string;
  readonly version: string;
  readonly decimals: number;
}

/** A settlement chain. */
export interface Network {
  /** as this project writes it: `<chain>-mainnet`, the testnet's name, or `local-<chainId>` */
  readonly name: string;
  readonly chainId: number;
  /** as stock x402 version 1 clients know it, where they do */
  readonly x402v1?: string;
  readonly token?: TokenPreset;
}

const usdc = (address: Address, name = "USD Coin"): TokenPreset => ({
  address,
  name,
  version: "2",
  decimals: 6,
  symbol: "USDC",
  currency: "USD",
});

const PRESETS: readonly Network[] = [
  {
    name: "base-mainnet",
    chainId: 8453,
    x402v1: "base",
    token: usdc("0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913"),
  },
  {
    name: "base-sepolia",
    chainId: 84532,
    x402v1: "base-sepolia",
    token: usdc("0x036CbD53842c5426634e7929541eC2318f3dCF7e", "USDC"),
  },
  {
    name: "polygon-mainnet",
    chainId: 137,
    x402v1: "polygon",
    token: usdc("0x3c499c542cEF5E3811e1192ce70d8cC03d5c3359"),
  },
  { name: "robinhood-mainnet", chainId: 4663 },
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

/** A chain in CAIP-2, as x402 version 2 writes it: `eip155:8453`. */
export function caip2Of(chainId: number): string {
  aNumber(chainId, "chainId");
  return `eip155:${chainId}`;
}
