/**
 * A gate without the SDK's gate: reads from the contract whether a subscription is served, and debits its allowance
 * with the operator's own key. Runs against any chain that ethers reaches.
 */
import type { Signer } from "ethers";
import { decodeRevert, lensAddressOf, Turnpike__factory, TurnpikeLens__factory } from "turnpike/chain";

const ACTIVE = 1n;

export interface DirectDebits {
  /** Returns whether the subscription is ACTIVE in the newest block. */
  isServed(idHash: string): Promise<boolean>;
  /**
   * Debits base units of the plan's token, once.
   * @throws TurnpikeError with the contract's own reason, such as AllowanceExhausted: then nothing was charged
   */
  debit(idHash: string, amount: bigint): Promise<{ readonly transaction: string }>;
}

export function directDebits(turnpikeAddress: `0x${string}`, operator: Signer): DirectDebits {
  const turnpike = Turnpike__factory.connect(turnpikeAddress, operator);
  // Turnpike's records as structs are read through its lens.
  const lens = TurnpikeLens__factory.connect(lensAddressOf(turnpikeAddress), operator);
  return {
    isServed: async (idHash) => (await turnpike.statusOf(idHash)) === ACTIVE,
    async debit(idHash, amount) {
      // The index makes a debit unique: sent twice, the second reverts with StaleDebit.
      const { debits } = await lens.getAllowance(idHash);
      const sent = await turnpike.debit(idHash, amount, debits).catch((error: unknown) => {
        throw decodeRevert(error) ?? error;
      });
      const receipt = await sent.wait();
      if (receipt?.status !== 1) throw new Error(`the debit ${sent.hash} was reverted`);
      return { transaction: sent.hash };
    },
  };
}
