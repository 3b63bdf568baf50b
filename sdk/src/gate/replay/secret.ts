/**
 * Names the secret that a client must repeat to read its answer again. A payment alone proves nothing, since calldata
 * shows every authorization; the secret is a part of the first request that no chain shows.
 */
export type ReplaySecret = readonly [kind: "proof" | "identifier" | "key", value: string];

/**
 * Names a native proof by its memo: 32 bytes of it come from the gate alone. A proof that its Facilitator signs again
 * has the same memo, and the gate has checked the whole signed object before.
 */
export const secretOfProof = (memo: string): ReplaySecret => ["proof", memo];

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
