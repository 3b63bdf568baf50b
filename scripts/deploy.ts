/**
 * Deploys Turnpike and BatchSettler, or finds them deployed, and writes deployments/<network>.json:
 *     npx hardhat run scripts/deploy.ts --network <localhost | baseSepolia | base | robinhood | custom>
 * Running it again changes nothing. TURNPIKE_DEPLOYMENTS names another folder than deployments/.
 */
import type { Provider, Signer } from "ethers";
import { networkOfChain } from "turnpike/protocol";
import { type Artifact, readArtifact } from "./deploy/artifact";
import { addressOf, create2, creationBlock, requireCancun, requireDeployer } from "./deploy/create2";
import {
  type ContractRecord,
  type DeploymentRecord,
  publishDeployments,
  readRecord,
  writeRecord,
} from "./deploy/record";

export interface DeployOptions {
  readonly signer: Signer & { provider: Provider };
  /** whether missing prerequisites may be created: on a local chain, never on a live one */
  readonly isDevnet: boolean;
  /** folder of the record; default deployments/ */
  readonly directory?: string;
}

/** @throws when the chain lacks Cancun or the CREATE2 deployer, or a contract's address has other code */
export async function deploy({ signer, isDevnet, directory }: DeployOptions): Promise<DeploymentRecord> {
  const chainId = Number((await signer.provider.getNetwork()).chainId);
  await requireCancun(signer.provider);
  await requireDeployer(signer, isDevnet);
  const before = readRecord(chainId, directory);
  const turnpike = readArtifact("contracts/Turnpike.sol", "Turnpike");
  const batchSettler = readArtifact("contracts/BatchSettler.sol", "BatchSettler");
  const record: DeploymentRecord = {
    network: networkOfChain(chainId).name,
    chainId,
    compiler: turnpike.compiler,
    turnpike: await place(signer, turnpike, before?.turnpike),
    batchSettler: await place(signer, batchSettler, before?.batchSettler),
  };
  writeRecord(record, directory);
  return record;
}

async function place(
  signer: Signer & { provider: Provider },
  artifact: Artifact,
  before: ContractRecord | undefined,
): Promise<ContractRecord> {
  const { initCodeHash } = artifact;
  const address = addressOf(artifact);
  const receipt = await create2(signer, artifact);
  if (receipt) return { address, block: receipt.blockNumber, transaction: receipt.hash, initCodeHash };
  if (before?.address === address) return before;
  const block = await creationBlock(signer.provider, address);
  return { address, ...(block === undefined ? {} : { block }), initCodeHash };
}

/** Recognizes a development chain, in memory or on this machine, by its client's name. */
export async function isDevnet(send: (method: string, parameters: unknown[]) => Promise<unknown>): Promise<boolean> {
  return /^(hardhat|anvil)/i.test(String(await send("web3_clientVersion", [])));
}

async function main(): Promise<void> {
  const { default: hre } = await import("hardhat");
  const [signer] = await hre.ethers.getSigners();
  if (!signer) throw new Error("There is no key to deploy with: set TURNPIKE_DEPLOYER_KEY.");
  const devnet = await isDevnet((method, parameters) => hre.ethers.provider.send(method, parameters));
  const directory = process.env.TURNPIKE_DEPLOYMENTS || undefined;
  const record = await deploy({ signer, isDevnet: devnet, ...(directory ? { directory } : {}) });
  if (!directory && !devnet) publishDeployments();
  process.stdout.write(`${JSON.stringify(record, null, 2)}\n`);
  if (!process.env.TURNPIKE_EXPLORER_KEY || devnet) return;
  for (const { address } of [record.turnpike, record.batchSettler]) await hre.run("verify:verify", { address });
}

if (require.main === module) {
  main().catch((error: Error) => {
    process.stderr.write(`${error.message}\n`);
    process.exitCode = 1;
  });
}
