/** Runs a Facilitator on one local chain or several, with its own keys. It can be stopped and restarted. */
import path from "node:path";
import { Wallet } from "ethers";
import type { Address } from "turnpike/protocol";
import { type FacilitatorEffects, startFacilitator } from "../../facilitator/src/app/start";
import { loadConfig } from "../../facilitator/src/config";
import { loadChains } from "../../facilitator/src/config/chains";
import { freePort, testKey } from "./chain";
import type { ChainDeployment } from "./chain-deployment";
import { type Restartable, restartable } from "./restartable";

export interface LocalFacilitator extends Restartable {
  readonly url: string;
  /** the signer of the proofs that a gate accepts */
  readonly signer: Address;
  /** the account that pays the gas */
  readonly relayer: Address;
  /** for commands on its database while it is stopped; holds its keys */
  readonly settings: Readonly<Record<string, string>>;
}

export interface LocalFacilitatorOptions {
  /** one for each chain */
  readonly deployments: readonly [ChainDeployment, ...ChainDeployment[]];
  readonly blockMs: number;
  readonly home: string;
  /** of PostgreSQL; default: an embedded database in `home` */
  readonly databaseUrl?: string | undefined;
  readonly port?: number | undefined;
  /** wallets that may read data about the whole service */
  readonly operator: string;
  /** makes the dashboard a sandbox's, with its key and the clock of each chain */
  readonly sandbox?: FacilitatorEffects["sandbox"];
}

/** Dollars for an ether, for the costs on the dashboard. */
const NATIVE_PRICE = "3000";

export async function localFacilitator(options: LocalFacilitatorOptions): Promise<LocalFacilitator> {
  const { deployments, blockMs, home, databaseUrl, operator, sandbox } = options;
  const port = await freePort(options.port);
  // One key, which has gas money on each chain.
  const [relayer] = await Promise.all(deployments.map(({ chain }) => chain.wallet("relayer")));
  if (!relayer) throw new TypeError("no chain is given");
  const proofKey = testKey("proofs");
  const settings = {
    ...chainSettings(deployments),
    RELAYER_KEYS: relayer.privateKey,
    PERMIT2: "true",
    UPTO_SIGNER: relayer.address,
    PROOF_KEY: proofKey,
    ...(databaseUrl ? { DATABASE_URL: databaseUrl } : { PGLITE_DIR: path.join(home, "facilitator") }),
    BLOCK_TIME_MS: String(blockMs),
    POLL_MS: "100",
    FINALITY_DEPTH: "1",
    // The inbox is on this machine, and a person who uses the dashboard must not reach a limit.
    ALLOW_PRIVATE_WEBHOOKS: "true",
    ALLOW_PRIVATE_LISTINGS: "true",
    KEY_REQUESTS_PER_MINUTE: "0",
    OPERATORS: operator,
    PORT: String(port),
    METRICS_PORT: "public",
    LOG_LEVEL: process.env.TURNPIKE_SANDBOX_LOG ?? "silent",
  };
  const config = loadChains(settings) ?? loadConfig(settings);
  return {
    ...(await restartable(() => startFacilitator(config, sandbox && { sandbox }))),
    url: `http://127.0.0.1:${port}`,
    signer: new Wallet(proofKey).address as Address,
    relayer: relayer.address as Address,
    settings,
  };
}

/** The settings of the only chain, or `CHAINS` with a section for each. */
function chainSettings(deployments: readonly ChainDeployment[]): Record<string, string> {
  const [only] = deployments;
  if (deployments.length === 1 && only) return { CHAIN_ID: String(only.contracts.chainId), ...settingsOn(only) };
  const sections = deployments.flatMap((deployment) => {
    const prefix = deployment.contracts.network.toUpperCase().replaceAll("-", "_");
    return Object.entries(settingsOn(deployment)).map(([name, value]) => [`${prefix}_${name}`, value]);
  });
  return { CHAINS: deployments.map(({ contracts }) => contracts.network).join(), ...Object.fromEntries(sections) };
}

function settingsOn({ chain, contracts }: ChainDeployment): Record<string, string> {
  const { turnpike, batchSettler, token: address, tokenName: name, tokenVersion: version } = contracts;
  return {
    RPC_URLS: chain.rpcUrl,
    TURNPIKE: turnpike,
    BATCH_SETTLER: batchSettler,
    TOKENS: JSON.stringify([{ address, name, version }]),
    START_BLOCK: "0",
    NATIVE_PRICE,
  };
}
