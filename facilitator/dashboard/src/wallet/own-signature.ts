/** Checks by the wallet's chain a signature that no service checks: a voucher's. */
import { type Hex, type TypedData, typedDataDigest } from "turnpike/protocol";
import { type Account, Problem } from "./account";
import { encode, encodeBytes } from "./calls";

/** The precompile that returns the signer of a digest. */
const ECRECOVER = `0x${"1".padStart(40, "0")}`;

/** isValidSignature(bytes32,bytes) of ERC-1271, and its answer. */
const VALID = "0x1626ba7e";

/** @throws Problem when the account, a key or a contract, has not signed exactly this */
export async function requireOwn(account: Account, data: TypedData, signature: string): Promise<void> {
  const digest: Hex = typedDataDigest(data);
  const bytes = Uint8Array.from(signature.slice(2).match(/../g) ?? [], (hex) => Number.parseInt(hex, 16));
  const [r, s, v] = [signature.slice(2, 66), signature.slice(66, 130), signature.slice(130, 132)];
  const read = (to: string, call: string) => account.read({ to, data: call }).catch(() => "0x");
  const signer = await read(ECRECOVER, `${digest}${v.padStart(64, "0")}${r}${s}`);
  if (signer.slice(-40).toLowerCase() === account.address.slice(2).toLowerCase()) return;
  const answer = await read(account.address, encode(VALID, digest, 2 * 32) + encodeBytes(bytes));
  if (answer.startsWith(VALID)) return;
  throw new Problem("Your wallet signed something else, or with another account. Nothing was changed.");
}
