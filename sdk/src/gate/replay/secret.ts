/**
 * What a client must know to read its answer again. Calldata shows every authorization, so a payment alone proves
 * nothing: the secret is a part of the first request that no chain shows.
 */
import { HEADER } from "../../protocol";
import { isUsableKey } from "../core/quote";
import type { GateRequest } from "../core/request";

export type ReplaySecret = readonly [kind: "proof" | "identifier" | "key", value: string];

/**
 * Names a native proof by its memo: 32 bytes of it come from the gate alone. A proof that its Facilitator signs again
 * has the same memo, and the gate has checked the whole signed object before.
 */
export const secretOfProof = (memo: string): ReplaySecret => ["proof", memo];

/** @returns undefined for a bare payload: it has no replay */
export function secretOfPayload(identifier: string | undefined, request: GateRequest): ReplaySecret | undefined {
  if (identifier !== undefined) return ["identifier", identifier];
  const key = request.header(HEADER.idempotencyKey.toLowerCase());
  return key !== undefined && isUsableKey(key) ? ["key", key] : undefined;
}
