/**
 * Reads the settings of several chains. `CHAINS` names their networks. Each network has a section: variables that begin
 * with its name in capitals, as in `BASE_MAINNET_RPC_URLS`. What a section does not set, it has from the plain variable.
 */
import { ConfigError, findNetwork, isTurnpikeError, type Network } from "turnpike/protocol";
import { type FacilitatorConfig, loadConfig, SETTINGS } from ".";
import { BLOCKS } from "./blocks";
import { CHAIN } from "./chain";
import { KEYS } from "./keys";
import { PAYMENTS } from "./payments";
import { RELAYING } from "./relaying";
import { ROLES } from "./roles";
import { list, type Setting } from "./setting";

/** The configurations of several chains, in the order of `CHAINS`. */
export type ChainConfigs = readonly [FacilitatorConfig, ...FacilitatorConfig[]];

const KNOWN: ReadonlySet<string> = new Set(Object.values(SETTINGS as Record<string, Setting>).map(({ env }) => env));

/** A provider's gate on the same machine has settings of its own. */
const OF_GATES = "TURNPIKE_";

type Environment = Readonly<Record<string, string | undefined>>;

/** One chain's value is wrong for another one: only sections set these. */
const OWN = [CHAIN.rpcUrls, CHAIN.tokens, BLOCKS.startBlock, SETTINGS.nativePrice].map(({ env }) => env);

/** A section may set these; all others are settings of the whole service. */
const OF_A_CHAIN: ReadonlySet<string> = new Set(
  [
    ...Object.values({ ...CHAIN, ...KEYS, ...BLOCKS, ...RELAYING, ...PAYMENTS } as Record<string, Setting>),
    ...[SETTINGS.renewals, SETTINGS.renewalBatch, SETTINGS.nativePrice],
  ]
    .map(({ env }) => env)
    .filter((name) => name !== CHAIN.chainId.env && name !== CHAIN.chains.env),
);

/**
 * @returns the configurations of the chains that this process has roles for, in the order of `CHAINS`; undefined
 * without `CHAINS`
 * @throws ConfigError
 */
export function loadChains(env: Environment): ChainConfigs | undefined {
  const text = env[CHAIN.chains.env]?.trim();
  if (!text) return undefined;
  const networks = networksOf(text);
  for (const name of [CHAIN.chainId.env, ...OWN]) {
    const [first] = networks;
    const remedy = name === CHAIN.chainId.env ? "remove it" : `set ${first && prefixOf(first)}${name} instead`;
    if (env[name]?.trim()) throw new ConfigError(`${name} is set for no chain of CHAINS: ${remedy}`);
  }
  const { CHAINS: _chains, ...common } = env;
  const roles = rolesByChain(env[SETTINGS.roles.env]?.trim() || ROLES.join(","), networks);
  const idle = networks.find((network) => roles.get(network.name) === "");
  if (idle && !env[SETTINGS.databaseUrl.env]?.trim()) {
    throw new ConfigError(
      `ROLES gives ${idle.name} no role, and the embedded database serves one process: give it all, or set DATABASE_URL`,
    );
  }
  const configs = networks.flatMap((network) => {
    const own = roles.get(network.name);
    const chain = { ...common, ...sectionOf(env, network), CHAIN_ID: String(network.chainId), ROLES: own };
    return own ? [configOf(chain, network, strayHint(env))] : [];
  });
  return configs as unknown as ChainConfigs;
}

/**
 * @param name one of `CHAINS`, for a command about a single chain
 * @returns the configurations of all chains, with `CHAINS` or without
 * @throws ConfigError
 */
export function chainsOf(env: Environment, name?: string): ChainConfigs {
  const configs: ChainConfigs = loadChains(env) ?? [loadConfig(env)];
  if (name === undefined) return configs;
  const chainId = findNetwork(name)?.chainId;
  const found = configs.find((config) => config.chainId === chainId);
  if (found) return [found];
  throw new ConfigError(`--chain is ${name}: use ${configs.map(({ network }) => network.name).join(" or ")}`);
}

/**
 * @returns the variables that are named as a section has them, and are in the section of no chain: of a chain that was
 * taken away, or misspelled
 */
export function strayVariables(env: Environment): readonly string[] {
  const text = env[CHAIN.chains.env]?.trim();
  if (!text) return [];
  const prefixes = networksOf(text).map(prefixOf);
  return Object.keys(env).filter(
    (name) =>
      !KNOWN.has(name) &&
      !name.startsWith(OF_GATES) &&
      !prefixes.some((prefix) => name.startsWith(prefix)) &&
      [...OF_A_CHAIN].some((setting) => name.endsWith(`_${setting}`)),
  );
}

/** Hints at a misspelled section, where a variable is missing. */
function strayHint(env: Environment): string {
  const [stray] = strayVariables(env);
  return stray === undefined ? "" : `; ${stray} belongs to no chain of CHAINS`;
}

function prefixOf({ name }: Network): string {
  return `${name.toUpperCase().replaceAll("-", "_")}_`;
}

function networksOf(text: string): Network[] {
  const networks: Network[] = [];
  for (const name of list(text)) {
    const network = findNetwork(name);
    if (!network)
      throw new ConfigError(`CHAINS names ${name}, which is no network: use names as base-mainnet or local-31337`);
    if (networks.some(({ chainId }) => chainId === network.chainId))
      throw new ConfigError(`CHAINS names ${network.name} twice: name each chain once`);
    networks.push(network);
  }
  if (networks.length === 0) throw new ConfigError("CHAINS names no chain: name one, or remove it and set CHAIN_ID");
  return networks;
}

function sectionOf(env: Environment, network: Network): Environment {
  const prefix = prefixOf(network);
  const section: Record<string, string | undefined> = {};
  for (const [name, value] of Object.entries(env)) {
    if (!name.startsWith(prefix)) continue;
    const setting = name.slice(prefix.length);
    if (!OF_A_CHAIN.has(setting))
      throw new ConfigError(`${name} is no setting of a chain: see "Several chains" in docs/reference/settings.md`);
    section[setting] = value;
  }
  return section;
}

/** Each entry is a role for every chain, or `role:network` for one. @returns the roles of each chain as ROLES has them */
function rolesByChain(text: string, networks: readonly Network[]): Map<string, string> {
  const roles = new Map(networks.map(({ name }) => [name, new Set<string>()]));
  for (const entry of list(text)) {
    const place = entry.indexOf(":");
    const role = place < 0 ? entry : entry.slice(0, place);
    const wanted = place < 0 ? undefined : entry.slice(place + 1);
    const chainId = wanted === undefined ? undefined : findNetwork(wanted)?.chainId;
    const named = networks.filter((network) => wanted === undefined || network.chainId === chainId);
    if (named.length === 0) throw new ConfigError(`ROLES has ${entry}, and ${wanted} is not in CHAINS`);
    for (const { name } of named) roles.get(name)?.add(role);
  }
  const texts = [...roles].map(([name, own]): [string, string] => [name, [...own].join(",")]);
  if (texts.every(([, own]) => own === "")) throw new ConfigError("ROLES names no role");
  return new Map(texts);
}

function configOf(env: Environment, network: Network, hint: string): FacilitatorConfig {
  try {
    return loadConfig(env);
  } catch (error) {
    if (!isTurnpikeError(error)) throw error;
    const { message } = error;
    throw new ConfigError(
      `${network.name}: ${message} (the variables of this chain begin with ${prefixOf(network)}${hint})`,
    );
  }
}
