/** The contracts and a test token on a test's own chain. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { type JsonRpcProvider, Transaction, type TransactionResponse } from "ethers";
import type { Chain, FundedWallet } from "../../scripts/sandbox/chain";
import { deployAll as deployInto, type LocalContracts, tokenAt } from "../../scripts/sandbox/contracts";

export type { LocalContracts } from "../../scripts/sandbox/contracts";

interface Saved {
  readonly contracts: LocalContracts;
  /** signed, in order */
  readonly transactions: readonly string[];
  /** the hash of the one that created Turnpike */
  readonly creation: string;
}

/** Of this worker's first deployment on each chain id. */
const saved = new Map<number, Saved>();

/**
 * Deploys once for each chain id. Later chains with that id are sent the same transactions: no artifacts to read and
 * nothing to estimate or to sign. Each transaction is mined at once, whatever the chain's block time is.
 */
export async function deployAll(chain: Chain): Promise<LocalContracts> {
  const { provider, chainId } = chain;
  const deployer = await chain.wallet("deployer");
  const isMining = await provider.send("hardhat_getAutomine", []);
  if (!isMining) await provider.send("evm_setAutomine", [true]);
  const known = saved.get(chainId);
  let contracts: LocalContracts;
  if (known !== undefined && (await deployer.getNonce()) === 0) contracts = await repeat(known, deployer);
  else {
    contracts = await deploy(chain);
    if (known === undefined) saved.set(chainId, await save(contracts, provider));
  }
  if (!isMining) await provider.send("evm_setAutomine", [false]);
  return contracts;
}

/** Leaves no record behind: a test's chain is gone when the test is. */
async function deploy(chain: Chain): Promise<LocalContracts> {
  const directory = mkdtempSync(path.join(tmpdir(), "turnpike-deployments-"));
  try {
    return await deployInto(chain, directory);
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
}

async function save(contracts: LocalContracts, provider: JsonRpcProvider): Promise<Saved> {
  const numbers = Array.from({ length: (await provider.getBlockNumber()) + 1 }, (_, number) => number);
  const blocks = await Promise.all(numbers.map((number) => provider.getBlock(number, true)));
  const sent = blocks.flatMap((block) => block?.prefetchedTransactions ?? []);
  const creation = sent.find(({ blockNumber }) => blockNumber === contracts.block);
  if (!creation) throw new TypeError("the block of the deployment has no transaction");
  return { contracts, transactions: sent.map(signed), creation: creation.hash };
}

/** The bytes that a transaction was sent as. */
function signed({ type, nonce, to, data, value, chainId, gasLimit, signature, ...fees }: TransactionResponse): string {
  const { gasPrice, maxFeePerGas, maxPriorityFeePerGas } = fees;
  const price = type === 2 ? { maxFeePerGas, maxPriorityFeePerGas } : { gasPrice };
  return Transaction.from({ type, nonce, to, data, value, chainId, gasLimit, signature, ...price }).serialized;
}

async function repeat({ contracts, transactions, creation }: Saved, deployer: FundedWallet): Promise<LocalContracts> {
  for (const transaction of transactions) await deployer.provider.send("eth_sendRawTransaction", [transaction]);
  const receipt = await deployer.provider.getTransactionReceipt(creation);
  if (receipt?.status !== 1) throw new TypeError("the repeated deployment failed");
  return { ...contracts, block: receipt.blockNumber, ...tokenAt(contracts.token, deployer) };
}
