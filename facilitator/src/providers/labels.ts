/** Stores what a provider calls its payers and plans. Only the provider sees its labels, on the chain that they are of. */
import type { Label, LabelRequest } from "turnpike/facilitator";
import { InvalidRequest, TurnpikeError } from "turnpike/protocol";
import { recordAct } from "../db/audit";
import type { Store } from "../db/open";
import type { Caller } from "./keys";

export interface Labels {
  list(provider: string): Promise<Label[]>;
  /** @throws UnknownObject for a plan of somebody else, InvalidRequest for one label too many */
  set(caller: Caller, label: LabelRequest): Promise<Label>;
}

const MAX_LABELS = 1_000;

const ADDRESS_LENGTH = 42;

export function createLabels(store: Store, chainId: number): Labels {
  const list = (provider: string) =>
    store.db
      .selectFrom("labels")
      .select(["object", "text"])
      .where("chain_id", "=", chainId)
      .where("provider", "=", provider)
      .orderBy("object")
      .execute();

  async function requireOwnPlan(provider: string, planId: string): Promise<void> {
    const plan = await store.db
      .selectFrom("plans")
      .select("plan_id")
      .where("chain_id", "=", chainId)
      .where("plan_id", "=", planId)
      .where("provider", "=", provider)
      .executeTakeFirst();
    if (!plan) throw new TurnpikeError("UnknownObject", `object: ${provider} has no plan ${planId}`);
  }

  return {
    list,
    async set({ provider, keyId: actor, address, requestId }, { object, text }) {
      if (text !== "") {
        if (object.length > ADDRESS_LENGTH) await requireOwnPlan(provider, object);
        const known = await list(provider);
        if (known.length >= MAX_LABELS && !known.some((label) => label.object === object))
          throw new InvalidRequest(`object: there are ${MAX_LABELS} labels, the most: remove one by an empty text`, {
            details: { field: "object", in: "body" },
          });
      }
      await store.transaction(async (tx) => {
        const row = { chain_id: chainId, provider, object, text };
        const changed =
          text === ""
            ? await tx
                .deleteFrom("labels")
                .where("chain_id", "=", chainId)
                .where("provider", "=", provider)
                .where("object", "=", object)
                .returning("object")
                .executeTakeFirst()
            : await tx
                .insertInto("labels")
                .values(row)
                .onConflict((conflict) =>
                  conflict
                    .columns(["chain_id", "provider", "object"])
                    .doUpdateSet({ text })
                    .where("labels.text", "<>", text),
                )
                .returning("object")
                .executeTakeFirst();
        if (!changed) return;
        const act = text === "" ? "label.removed" : "label.set";
        await recordAct(tx, { chainId, provider, actor, act, objectId: object, address, requestId, details: { text } });
      });
      return { object, text };
    },
  };
}
