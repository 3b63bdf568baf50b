/** Indexes refunds by nonce: the nonce of an accepted refund buys nothing, from any account. About 60 bytes a refund. */
import type { Migration } from "./migration";

export const refundNonces: Migration = {
  id: "600-refund-nonces",
  statements: [`create index payments_refund_nonce on payments (chain_id, nonce) where door = 'refund'`],
};
