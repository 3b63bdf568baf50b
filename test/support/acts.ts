// What an account calls on Turnpike itself, with its contract as untyped as programs of other languages have it.

import { AbiCoder, type BigNumberish, type BytesLike } from "ethers";

/** For the subscriber's own call of an act that also takes a signature. */
export const NO_AUTH = { version: 0n, deadline: 0n, signature: "0x" };

const VOUCHER = "tuple(address signer, uint96 firstAmount, uint32 firstInterval, uint256 deadline, bytes signature)";
const PERMIT = "tuple(uint256 value, uint256 deadline, bytes signature)";

interface Signup {
  planId: BytesLike;
  secretHash: BytesLike;
  maxOverage?: BigNumberish;
  until?: BigNumberish;
}

export interface Voucher {
  signer: string;
  firstAmount: BigNumberish;
  firstInterval: BigNumberish;
  deadline: BigNumberish;
  signature: string;
}

export interface Permit {
  value: BigNumberish;
  deadline: BigNumberish;
  signature: BytesLike;
}

const encode = (type: string, value?: object) => (value ? AbiCoder.defaultAbiCoder().encode([type], [value]) : "0x");

/** What `subscribe` takes: the subscriber's own call without a deadline and a signature. */
export function signupArgs<A>(
  subscriber: A,
  signup: Signup,
  by: { voucher?: Voucher; permit?: Permit; deadline?: BigNumberish; signature?: BytesLike } = {},
): [A, Required<Signup>, string, string, BigNumberish, BytesLike] {
  const { planId, secretHash, maxOverage = 0n, until = 0n } = signup;
  const said = { planId, secretHash, maxOverage, until };
  const [voucher, permit] = [encode(VOUCHER, by.voucher), encode(PERMIT, by.permit)];
  return [subscriber, said, voucher, permit, by.deadline ?? 0n, by.signature ?? "0x"];
}

/** Acts with their number of arguments before the signature. */
const ACTS: Record<string, number> = { pause: 1, resume: 2, cancel: 2, setMaxOverage: 2, changePlan: 4, rekey: 2 };

/** Completes the arguments of an account's own call by those that only another caller needs. */
export function ownArgs(account: string, method: string, args: readonly unknown[]): unknown[] {
  if (ACTS[method] === args.length) return [...args, NO_AUTH];
  if (method === "void" && args.length === 1) return [account, args[0], 0n, "0x"];
  if (method !== "subscribe" || args.length !== 3) return [...args];
  const [planId, secretHash, maxOverage] = args as [string, string, BigNumberish];
  return [...signupArgs(account, { planId, secretHash, maxOverage })];
}
