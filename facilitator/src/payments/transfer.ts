/**
 * How a payment moves: by its token's EIP-3009, or through one of x402's Permit2 proxies. Builds what the payer signed
 * and the proxy's call, from a request or from its stored row.
 */
import { exactProxyInterface, uptoProxyInterface } from "turnpike/chain";
import {
  type Address,
  type Hex,
  type Permit2Authorization,
  paymentIdOf,
  permit2PaymentIdOf,
  proxyOf,
  type TransferAuthorization,
} from "turnpike/protocol";
import type { PaymentMethod, PaymentRow } from "../db/tables/payments";

/** What a payer authorized: an EIP-3009 transfer, or the terms of one over Permit2. */
export type Authorization = TransferAuthorization;

/** An EIP-2612 permit of the payer that approves Permit2. */
export interface TokenPermit {
  readonly value: bigint;
  /** unix seconds, inclusive */
  readonly deadline: bigint;
  /** r, s, v in 65 bytes */
  readonly signature: Hex;
}

export type Transfer =
  | { readonly method: "eip3009" }
  | { readonly method: "permit2"; readonly permit?: TokenPermit }
  | {
      readonly method: "upto";
      /** the maximum that the payer signed; the authorization's value is what is charged */
      readonly max: bigint;
      /** the only account that may settle */
      readonly sender: Address;
      readonly permit?: TokenPermit;
    };

export const EIP3009: Transfer = { method: "eip3009" };

/** Gas of Permit2 and the proxy beside the token's transfer, and of the token's own permit. */
const PERMIT2_GAS = 90_000;

const TOKEN_PERMIT_GAS = 90_000;

/** A signed payment over Permit2. `validBefore` is one second after the deadline, which Permit2 includes. */
export interface Permit2Payment {
  readonly token: Address;
  readonly authorization: Authorization;
  readonly signature: Hex;
  readonly transfer: Exclude<Transfer, { method: "eip3009" }>;
}

/** Returns the id of a payment. A nonce of the token and one of Permit2 never name the same payment. */
export function idOfPayment(
  chainId: number,
  token: Address,
  { from: payer, nonce }: Pick<Authorization, "from" | "nonce">,
  { method }: { readonly method: PaymentMethod },
): Hex {
  const key = { chainId, token, payer, nonce };
  return method === "eip3009" ? paymentIdOf(key) : permit2PaymentIdOf(key);
}

export function permit2AuthorizationOf({ token, authorization, transfer }: Permit2Payment): Permit2Authorization {
  const { from, to, value, validAfter, validBefore, nonce } = authorization;
  const isUpto = transfer.method === "upto";
  return {
    from,
    to,
    token,
    validAfter,
    amount: isUpto ? transfer.max : value,
    spender: proxyOf(transfer.method),
    nonce: BigInt(nonce),
    deadline: validBefore - 1n,
    ...(isUpto && { facilitator: transfer.sender }),
  };
}

export function proxyCallOf(payment: Permit2Payment): {
  readonly to: Address;
  readonly data: Hex;
  /** gas beside a plain transfer of the token */
  readonly extraGas: number;
} {
  const { authorization, signature, transfer } = payment;
  const { token, amount, nonce, deadline, from, to, validAfter, facilitator } = permit2AuthorizationOf(payment);
  const permit = [[token, amount], nonce, deadline];
  const { permit: approval } = transfer;
  const approvals = approval ? [tokenPermitOf(approval)] : [];
  const name = approval ? "settleWithPermit" : "settle";
  const data =
    transfer.method === "permit2"
      ? exactProxyInterface.encodeFunctionData(name, [...approvals, permit, from, [to, validAfter], signature])
      : uptoProxyInterface.encodeFunctionData(name, [
          ...approvals,
          ...[permit, authorization.value, from, [to, facilitator, validAfter], signature],
        ]);
  return {
    to: proxyOf(transfer.method),
    data: data as Hex,
    extraGas: PERMIT2_GAS + (approval ? TOKEN_PERMIT_GAS : 0),
  };
}

function tokenPermitOf({ value, deadline, signature }: TokenPermit) {
  const digits = signature.slice(2);
  return [value, deadline, `0x${digits.slice(0, 64)}`, `0x${digits.slice(64, 128)}`, Number(`0x${digits.slice(128)}`)];
}

type TransferColumns = Pick<PaymentRow, "method" | "permitted" | "sender" | "token_permit">;

export function transferColumns(transfer: Transfer): TransferColumns {
  const { method } = transfer;
  const permit = method === "eip3009" ? undefined : transfer.permit;
  return {
    method,
    permitted: method === "upto" ? transfer.max.toString() : null,
    sender: method === "upto" ? transfer.sender : null,
    token_permit: permit
      ? JSON.stringify({ value: `${permit.value}`, deadline: `${permit.deadline}`, signature: permit.signature })
      : null,
  };
}

export function transferOfRow({ method, permitted, sender, token_permit }: TransferColumns): Transfer {
  if (method === "eip3009") return { method };
  const stored = token_permit === null ? undefined : JSON.parse(token_permit);
  const permit = stored && {
    permit: { value: BigInt(stored.value), deadline: BigInt(stored.deadline), signature: stored.signature },
  };
  if (method === "permit2") return { method, ...permit };
  return { method, max: BigInt(permitted ?? 0), sender: sender as Address, ...permit };
}
