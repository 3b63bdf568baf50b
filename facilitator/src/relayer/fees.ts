/** Computes what a transaction may pay from the base fee and the ceilings, in wei per gas. Pure. */
export interface Fees {
  readonly maxFeeWei: bigint;
  readonly priorityFeeWei: bigint;
}

export interface FeeLimits {
  readonly maxFeePerGasWei: bigint;
  readonly priorityFeeWei: bigint;
}

/**
 * Returns fees that cover six full blocks in a row.
 * @returns undefined when the ceiling is already below the base fee
 */
export function firstFees(baseFeeWei: bigint, limits: FeeLimits): Fees | undefined {
  const floor = baseFeeWei + limits.priorityFeeWei;
  if (floor > limits.maxFeePerGasWei) return undefined;
  return {
    maxFeeWei: min(baseFeeWei * 2n + limits.priorityFeeWei, limits.maxFeePerGasWei),
    priorityFeeWei: limits.priorityFeeWei,
  };
}

/** Raises both fees by an eighth; nodes require a tenth. @returns undefined when the ceiling does not allow it */
export function bumpedFees(last: Fees, baseFeeWei: bigint, limits: FeeLimits): Fees | undefined {
  const priorityFeeWei = raised(last.priorityFeeWei);
  const wanted = max(raised(last.maxFeeWei), baseFeeWei * 2n + priorityFeeWei);
  const maxFeeWei = min(wanted, limits.maxFeePerGasWei);
  if (maxFeeWei < raised(last.maxFeeWei) || priorityFeeWei > maxFeeWei) return undefined;
  return { maxFeeWei, priorityFeeWei };
}

export interface Affordable<T> {
  /** from the first, as many as the amount allows */
  readonly items: readonly T[];
  readonly wei: bigint;
  /** maximum cost of the first that it does not allow */
  readonly unaffordableWei?: bigint;
}

/** Returns the transactions whose maximum fees fit in an amount, without skipping any. */
export function affordable<T extends { readonly gasLimit: bigint }>(
  all: readonly T[],
  { maxFeeWei }: Fees,
  leftWei: bigint,
): Affordable<T> {
  let wei = 0n;
  for (const [place, { gasLimit }] of all.entries()) {
    const costWei = gasLimit * maxFeeWei;
    if (wei + costWei > leftWei) return { items: all.slice(0, place), wei, unaffordableWei: costWei };
    wei += costWei;
  }
  return { items: all, wei };
}

const raised = (fee: bigint): bigint => fee + fee / 8n + 1n;

const min = (a: bigint, b: bigint): bigint => (a < b ? a : b);

const max = (a: bigint, b: bigint): bigint => (a > b ? a : b);
