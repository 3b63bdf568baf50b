/** Reads the signatures of an act once, so that its key, its simulation and its transaction have the same bytes. */
import type { Voucher } from "turnpike/facilitator";
import type { Address, Hex } from "turnpike/protocol";
import type { ChainReader } from "../chain/chain-reader";
import { signatureForChain } from "../chain/wallet-signature";

interface SignedAct {
  readonly signature: Hex;
  readonly voucher?: Voucher | undefined;
}

/** Returns an act of an account with its signatures as contracts read them. @throws Unavailable */
export async function asContractsRead<A extends SignedAct>(
  chain: Pick<ChainReader, "code">,
  act: A,
  account: Address,
): Promise<A> {
  const { voucher } = act;
  const read = (wallet: Address, signature: Hex) => signatureForChain(chain, { wallet, signature });
  return {
    ...act,
    signature: await read(account, act.signature),
    ...(voucher && { voucher: { ...voucher, signature: await read(voucher.signer, voucher.signature) } }),
  };
}
