/** Implements the one-time flow without the agent, one function per step: what a client in any language has to do. */
import type { Wallet } from "ethers";
import { createFacilitatorClient } from "turnpike/facilitator";
import {
  type AcceptEntryWire,
  type Address,
  encodePaymentProof,
  HEADER,
  type Hex,
  isPlanEntry,
  mutableTypes,
  type PaymentProof,
  type PaymentRequiredWire,
  parseMemo,
  paymentNonce,
  type SignedPaymentWire,
  transferTypedData,
} from "turnpike/protocol";

/** Sends the request without payment. @returns the body of the 402 */
export async function quoteOf(url: string, init: RequestInit = {}): Promise<PaymentRequiredWire> {
  const response = await fetch(url, init);
  if (response.status !== 402) throw new Error(`${url} answered ${response.status}, not 402`);
  return (await response.json()) as PaymentRequiredWire;
}

/** Returns the first one-time option of a 402. */
export function oneTimeOption({ accepts }: PaymentRequiredWire): AcceptEntryWire {
  const entry = accepts.find((entry) => !isPlanEntry(entry));
  if (!entry) throw new Error("The 402 offers no one-time payment.");
  return entry;
}

/** Signs a token transfer whose nonce names the purchase. */
export async function signPayment(wallet: Wallet, chainId: number, entry: AcceptEntryWire): Promise<SignedPaymentWire> {
  const { network, memo = "", resource = "", payTo, extra } = entry;
  const token = entry.token as Address;
  const amount = entry.amount as string;
  const parsed = parseMemo(memo);
  if (!parsed) throw new Error("The 402 bears no memo.");
  const nonce = paymentNonce(parsed.ref, resource);
  const validBefore = parsed.expiresAtSec;
  const authorization = {
    from: wallet.address,
    to: payTo,
    value: amount,
    validAfter: "0",
    validBefore: `${validBefore}`,
    nonce,
  };
  const { domain, types, message } = transferTypedData(
    { chainId, token, name: extra?.name ?? "", version: extra?.version ?? "" },
    {
      from: wallet.address as Address,
      to: payTo as Address,
      value: BigInt(amount),
      validAfter: 0n,
      validBefore: BigInt(validBefore),
      nonce,
    },
  );
  const signature = (await wallet.signTypedData(domain, mutableTypes(types), message)) as Hex;
  return { scheme: "exact", network, token, authorization, signature, memo, resource };
}

/** Posts it to the Facilitator until the payment settles or fails. */
export async function authorize(facilitator: string, payment: SignedPaymentWire): Promise<PaymentProof> {
  const client = createFacilitatorClient({ url: facilitator });
  for (let attempt = 0; attempt < 5; attempt += 1) {
    const outcome = await client.authorize(payment);
    if (outcome.kind === "settled") return outcome.proof;
    if (outcome.kind === "refused") throw outcome.error;
  }
  throw new Error("The Facilitator has not reported the outcome of the payment.");
}

/** Runs all three steps. @returns a proof that was not presented yet */
export async function buyProof(
  { wallet, chainId, facilitator }: { wallet: Wallet; chainId: number; facilitator: string },
  url: string,
): Promise<PaymentProof> {
  return authorize(facilitator, await signPayment(wallet, chainId, oneTimeOption(await quoteOf(url))));
}

/** Repeats the request with the proof. */
export function present(url: string, proof: PaymentProof): Promise<Response> {
  return fetch(url, { headers: { [HEADER.payment]: encodePaymentProof(proof) } });
}
