/** Checks a contract wallet's signature by ERC-1271. Any other behaviour or answer counts as invalid. */
import { type Address, type Hex, isTurnpikeError } from "../protocol";
import { aText, fieldsOf } from "../protocol/arguments";
import type { Rpc } from "./rpc";
import { NO_ANSWER } from "./views";

/** A question to a contract wallet (ERC-1271): whether it accepts the signature of a digest. */
export interface ContractSignature {
  readonly wallet: Address;
  readonly digest: Hex;
  readonly signature: Hex;
}

const SELECTOR = "0x1626ba7e";

/** What a wallet may spend on its check. */
const GAS = 400_000n;

const wordOf = (value: number): string => value.toString(16).padStart(64, "0");

/** The call `isValidSignature(bytes32 hash, bytes signature)` of a wallet. */
export function signatureCheck(signed: ContractSignature): {
  readonly to: Address;
  readonly data: Hex;
  readonly gas: bigint;
} {
  const { wallet, digest, signature } = fieldsOf(signed, "signed");
  aText(digest, "signed.digest");
  aText(signature, "signed.signature");
  const length = signature.length / 2 - 1;
  const padded = signature.slice(2).padEnd(Math.ceil(length / 32) * 64, "0");
  return { to: wallet, data: `${SELECTOR}${digest.slice(2)}${wordOf(64)}${wordOf(length)}${padded}`, gas: GAS };
}

/** Returns whether the data that a wallet returned for its check accepts the signature. */
export function isSignatureAccepted(returned: string): boolean {
  return returned === SELECTOR.padEnd(66, "0");
}

/** @throws Unavailable when the chain cannot be asked */
export async function isContractSignature(rpc: Rpc, signed: ContractSignature): Promise<boolean> {
  const { to, data, gas } = signatureCheck(signed);
  try {
    return isSignatureAccepted(
      await rpc.send<string>("eth_call", [{ to, data, gas: `0x${gas.toString(16)}` }, "latest"]),
    );
  } catch (error) {
    const isReverted = isTurnpikeError(error) && (error.status !== 503 || error.reason === NO_ANSWER);
    if (isReverted) return false;
    throw error;
  }
}
