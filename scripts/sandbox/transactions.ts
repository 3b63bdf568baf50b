/** Lists mined transactions: the name of the called function, the outcome and the gas. */
import type { Interface, TransactionResponse } from "ethers";
import { batchSettlerInterface, tokenInterface, turnpikeInterface, uptoProxyInterface } from "turnpike/chain";
import { UPTO_PERMIT2_PROXY } from "turnpike/protocol";
import { shortened } from "./wording";
import type { World } from "./world";

export interface Mined {
  readonly line: string;
  readonly gas: bigint;
}

/** @returns the transactions after block `from`, without the faucet's and the provider's own set-up */
export async function transactionsSince(world: World, from: number): Promise<Mined[]> {
  const { provider } = world.chain;
  const last = await provider.getBlockNumber();
  const mined: Mined[] = [];
  for (let number = from + 1; number <= last; number += 1) {
    const block = await provider.getBlock(number, true);
    for (const transaction of block?.prefetchedTransactions ?? []) {
      const receipt = await provider.getTransactionReceipt(transaction.hash);
      const outcome = receipt?.status === 1 ? "" : " REVERTED";
      const gas = receipt?.gasUsed ?? 0n;
      const by = senderOf(world, transaction.from);
      const cost = `${gas.toLocaleString("en")} gas, paid by ${by}`;
      mined.push({ gas, line: `${nameOf(world, transaction)}${outcome}  ${cost}  ${shortened(transaction.hash)}` });
    }
  }
  return mined;
}

function nameOf({ contracts }: World, { to, data, value }: TransactionResponse): string {
  const known: readonly (readonly [string, string, Interface])[] = [
    ["Turnpike", contracts.turnpike, turnpikeInterface],
    ["BatchSettler", contracts.batchSettler, batchSettlerInterface],
    ["Token", contracts.token, tokenInterface],
    ["Permit2 proxy", UPTO_PERMIT2_PROXY, uptoProxyInterface],
  ];
  const [name, , abi] = known.find(([, address]) => address === to) ?? [];
  if (!abi) return to ? `call of ${to}` : "deployment";
  return `${name}.${abi.parseTransaction({ data, value })?.name ?? "mint"}`;
}

function senderOf({ facilitator, providerAccount }: World, from: string): string {
  if (from === facilitator.relayer) return "the Facilitator";
  return from === providerAccount.address ? "the provider" : from;
}
