/**
 * Deploys through the canonical CREATE2 deployer: the address depends on the bytes alone, so it is the same on every
 * chain.
 */
import {
  concat,
  type EthersError,
  formatEther,
  getCreate2Address,
  isError,
  type Provider,
  type Signer,
  type TransactionReceipt,
  toQuantity,
} from "ethers";
import type { Artifact } from "./artifact";

export const CREATE2_DEPLOYER = "0x4e59b44847b379578588920cA78FbF26c0B4956C";
const SALT = `0x${"00".repeat(32)}`;

/**
 * Presigned transaction that creates the deployer at its fixed address, with any sender; its signer needs 0.01 ether.
 */
const DEPLOYER_SENDER = "0x3fAB184622Dc19b6109349B94811493BF2a45362";
const DEPLOYER_COST_WEI = 10n ** 16n;
const DEPLOYER_TRANSACTION =
  "0xf8a58085174876e800830186a08080b853604580600e600039806000f350fe7fffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffe03601600081602082378035828234f58015156039578182fd5b8082525050506014600cf31ba02222222222222222222222222222222222222222222222222222222222222222a02222222222222222222222222222222222222222222222222222222222222222";

/** Creation code that uses TSTORE and MCOPY and returns one byte: where it runs, the contracts run too. */
const CANCUN_PROBE = "0x5f5f5d5f5f5f5e60015ff3";

/** @throws when the chain lacks the opcodes of Cancun, which the contracts are compiled for */
export async function requireCancun(provider: Provider): Promise<void> {
  const answer = await provider
    .call({ data: CANCUN_PROBE })
    .catch((error: Partial<EthersError>) => error.shortMessage ?? error.message);
  if (answer === "0x00") return;
  const { chainId } = await provider.getNetwork();
  throw new Error(
    `Chain ${chainId} does not run Cancun's opcodes, which these contracts need: choose another chain, or ask another ` +
      `node of it. This one answered: ${answer}`,
  );
}

/** Creates the deployer on a devnet that lacks it. @throws on a live chain without it */
export async function requireDeployer(signer: Signer & { provider: Provider }, isDevnet: boolean): Promise<void> {
  const { provider } = signer;
  if ((await provider.getCode(CREATE2_DEPLOYER)) !== "0x") return;
  if (!isDevnet) throw new Error(`This chain has no CREATE2 deployer at ${CREATE2_DEPLOYER}: have it deployed first.`);
  const balance = await provider.getBalance(DEPLOYER_SENDER);
  if (balance < DEPLOYER_COST_WEI) {
    await (await signer.sendTransaction({ to: DEPLOYER_SENDER, value: DEPLOYER_COST_WEI - balance })).wait();
  }
  await (await provider.broadcastTransaction(DEPLOYER_TRANSACTION)).wait();
}

export function addressOf(artifact: Artifact): string {
  return getCreate2Address(CREATE2_DEPLOYER, SALT, artifact.initCodeHash);
}

/**
 * @returns the receipt, or undefined when another transaction deployed the right code
 * @throws when the sender lacks the gas, the transaction reverts, or the address has other code
 */
export async function create2(
  signer: Signer & { provider: Provider },
  artifact: Artifact,
): Promise<TransactionReceipt | undefined> {
  const address = addressOf(artifact);
  const before = await signer.provider.getCode(address);
  let receipt: TransactionReceipt | undefined;
  if (before === "0x") {
    receipt = await sendCreation(signer, artifact);
  }
  const code = before === "0x" ? await signer.provider.getCode(address) : before;
  if (code === "0x") {
    throw new Error(`The transaction that creates ${artifact.name} at ${address} reverted: run the script again.`);
  }
  if (!artifact.isRuntimeCode(code)) throw new Error(`The code at ${address} is not ${artifact.name}'s.`);
  return receipt;
}

/** @returns undefined when the transaction reverts, for instance because that of an interrupted run was first */
async function sendCreation(
  signer: Signer & { provider: Provider },
  { initCode }: Artifact,
): Promise<TransactionReceipt | undefined> {
  const gasLimit = await creationGas(signer, initCode);
  await requireGasMoney(signer, gasLimit);
  const data = concat([SALT, initCode]);
  const sent = await signer.sendTransaction({ to: CREATE2_DEPLOYER, data, gasLimit });
  try {
    return (await sent.wait()) ?? undefined;
  } catch (error) {
    if (isError(error, "CALL_EXCEPTION")) return undefined;
    throw error;
  }
}

/**
 * A quarter above what the chain estimates, which on some rollups includes the price of the data. Estimated without the
 * deployer: it keeps a 64th for itself, which makes Hardhat's node search above the cap that a transaction has.
 */
async function creationGas(signer: Signer & { provider: Provider }, initCode: string): Promise<bigint> {
  const estimate = await signer.provider.estimateGas({ from: await signer.getAddress(), data: initCode });
  return (estimate * 5n) / 4n;
}

async function requireGasMoney(signer: Signer & { provider: Provider }, gasLimit: bigint): Promise<void> {
  const { provider } = signer;
  const address = await signer.getAddress();
  const [balance, fees] = await Promise.all([provider.getBalance(address), provider.getFeeData()]);
  const needed = gasLimit * (fees.maxFeePerGas ?? fees.gasPrice ?? 0n);
  if (balance >= needed) return;
  const { chainId } = await provider.getNetwork();
  throw new Error(
    `The account ${address} of TURNPIKE_DEPLOYER_KEY has ${formatEther(balance)} ether on chain ${chainId}, and a ` +
      `transaction may need ${formatEther(needed)}: send it ether for gas, then run the script again.`,
  );
}

/** Finds the block that created `address`, by bisection. @returns undefined when the node keeps no old states */
export async function creationBlock(provider: Provider, address: string): Promise<number | undefined> {
  let low = 0;
  let high = await provider.getBlockNumber();
  try {
    while (low < high) {
      const middle = Math.floor((low + high) / 2);
      if ((await provider.getCode(address, toQuantity(middle))) === "0x") low = middle + 1;
      else high = middle;
    }
  } catch {
    return undefined; // a pruned node: the record goes without the block rather than with a wrong one
  }
  return low;
}
