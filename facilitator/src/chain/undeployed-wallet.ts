/**
 * Reads ERC-6492 signatures, and tries what a wallet that is not deployed yet would answer. Sends a contract-creation
 * call that runs WalletLens, so that nothing is deployed. The wallet's address is what the factory's code makes it, and
 * never what the payload says.
 * @see contracts/WalletLens.sol
 */
import { AbiCoder } from "ethers";
import { type Address, checksum, type Hex, Unavailable } from "turnpike/protocol";
import type { ChainReader } from "./chain-reader";
import { walletLens } from "./contract-code.json";
import { intrinsicGas } from "./gas";

export interface WalletDeployment {
  readonly factory: Address;
  readonly data: Hex;
}

export interface UnwrappedSignature {
  readonly signature: Hex;
  /** absent: the signature is in no ERC-6492 wrapper */
  readonly deployment?: WalletDeployment;
}

export interface Trial {
  readonly wallet: Address;
  readonly deployment: WalletDeployment;
  readonly deployGas: number;
  readonly digest: Hex;
  readonly signature: Hex;
  readonly token: Address;
  readonly transfer: Hex;
}

export interface TrialResult {
  /** whether the wallet has code after the factory's call */
  readonly isDeployed: boolean;
  readonly isAccepted: boolean;
  readonly isMoved: boolean;
}

/** The last 32 bytes of a wrapped signature. */
const MAGIC = "6492".repeat(16);

const TRIAL_TYPE =
  "tuple(address wallet, address factory, bytes factoryData, uint256 deployGas, bytes32 digest, bytes signature, address token, bytes transfer)";

/** Signature check, transfer, the lens itself, and what the 63/64 rule withholds of the factory's gas. */
const LENS_GAS = 1_200_000;

/** Removes the wrapper of ERC-6492. @returns undefined when the wrapper is malformed */
export function unwrapSignature(signature: Hex): UnwrappedSignature | undefined {
  if (!signature.toLowerCase().endsWith(MAGIC)) return { signature };
  try {
    const body = signature.slice(0, -MAGIC.length);
    const [factory, data, inner] = AbiCoder.defaultAbiCoder().decode(["address", "bytes", "bytes"], body);
    return { signature: inner as Hex, deployment: { factory: checksum(factory as Address), data: data as Hex } };
  } catch {
    // The bytes are a stranger's.
    return undefined;
  }
}

/** Deploys, asks and transfers in one call that changes nothing. @throws Unavailable when no node runs it */
export async function tryDeployment(chain: Pick<ChainReader, "call">, trial: Trial): Promise<TrialResult> {
  const { deployment, ...rest } = trial;
  const argument = { ...rest, factory: deployment.factory, factoryData: deployment.data };
  const encoded = AbiCoder.defaultAbiCoder().encode([TRIAL_TYPE], [argument]);
  const data: Hex = `0x${walletLens.creationCode.slice(2)}${encoded.slice(2)}`;
  const gas = intrinsicGas(data) + BigInt(LENS_GAS + Math.ceil((trial.deployGas * 64) / 63));
  const answer = await chain.call({ data, gas });
  const words = answer.kind === "ok" ? /^0x([0-9a-f]{64})([0-9a-f]{64})([0-9a-f]{64})$/i.exec(answer.data) : null;
  if (!words) throw new Unavailable("a node does not run the trial of an undeployed wallet", { retryAfterSec: 2 });
  const [isDeployed, isAccepted, isMoved] = words.slice(1).map((word) => BigInt(`0x${word}`) === 1n);
  return { isDeployed: isDeployed === true, isAccepted: isAccepted === true, isMoved: isMoved === true };
}
