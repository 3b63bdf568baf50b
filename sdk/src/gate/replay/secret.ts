/**
 * Names the secret that a client must repeat to read its answer again. A payment alone proves nothing, since calldata
 * shows every authorization; the secret is a part of the first request that no chain shows.
 */
export type ReplaySecret = readonly [kind: "proof" | "identifier" | "key", value: string];

/**
 * Names a native proof by its memo's reference, 16 bytes that are random or the gate's HMAC of the Idempotency-Key; the
 * chain shows only a hash. Every proof of the payment has it, also one for a later quote with the same key. The gate
 * has checked the signed proof before.
 */
export const secretOfProof = (ref: string): ReplaySecret => ["proof", ref];

/**
 * Returns the secret of a standard payload: its payment-identifier, else the request's usable Idempotency-Key.
 * @returns undefined when the request has neither: its answer is not replayed
 */
export function secretOfPayload(
  identifier: string | undefined,
  idempotencyKey: string | undefined,
): ReplaySecret | undefined {
  if (identifier !== undefined) return ["identifier", identifier];
  return idempotencyKey === undefined ? undefined : ["key", idempotencyKey];
}
