/** Reads the signatures of an act once, so that its key, its simulation and its transaction have the same bytes. */
import type { PermitFields, Voucher } from "turnpike/facilitator";
import { type Address, type Hex, signatureWithV } from "turnpike/protocol";
import type { ChainReader } from "../chain/chain-reader";
import { signatureForChain } from "../chain/wallet-signature";

interface SignedAct {
  readonly signature: Hex;
  readonly permit?: PermitFields | undefined;
  readonly voucher?: Voucher | undefined;
}

/** Returns an act of an account with its signatures as contracts read them. @throws Unavailable */
export async function asContractsRead<A extends SignedAct>(
  chain: Pick<ChainReader, "code">,
  act: A,
  account: Address,
): Promise<A> {
  const { permit, voucher } = act;
  const read = (wallet: Address, signature: Hex) => signatureForChain(chain, { wallet, signature });
  return {
    ...act,
    signature: await read(account, act.signature),
    // Tokens take 65 bytes as a key's alone.
    ...(permit && { permit: { ...permit, signature: signatureWithV(permit.signature) } }),
    ...(voucher && { voucher: { ...voucher, signature: await read(voucher.signer, voucher.signature) } }),
  };
}
