/** Decodes calls of x402's Permit2 proxies, and finds the payment that one of them moved: their logs name no payment. */
import {
  type Address,
  checksum,
  EXACT_PERMIT2_PROXY,
  type Hex,
  permit2NonceOf,
  sameAddress,
  UPTO_PERMIT2_PROXY,
} from "../protocol";
import { fieldsOf } from "../protocol/arguments";
import { exactProxyInterface, uptoProxyInterface } from "./abi";
import { isTransfer } from "./evidence";
import { requireRpc } from "./require-rpc";
import type { Rpc } from "./rpc";
import { depthOf, type ExpectedSettlement, type Receipt } from "./settlement";

/** A settlement as the calldata of a proxy's call names it. */
export interface ProxyCall {
  readonly token: Address;
  readonly payer: Address;
  readonly payTo: Address;
  /** base units that the call moves */
  readonly amount: bigint;
  readonly nonce: Hex;
}

/** What a transaction calls. */
export interface CalledContract {
  readonly to: Address;
  readonly data: Hex;
}

/** @returns undefined when the call is no settlement through a proxy */
export function decodeProxyCall(contract: CalledContract): ProxyCall | undefined {
  const { to, data } = fieldsOf(contract, "contract");
  if (to !== EXACT_PERMIT2_PROXY && to !== UPTO_PERMIT2_PROXY) return undefined;
  try {
    const parsed = (to === EXACT_PERMIT2_PROXY ? exactProxyInterface : uptoProxyInterface).parseTransaction({ data });
    if (!parsed) return undefined;
    const { permit, owner, witness } = parsed.args;
    return {
      token: checksum(permit.permitted.token),
      payer: checksum(owner),
      payTo: checksum(witness.to),
      amount: to === EXACT_PERMIT2_PROXY ? permit.permitted.amount : parsed.args.amount,
      nonce: permit2NonceOf(permit.nonce),
    };
  } catch {
    // Calldata that the proxy would not decode either.
    return undefined;
  }
}

interface Called {
  readonly to?: string | null;
  readonly input?: Hex;
}

/**
 * Finds the evidence of a payment over Permit2: a direct call of a proxy with its nonce, and the token's transfer.
 * @returns as `findSettlement`. @throws Unavailable
 */
export async function findPermit2Settlement(
  rpc: Rpc,
  expected: Omit<ExpectedSettlement, "before">,
): Promise<"settled" | "shallow" | "absent"> {
  requireRpc(rpc);
  fieldsOf(expected, "expected");
  const [receipt, called] = await Promise.all([
    rpc.send<Receipt | null>("eth_getTransactionReceipt", [expected.transaction]),
    rpc.send<Called | null>("eth_getTransactionByHash", [expected.transaction]),
  ]);
  const { to, input } = called ?? {};
  const call = to && input ? decodeProxyCall({ to: checksum(to as Address), data: input }) : undefined;
  const { token, payer, payTo, amount, nonce } = expected;
  const isNamed =
    call !== undefined &&
    sameAddress(call.token, token) &&
    sameAddress(call.payer, payer) &&
    sameAddress(call.payTo, payTo) &&
    call.amount === amount &&
    call.nonce === nonce;
  const logs = receipt?.status === "0x1" && isNamed ? (receipt.logs ?? []) : [];
  if (!logs.some((log) => isTransfer(log, { token, from: payer, to: payTo, amount }))) return "absent";
  return depthOf(rpc, receipt, expected.confirmations);
}
