/**
 * Deploys Turnpike and BatchSettler, or finds them deployed, and writes deployments/<network>.json:
 *     npx hardhat run scripts/deploy.ts --network <localhost | baseSepolia | base | robinhood | custom>
 * Running it again changes nothing. TURNPIKE_DEPLOYMENTS names another folder than deployments/, which takes the record of
 * a public chain from that chain's own nodes alone.
 */
import { AbiCoder, concat, type JsonRpcApiProvider, keccak256, type Provider, type Signer } from "ethers";
import { type Address, lensAddressOf, networkOfChain } from "turnpike/protocol";
import { type Artifact, readArtifact } from "./deploy/artifact";
import { addressOf, create2, creationBlock, requireCancun, requireDeployer } from "./deploy/create2";
import { isDevnet, requireGenuine } from "./deploy/genuine";
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

/** @throws when the chain is not the one of its id, lacks Cancun or the CREATE2 deployer, or an address has other code */
export async function deploy({ signer, isDevnet, directory }: DeployOptions): Promise<DeploymentRecord> {
  const chainId = Number((await signer.provider.getNetwork()).chainId);
  if (directory === undefined) await requireGenuine(sendOf(signer.provider), chainId);
  await requireCancun(signer.provider);
  await requireDeployer(signer, isDevnet);
  const before = readRecord(chainId, directory);
  const turnpike = readArtifact("contracts/Turnpike.sol", "Turnpike");
  const batchSettler = readArtifact("contracts/BatchSettler.sol", "BatchSettler");
  const placed = await place(signer, turnpike, before?.turnpike);
  const record: DeploymentRecord = {
    network: networkOfChain(chainId).name,
    chainId,
    compiler: turnpike.compiler,
    turnpike: placed,
    lens: await lensOf(signer, placed),
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

const sendOf = (provider: Provider) => (method: string, parameters: unknown[]) =>
  (provider as JsonRpcApiProvider).send(method, parameters);

/** Turnpike's first creation, in the same transaction. @throws when it has other code */
async function lensOf(
  signer: Signer & { provider: Provider },
  { address: turnpike, initCodeHash: _, ...made }: ContractRecord,
): Promise<ContractRecord> {
  const artifact = readArtifact("contracts/TurnpikeLens.sol", "TurnpikeLens");
  const address = lensAddressOf(turnpike as Address);
  if (!artifact.isRuntimeCode(await signer.provider.getCode(address)))
    throw new Error(`The code at ${address} is not TurnpikeLens's.`);
  const initCodeHash = keccak256(
    concat([artifact.initCode, AbiCoder.defaultAbiCoder().encode(["address"], [turnpike])]),
  );
  return { address, ...made, initCodeHash };
}

async function main(): Promise<void> {
  const { default: hre } = await import("hardhat");
  const [signer] = await hre.ethers.getSigners();
  if (!signer) throw new Error("There is no key to deploy with: set TURNPIKE_DEPLOYER_KEY.");
  const devnet = await isDevnet(sendOf(hre.ethers.provider));
  const directory = process.env.TURNPIKE_DEPLOYMENTS || undefined;
  const record = await deploy({ signer, isDevnet: devnet, ...(directory ? { directory } : {}) });
  if (!directory && !devnet) publishDeployments();
  process.stdout.write(`${JSON.stringify(record, null, 2)}\n`);
  if (!process.env.TURNPIKE_EXPLORER_KEY || devnet) return;
  const { turnpike, lens, batchSettler } = record;
  for (const { address } of [turnpike, batchSettler]) await hre.run("verify:verify", { address });
  await hre.run("verify:verify", { address: lens.address, constructorArguments: [turnpike.address] });
}

if (require.main === module) {
  main().catch((error: Error) => {
    process.stderr.write(`${error.message}\n`);
    process.exitCode = 1;
  });
}
