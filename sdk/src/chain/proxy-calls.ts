/**
 * Decodes calls of x402's Permit2 proxies, and finds the payment that one of them moved: their logs name no payment.
 * Without a chain library: agents in browsers judge so too.
 */
import { type Address, checksum, EXACT_PERMIT2_PROXY, keccakText, sameAddress, UPTO_PERMIT2_PROXY } from "../protocol";
import { fieldsOf } from "../protocol/arguments";
import { type CalledContract, calledIn, movedBy, type ProxyCall } from "./evidence";

import { requireRpc } from "./require-rpc";
import type { Rpc } from "./rpc";
import { depthOf, type ExpectedSettlement, type Receipt } from "./settlement";

/** Where a proxy's call has its terms, in words after the selector. */
type Places = Readonly<Record<"token" | "nonce" | "amount" | "owner" | "payTo", number>>;

const selectorOf = (signature: string): string => keccakText(signature).slice(0, 10);

const proxyAt = (address: Address, terms: string, places: Places) => ({
  address,
  places,
  /** by selector, how many words precede the terms: a permit that approves Permit2 has five */
  starts: new Map([
    [selectorOf(`settle(${terms})`), 0],
    [selectorOf(`settleWithPermit((uint256,uint256,bytes32,bytes32,uint8),${terms})`), 5],
  ]),
});

const PERMITTED = "((address,uint256),uint256,uint256)";

const PROXIES = [
  proxyAt(EXACT_PERMIT2_PROXY, `${PERMITTED},address,(address,uint256),bytes`, {
    token: 0,
    amount: 1,
    nonce: 2,
    owner: 4,
    payTo: 5,
  }),
  proxyAt(UPTO_PERMIT2_PROXY, `${PERMITTED},uint256,address,(address,address,uint256),bytes`, {
    token: 0,
    nonce: 2,
    amount: 4,
    owner: 5,
    payTo: 6,
  }),
];

const WORD = /^[0-9a-f]{64}$/;

const ADDRESS = /^0{24}[0-9a-f]{40}$/;

/** @returns undefined when the call is no settlement through a proxy */
export function decodeProxyCall(contract: CalledContract): ProxyCall | undefined {
  const { to, data } = fieldsOf(contract, "contract");
  const proxy = PROXIES.find(({ address }) => sameAddress(to, address));
  const start = proxy?.starts.get(data.slice(0, 10).toLowerCase());
  if (!proxy || start === undefined) return undefined;
  const word = (place: number): string =>
    data
      .slice(10 + 64 * (start + place))
      .slice(0, 64)
      .toLowerCase();
  const { token, nonce, amount, owner, payTo } = proxy.places;
  const isForm =
    [token, owner, payTo].every((at) => ADDRESS.test(word(at))) && [nonce, amount].every((at) => WORD.test(word(at)));
  if (!isForm) return undefined;
  const addressAt = (place: number): Address => checksum(`0x${word(place).slice(24)}`);
  return {
    token: addressAt(token),
    payer: addressAt(owner),
    payTo: addressAt(payTo),
    amount: BigInt(`0x${word(amount)}`),
    nonce: `0x${word(nonce)}`,
  };
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
    rpc.send<unknown>("eth_getTransactionByHash", [expected.transaction]),
  ]);
  const contract = calledIn(called);
  if (movedBy(contract && decodeProxyCall(contract), receipt, expected) !== expected.amount) return "absent";
  return depthOf(rpc, receipt, expected.confirmations);
}
