/** Finds a debit or a charge of a subscription by the indexed events, with the accounts that may refund it. */
import { type ExpressionBuilder, sql } from "kysely";
import { type Address, checksum, type Hex, type RefundTarget, refundedIdOf } from "turnpike/protocol";
import type { FacilitatorConfig } from "../config";
import type { Db } from "../db/open";
import type { Tables } from "../db/schema";
import type { EventRow } from "../db/tables/events";
import { findPlan } from "./records";

/** One debit of an allowance, or one charge of a period: `version` and `paidThrough` as they are right after it. */
export type CollectionName = Exclude<RefundTarget, { readonly type: "payment" }>;

export interface Collection {
  readonly id: Hex;
  readonly kind: "debit" | "charge";
  readonly provider: Address;
  readonly payer: Address;
  readonly token: Address;
  readonly amount: bigint;
  readonly planId: Hex;
  readonly idHash: Hex;
  readonly blockNumber: number;
  /** payee and provider, of then and of now */
  readonly accounts: readonly Address[];
}

const CHARGES = [
  "subscription.created",
  "subscription.renewed",
  "subscription.resumed",
  "subscription.plan_changed",
] as const;

export const createCollectionReader = (db: Db, config: Pick<FacilitatorConfig, "chainId" | "turnpike">) => ({
  /** @returns undefined when the indexed chain has no such debit or charge, or it moved nothing */
  async find(name: CollectionName): Promise<Collection | undefined> {
    const event = await eventOf(db, config.chainId, name);
    const planId = event?.payload.planId;
    const plan = typeof planId === "string" ? await findPlan(db, config.chainId, planId as Hex) : undefined;
    const paid = event?.payload[name.type === "debit" ? "amount" : "charged"];
    if (!event || !plan || typeof paid !== "string" || paid === "0" || event.payer === null) return undefined;
    const formerly = await formerParties(db, config.chainId, { planId: plan.plan_id, event });
    const accounts = [plan.pay_to, plan.provider, formerly.payTo, event.provider, formerly.provider];
    return {
      id: refundedIdOf(config, name),
      kind: name.type,
      provider: checksum(plan.provider as Address),
      payer: checksum(event.payer as Address),
      token: plan.token as Address,
      amount: BigInt(paid),
      planId: plan.plan_id as Hex,
      idHash: name.idHash,
      blockNumber: event.block_number ?? 0,
      accounts: [...new Set(accounts.flatMap((account) => (account ? [checksum(account as Address)] : [])))],
    };
  },
});

type Events = ExpressionBuilder<Tables, "events">;

function eventOf(db: Db, chainId: number, name: CollectionName): Promise<EventRow | undefined> {
  const types = name.type === "debit" ? ["allowance.debited"] : [...CHARGES];
  const field = (key: string, value: number) => sql<boolean>`(payload->>${key})::bigint = ${value}::bigint`;
  const isNamed = (eb: Events) =>
    name.type === "debit"
      ? field("index", name.index)
      : eb.and([field("version", name.version), field("paidThrough", name.paidThrough)]);
  return db
    .selectFrom("events")
    .selectAll()
    .where("chain_id", "=", chainId)
    .where("object_id", "=", name.idHash)
    .where("type", "in", types)
    .where("reverted", "=", false)
    .where(isNamed)
    .executeTakeFirst();
}

/** Returns who was payee and provider at the event, where they have changed since: by the first change after it. */
async function formerParties(
  db: Db,
  chainId: number,
  { planId, event }: { readonly planId: string; readonly event: EventRow },
): Promise<{ readonly payTo: string | undefined; readonly provider: string | undefined }> {
  const previous = async (type: string, field: string): Promise<string | undefined> => {
    const changed = await db
      .selectFrom("events")
      .select("payload")
      .where("chain_id", "=", chainId)
      .where("object_id", "=", planId)
      .where("type", "=", type)
      .where("reverted", "=", false)
      .where(sql<boolean>`(block_number, log_index) > (${event.block_number}::bigint, ${event.log_index}::bigint)`)
      .orderBy("sequence")
      .executeTakeFirst();
    const value = changed?.payload[field];
    return typeof value === "string" ? value : undefined;
  };
  return {
    payTo: await previous("plan.payee_changed", "previousPayTo"),
    provider: await previous("plan.transferred", "previousProvider"),
  };
}
