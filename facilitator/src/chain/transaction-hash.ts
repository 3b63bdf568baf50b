/** Recomputes hashes of transactions, so that a node cannot change what a transaction called. */
import { Signature, Transaction } from "ethers";
import type { Hex } from "turnpike/protocol";

type TransactionFields = Readonly<Record<string, unknown>>;

const LEGACY = 0;

const FEE_MARKET = 2;

/** @returns undefined for a type that not every chain hashes in the same way, and for malformed fields */
export function hashOfTransaction(fields: TransactionFields): Hex | undefined {
  const type = Number(fields.type ?? LEGACY);
  if (!(type >= LEGACY && type <= FEE_MARKET)) return undefined;
  try {
    const signature = Signature.from({
      r: String(fields.r),
      s: String(fields.s),
      ...(type === LEGACY ? { v: String(fields.v) } : { yParity: Number(fields.yParity ?? fields.v) as 0 | 1 }),
    });
    const fees =
      type === FEE_MARKET
        ? { maxFeePerGas: String(fields.maxFeePerGas), maxPriorityFeePerGas: String(fields.maxPriorityFeePerGas) }
        : { gasPrice: String(fields.gasPrice) };
    const transaction = Transaction.from({
      type,
      signature,
      ...fees,
      to: fields.to ? String(fields.to) : null,
      data: String(fields.input),
      nonce: Number(fields.nonce),
      gasLimit: String(fields.gas),
      value: String(fields.value),
      chainId: type === LEGACY ? (signature.legacyChainId ?? 0n) : String(fields.chainId),
      accessList: type === LEGACY ? null : ((fields.accessList ?? []) as []),
    });
    return (transaction.hash as Hex | null) ?? undefined;
  } catch {
    return undefined;
  }
}
