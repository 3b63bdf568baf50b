/** Checks whether a wallet signed a digest: by its key, or as a contract by ERC-1271. */
import { type Address, type Hex, recoverSigner } from "turnpike/protocol";
import type { ChainReader } from "./chain-reader";

const IS_VALID_SIGNATURE = "1626ba7e";

/** Gas limit of a wallet's check. */
const WALLET_GAS = 400_000n;

export interface WalletSignature {
  readonly wallet: Address;
  /** one of these must be signed */
  readonly digests: readonly Hex[];
  readonly signature: Hex;
}

/** @throws Unavailable when the chain cannot be read */
export async function isSignedByWallet(
  chain: Pick<ChainReader, "code" | "call">,
  { wallet, digests, signature }: WalletSignature,
): Promise<boolean> {
  if (digests.some((digest) => recoverSigner(digest, signature) === wallet)) return true;
  if ((await chain.code(wallet)) === "0x") return false;
  for (const digest of digests) {
    const answer = await chain.call({ to: wallet, data: checkCall(digest, signature), gas: WALLET_GAS });
    // Any revert or other answer counts as invalid.
    if (answer.kind === "ok" && answer.data === `0x${IS_VALID_SIGNATURE.padEnd(64, "0")}`) return true;
  }
  return false;
}

/** `isValidSignature(bytes32 hash, bytes signature)` */
function checkCall(digest: Hex, signature: Hex): Hex {
  const length = signature.length / 2 - 1;
  const padded = signature.slice(2).padEnd(Math.ceil(length / 32) * 64, "0");
  const word = (value: number) => value.toString(16).padStart(64, "0");
  return `0x${IS_VALID_SIGNATURE}${digest.slice(2)}${word(64)}${word(length)}${padded}`;
}
