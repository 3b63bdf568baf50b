import type { Logger } from "pino";
import { type Address, ConfigError, Unavailable } from "turnpike/protocol";
import type { FacilitatorConfig } from "../config";
import { type ChainReader, createChainReader } from "./chain-reader";
import { checkContracts, type Finding } from "./contract-checks";
import { createRpc, type Rpc } from "./rpc";

export interface ChainOptions {
  readonly config: FacilitatorConfig;
  readonly log: Logger;
  readonly fetch?: typeof fetch;
  readonly signal?: AbortSignal | undefined;
}

/**
 * Opens the chain for a process that only reads.
 * @throws ConfigError when the chain or a contract is not the configured one, Unavailable when no node answers
 */
export async function openChain(options: ChainOptions): Promise<ChainReader> {
  return (await openNodes(options)).chain;
}

export type Nodes = Pick<Rpc, "nodes" | "refreshNodes">;

export interface OpenedChain {
  readonly chain: ChainReader;
  readonly nodes: Nodes;
  /** tokens that no payer can sign for: their payments come over Permit2 alone */
  readonly permit2Only: ReadonlySet<Address>;
}

export async function openNodes({ config, log, fetch, signal }: ChainOptions): Promise<OpenedChain> {
  const { rpcUrls: urls, chainId, rpcTimeoutMs: timeoutMs } = config;
  const rpc = createRpc({ urls, chainId, timeoutMs, log, signal, ...(fetch && { fetch }) });
  await rpc.checkChain();
  const chain = createChainReader(rpc);
  const findings = await requireContracts(chain, config, log);
  const permit2Only = new Set(findings.flatMap((finding) => finding.permit2Only ?? []));
  return { chain, nodes: rpc, permit2Only };
}

/** Stops the start when a contract is not the configured one, before any transaction is sent or log is read. */
async function requireContracts(chain: ChainReader, config: FacilitatorConfig, log: Logger): Promise<Finding[]> {
  const findings = await checkContracts(chain, config).catch((cause: unknown) => {
    throw new Unavailable("RPC_URLS do not answer", { cause });
  });
  const wrong = findings.find(({ level }) => level === "fail");
  if (wrong) throw new ConfigError(`${wrong.detail}: ${wrong.remedy}`);
  for (const { level, detail } of findings) if (level === "warn") log.warn(detail);
  return findings;
}
