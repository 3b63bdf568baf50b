/** Runs a Facilitator on a local chain, with its own keys and an embedded database. It can be stopped and restarted. */
import path from "node:path";
import { Wallet } from "ethers";
import type { Address } from "turnpike/protocol";
import { startFacilitator } from "../../facilitator/src/app/start";
import { loadConfig } from "../../facilitator/src/config";
import type { Sandbox } from "../../facilitator/src/http/services";
import { type Chain, freePort, testKey } from "./chain";
import type { LocalContracts } from "./contracts";
import { type Restartable, restartable } from "./restartable";

export interface LocalFacilitator extends Restartable {
  readonly url: string;
  /** the signer of the proofs that a gate accepts */
  readonly signer: Address;
  /** the account that pays the gas */
  readonly relayer: Address;
}

export interface LocalFacilitatorOptions {
  readonly chain: Chain;
  readonly contracts: LocalContracts;
  readonly blockMs: number;
  readonly home: string;
  readonly port?: number | undefined;
  /** wallets that may read data about the whole service */
  readonly operator: string;
  /** makes the dashboard a sandbox's, with its key and its clock */
  readonly sandbox?: Sandbox | undefined;
}

/** Dollars for an ether, for the costs on the dashboard. */
const NATIVE_PRICE = "3000";

export async function localFacilitator(options: LocalFacilitatorOptions): Promise<LocalFacilitator> {
  const { chain, contracts, blockMs, home, operator, sandbox } = options;
  const port = await freePort(options.port);
  const relayer = await chain.wallet("relayer");
  const proofKey = testKey("proofs");
  const { token: address, tokenName: name, tokenVersion: version } = contracts;
  const config = loadConfig({
    CHAIN_ID: String(contracts.chainId),
    RPC_URLS: chain.rpcUrl,
    TURNPIKE: contracts.turnpike,
    BATCH_SETTLER: contracts.batchSettler,
    TOKENS: JSON.stringify([{ address, name, version }]),
    RELAYER_KEYS: relayer.privateKey,
    PERMIT2: "true",
    UPTO_SIGNER: relayer.address,
    PROOF_KEY: proofKey,
    PGLITE_DIR: path.join(home, "facilitator"),
    START_BLOCK: "0",
    BLOCK_TIME_MS: String(blockMs),
    POLL_MS: "100",
    FINALITY_DEPTH: "1",
    // The inbox is on this machine, and a person who uses the dashboard must not reach a limit.
    ALLOW_PRIVATE_WEBHOOKS: "true",
    ALLOW_PRIVATE_LISTINGS: "true",
    KEY_REQUESTS_PER_MINUTE: "0",
    OPERATORS: operator,
    NATIVE_PRICE,
    PORT: String(port),
    LOG_LEVEL: process.env.TURNPIKE_SANDBOX_LOG ?? "silent",
  });
  return {
    ...(await restartable(() => startFacilitator(config, sandbox && { sandbox }))),
    url: `http://127.0.0.1:${port}`,
    signer: new Wallet(proofKey).address as Address,
    relayer: relayer.address as Address,
  };
}
