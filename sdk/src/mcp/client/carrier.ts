/** Writes the `_meta` that pays for a tool call, in the form that its server has asked for. */
import type { PaymentEntry } from "../../agent/ledger/ledger-store";
import { decodeJsonHeader, type JsonObject } from "../../protocol";
import { MCP_META, type Meta, paymentMeta } from "../wire";

/** The key of `_meta` that bears a payload, and for servers that take no object the encoding of its value. */
export const CARRIER = {
  object: MCP_META.payment,
  base64: `${MCP_META.payment};base64`,
  v1: MCP_META.paymentV1,
  mpp: MCP_META.credential,
} as const;

/** Returns `_meta` that pays; the same every time. */
export function paymentMetaOf({ header, proof }: PaymentEntry): Meta {
  if (!header) return paymentMeta(proof as unknown as JsonObject);
  const { name, value } = header;
  if (name === CARRIER.base64) return { [MCP_META.payment]: value };
  const payload = decodeJsonHeader(value, value.length) ?? {};
  if (name === CARRIER.mpp) {
    const challenge = payload.challenge as JsonObject;
    const request = decodeJsonHeader(String(challenge.request), value.length);
    return { [MCP_META.credential]: { ...payload, challenge: { ...challenge, request } } };
  }
  // Stock servers of version 1 read base64 under a key of their own.
  return name === CARRIER.v1 ? { ...paymentMeta(payload), [MCP_META.paymentV1]: value } : paymentMeta(payload);
}
