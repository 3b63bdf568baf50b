/** Checks a contract wallet's signature by ERC-1271. Any other behaviour or answer counts as invalid. */
import { AbiCoder, concat } from "ethers";
import { type Address, type Hex, isTurnpikeError } from "../protocol";
import { NO_ANSWER, type Rpc } from "./rpc";

export interface ContractSignature {
  readonly wallet: Address;
  readonly digest: Hex;
  readonly signature: Hex;
}

const SELECTOR = "0x1626ba7e";

const YES = SELECTOR.padEnd(66, "0");

/** What a wallet may spend on its check. */
const GAS = "0x61a80";

/** @throws Unavailable when the chain cannot be asked */
export async function isContractSignature(
  rpc: Rpc,
  { wallet, digest, signature }: ContractSignature,
): Promise<boolean> {
  const data = concat([SELECTOR, AbiCoder.defaultAbiCoder().encode(["bytes32", "bytes"], [digest, signature])]);
  try {
    return (await rpc.send<string>("eth_call", [{ to: wallet, data, gas: GAS }, "latest"])) === YES;
  } catch (error) {
    const isReverted = isTurnpikeError(error) && (error.status !== 503 || error.reason === NO_ANSWER);
    if (isReverted) return false;
    throw error;
  }
}
