/** Checks whether a wallet signed a digest: by its key, or as a contract by ERC-1271. */
import { type ContractSignature, isSignatureAccepted, signatureCheck } from "turnpike/chain";
import { type Address, type Hex, signatureWithV } from "turnpike/protocol";
import type { ChainReader } from "./chain-reader";
import { signerOf } from "./signer-of";

export interface WalletSignature {
  readonly wallet: Address;
  /** one of these must be signed */
  readonly digests: readonly Hex[];
  readonly signature: Hex;
}

/** @throws Unavailable when the chain cannot be read */
export async function isSignedByWallet(
  chain: Pick<ChainReader, "code" | "call">,
  signed: WalletSignature,
): Promise<boolean> {
  return (await signerByWallet(chain, signed)) !== undefined;
}

/**
 * Returns how the wallet signed: by its key, which is the same wallet's on every chain, or as a contract of this chain;
 * undefined when it did not.
 * @throws Unavailable when the chain cannot be read
 */
export async function signerByWallet(
  chain: Pick<ChainReader, "code" | "call">,
  { wallet, digests, signature }: WalletSignature,
): Promise<"key" | "contract" | undefined> {
  const withV = signatureWithV(signature);
  if (digests.some((digest) => signerOf(digest, withV) === wallet)) return "key";
  if ((await chain.code(wallet)) === "0x") return undefined;
  for (const digest of digests) {
    if (await isSignedByContract(chain, { wallet, digest, signature })) return "contract";
  }
  return undefined;
}

/** Asks the wallet's contract. Any revert or other answer counts as invalid. @throws Unavailable */
export async function isSignedByContract(
  chain: Pick<ChainReader, "call">,
  signed: ContractSignature,
): Promise<boolean> {
  const answer = await chain.call(signatureCheck(signed));
  return answer.kind === "ok" && isSignatureAccepted(answer.data);
}

/** Code that delegates an account to a contract (EIP-7702): such an account still signs with its own key. */
const DELEGATED = /^0xef0100/i;

/**
 * Returns a signature as contracts read it: of an account with a key with 27 or 28 as its v, of a contract wallet as it
 * is. @throws Unavailable when the chain cannot be read
 */
export async function signatureForChain(
  chain: Pick<ChainReader, "code">,
  { wallet, signature }: Pick<WalletSignature, "wallet" | "signature">,
): Promise<Hex> {
  const withV = signatureWithV(signature);
  if (withV === signature) return signature;
  const code = await chain.code(wallet);
  return code === "0x" || DELEGATED.test(code) ? withV : signature;
}
