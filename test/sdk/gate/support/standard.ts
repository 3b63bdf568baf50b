/** Payloads as stock x402 clients sign them, for gates of the small test provider. */
import { Wallet } from "ethers";
import { type AcceptEntryWire, encodeJsonHeader, type Hex, keccakText, transferTypedData } from "turnpike/protocol";
import { type Answer, CHAIN_ID, keyOf, NOW, type Sent, send, TOKEN } from "../../../support/gate";
import type { SubscriptionWorld } from "../../../support/subscriptions";

export interface Accepted {
  readonly scheme: string;
  readonly network: string;
  readonly amount: string;
  readonly asset: string;
  readonly payTo: string;
  readonly extra: Record<string, unknown>;
}

export interface Signed {
  readonly to: string;
  readonly value: bigint;
  readonly nonce?: Hex;
  readonly payer?: string;
}

let nonces = 0;

/** Where a payload is signed for another token than the small test provider's. */
export interface SignedOn {
  readonly world?: Pick<SubscriptionWorld, "chain" | "contracts">;
}

/** Signs a transfer of the small test provider's token as stock clients do. */
export async function exactPayload({ to, value, nonce, payer = "payer" }: Signed, { world }: SignedOn = {}) {
  const nowSec = world ? ((await world.chain.provider.getBlock("latest"))?.timestamp ?? 0) : NOW;
  const wallet = new Wallet(keyOf(payer));
  const authorization = {
    from: wallet.address as Hex,
    to: to as Hex,
    value,
    validAfter: 0n,
    validBefore: BigInt(nowSec + 300),
    nonce: nonce ?? keccakText(`standard nonce ${nonces++}`),
  };
  const domain = world
    ? {
        chainId: world.chain.chainId,
        token: world.contracts.token,
        name: world.contracts.tokenName,
        version: world.contracts.tokenVersion,
      }
    : { chainId: CHAIN_ID, token: TOKEN, name: "Test USD", version: "1" };
  const typed = transferTypedData(domain, authorization);
  const signature = await wallet.signTypedData(typed.domain as never, typed.types as never, typed.message);
  const wire = Object.fromEntries(Object.entries(authorization).map(([name, each]) => [name, String(each)]));
  return { signature, authorization: wire };
}

export async function v1Headers(entry: AcceptEntryWire, signed: Partial<Signed> = {}, on: SignedOn = {}) {
  const payload = await exactPayload({ to: entry.payTo, value: BigInt(entry.amount ?? "0"), ...signed }, on);
  return { "X-PAYMENT": encodeJsonHeader({ x402Version: 1, scheme: "exact", network: entry.network, payload }) };
}

export interface Required {
  readonly accepts: Accepted[];
  readonly extensions: Record<string, object>;
  readonly resource: { readonly url: string };
}

export function requiredIn(answer: Answer): Required {
  return JSON.parse(Buffer.from(String(answer.headers["payment-required"]), "base64").toString("utf8"));
}

/** @param extensions what the client adds to those it echoes */
export async function v2Headers(
  url: string,
  extensions: object = {},
  signed: Partial<Signed> = {},
  { sent = {}, ...on }: SignedOn & { readonly sent?: Sent } = {},
) {
  const required = requiredIn(await send(url, sent));
  const [accepted] = required.accepts;
  if (!accepted) throw new TypeError("the 402 offers nothing to version 2");
  const payload = await exactPayload({ to: accepted.payTo, value: BigInt(accepted.amount), ...signed }, on);
  const body = { x402Version: 2, payload, accepted, extensions: { ...required.extensions, ...extensions } };
  return { "PAYMENT-SIGNATURE": encodeJsonHeader({ ...body, resource: required.resource }) };
}

export const identified = (id: unknown) => ({ "payment-identifier": { info: { required: false, id } } });
