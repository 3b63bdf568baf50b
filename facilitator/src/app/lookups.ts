import type { FacilitatorConfig } from "../config";
import type { Db } from "../db/open";
import type { Lookups } from "../http/chain-router";

type Serving = Pick<FacilitatorConfig, "chainId" | "tokens">;

export function createLookups(db: Db, chains: readonly Serving[]): Lookups {
  const served = chains.map(({ chainId }) => chainId);
  const idsOf = (rows: readonly { chain_id: number }[]): number[] => rows.map(({ chain_id }) => chain_id);
  return {
    async subscription(idHash) {
      const query = db.selectFrom("subscriptions").select("chain_id").where("chain_id", "in", served);
      return idsOf(await query.where("id_hash", "=", idHash).execute());
    },
    async plan(planId) {
      const query = db.selectFrom("plans").select("chain_id").where("chain_id", "in", served);
      return idsOf(await query.where("plan_id", "=", planId).execute());
    },
    async payment(id) {
      const [payments, reservations, refunded] = await Promise.all([
        db
          .selectFrom("payments")
          .select("chain_id")
          .where("chain_id", "in", served)
          .where("payment_id", "=", id)
          .execute(),
        db
          .selectFrom("payment_reservations")
          .select("chain_id")
          .where("chain_id", "in", served)
          .where("payment_id", "=", id)
          .execute(),
        db
          .selectFrom("refunded")
          .select("chain_id")
          .where("chain_id", "in", served)
          .where("refunded_id", "=", id)
          .execute(),
      ]);
      return [...new Set(idsOf([...payments, ...reservations, ...refunded]))];
    },
    async transaction(hash) {
      const query = db.selectFrom("transaction_hashes").select("chain_id").where("chain_id", "in", served);
      return idsOf(await query.where("hash", "=", hash).execute());
    },
    async listing(id) {
      const query = db.selectFrom("listings").select("chain_id").where("chain_id", "in", served);
      return idsOf(await query.where("id", "=", id).execute());
    },
    async isStored(chainId, paymentId) {
      const query = db.selectFrom("payments").select("chain_id").where("chain_id", "=", chainId);
      return (await query.where("payment_id", "=", paymentId).executeTakeFirst()) !== undefined;
    },
    async keeping({ kind, id }) {
      const others = await db
        .selectFrom("chain_contracts")
        .select("chain_id")
        .where("chain_id", "not in", served)
        .execute();
      const taken = idsOf(others);
      if (taken.length === 0) return [];
      if (kind === "subscription") {
        const acts = db.selectFrom("signed_acts").select("chain_id").where("chain_id", "in", taken);
        const rows = db.selectFrom("subscriptions").select("chain_id").where("chain_id", "in", taken);
        const found = [acts.where("object_id", "=", id).execute(), rows.where("id_hash", "=", id).execute()];
        return idsOf((await Promise.all(found)).flat());
      }
      if (kind !== "payment") return [];
      const payments = db.selectFrom("payments").select("chain_id").where("chain_id", "in", taken);
      return idsOf(await payments.where("payment_id", "=", id).execute());
    },
    token: async (address) =>
      chains.flatMap(({ chainId, tokens }) => (tokens.some((t) => t.address === address) ? [chainId] : [])),
  };
}
