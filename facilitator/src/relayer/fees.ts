/** What a transaction may pay, as pure functions of the head's base fee and the ceilings. All in wei per gas. */
export interface Fees {
  readonly maxFeeWei: bigint;
  readonly priorityFeeWei: bigint;
}

export interface FeeLimits {
  readonly maxFeePerGasWei: bigint;
  readonly priorityFeeWei: bigint;
}

/** Room for six full blocks in a row before the fee is outbid. @returns undefined when even now the ceiling is too low */
export function firstFees(baseFeeWei: bigint, limits: FeeLimits): Fees | undefined {
  const floor = baseFeeWei + limits.priorityFeeWei;
  if (floor > limits.maxFeePerGasWei) return undefined;
  return {
    maxFeeWei: min(baseFeeWei * 2n + limits.priorityFeeWei, limits.maxFeePerGasWei),
    priorityFeeWei: limits.priorityFeeWei,
  };
}

/** Both raised by an eighth: nodes want a tenth. @returns undefined when the ceiling does not allow it */
export function bumpedFees(last: Fees, baseFeeWei: bigint, limits: FeeLimits): Fees | undefined {
  const priorityFeeWei = raised(last.priorityFeeWei);
  const wanted = max(raised(last.maxFeeWei), baseFeeWei * 2n + priorityFeeWei);
  const maxFeeWei = min(wanted, limits.maxFeePerGasWei);
  if (maxFeeWei < raised(last.maxFeeWei) || priorityFeeWei > maxFeeWei) return undefined;
  return { maxFeeWei, priorityFeeWei };
}

const raised = (fee: bigint): bigint => fee + fee / 8n + 1n;

const min = (a: bigint, b: bigint): bigint => (a < b ? a : b);

const max = (a: bigint, b: bigint): bigint => (a > b ? a : b);
