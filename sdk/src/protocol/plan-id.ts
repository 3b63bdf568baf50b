/**
 * Computes a plan's id, the hash of its terms: anyone with the terms can check them against the id, whatever their
 * source.
 */
import type { Address } from "./address";
import { concatBytes, type Hex, hexToBytes, keccak256, keccakText, wordOfAddress, wordOfUint } from "./hex";

/** Every term that goes into a planId; amounts in base units, times in seconds. */
export interface PlanPreimage {
  readonly provider: Address;
  readonly token: Address;
  /** base units per period */
  readonly amount: bigint;
  readonly intervalSec: number;
  readonly graceSec: number;
  readonly payTo: Address;
  readonly salt: Hex;
  /** the JSON text as it was emitted, byte for byte */
  readonly metadata: string;
}

/** keccak256(abi.encode(provider, terms, salt, keccak256(metadata))). @see Plans.createPlan in contracts/Plans.sol */
export function planIdOf(plan: PlanPreimage): Hex {
  return keccak256(
    concatBytes(
      wordOfAddress(plan.provider),
      wordOfAddress(plan.token),
      wordOfUint(plan.amount),
      wordOfUint(plan.intervalSec),
      wordOfUint(plan.graceSec),
      wordOfAddress(plan.payTo),
      hexToBytes(plan.salt),
      hexToBytes(keccakText(plan.metadata)),
    ),
  );
}
