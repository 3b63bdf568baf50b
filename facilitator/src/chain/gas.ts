/**
 * Computes gas limits and never estimates them: with an estimate as limit, a batch starves its items and still
 * succeeds.
 */
import type { Hex } from "turnpike/protocol";

/** Maximum gas limit of a transaction (EIP-7825). */
export const MAX_TRANSACTION_GAS = 16_777_216n;

const BASE = 21_000n;

/** Returns the gas of this calldata before any code runs, by the more expensive of the two rules (EIP-7623). */
export function intrinsicGas(data: Hex): bigint {
  let zeros = 0;
  for (let i = 2; i < data.length; i += 2) if (data[i] === "0" && data[i + 1] === "0") zeros++;
  const others = data.length / 2 - 1 - zeros;
  const standard = zeros * 4 + others * 16;
  const floor = zeros * 10 + others * 40;
  return BASE + BigInt(Math.max(standard, floor));
}
