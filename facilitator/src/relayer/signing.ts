/** Signs and stores: a nonce is reserved, and the bytes that use it are written, in one transaction or not at all. */
import type { Address, Hex } from "turnpike/protocol";
import type { OnStep } from "../steps";
import { databaseNowMs } from "../store/database-clock";
import type { Db, Store } from "../store/open";
import type { OpenTransaction, SignedForm, TransactionRow } from "../store/tables/transactions";
import type { Fees } from "./fees";
import type { DigestSigner } from "./keys";
import { type LeaseKey, reserveNonces } from "./lease";
import { signRaw } from "./raw-transaction";

export interface Signing {
  /** What is queued, oldest first. Nothing may be sent before this has returned. */
  signQueued(request: {
    readonly of: LeaseKey;
    readonly epoch: number;
    readonly limit: number;
    readonly fees: Fees;
  }): Promise<SignedForm[] | "lease lost">;
  /** One more form of the same nonce and calldata. */
  signAgain(row: OpenTransaction, fees: Fees): Promise<SignedForm>;
}

export interface SigningOptions {
  readonly store: Store;
  readonly signer: DigestSigner;
  readonly chainId: number;
  readonly onStep: OnStep;
}

export function createSigning({ store, signer, chainId, onStep }: SigningOptions): Signing {
  async function signForm(db: Db, row: TransactionRow, nonce: number, fees: Fees): Promise<SignedForm> {
    const signed = await signRaw(
      {
        chainId,
        nonce,
        to: row.to_address as Address,
        data: row.data as Hex,
        gasLimit: BigInt(row.gas_limit),
        ...fees,
      },
      (digest) => signer.signDigest(digest),
    );
    const form = {
      hash: signed.hash,
      chain_id: chainId,
      transaction_id: row.id,
      raw: signed.raw,
      max_fee_wei: fees.maxFeeWei.toString(),
      priority_fee_wei: fees.priorityFeeWei.toString(),
    };
    const stored = await db
      .insertInto("transaction_hashes")
      .values({ ...form, signed_at_ms: databaseNowMs })
      .returning("signed_at_ms")
      .executeTakeFirstOrThrow();
    return { ...form, ...stored };
  }

  return {
    signQueued: ({ of, epoch, limit, fees }) =>
      store.transaction(async (tx) => {
        const queued = await tx
          .selectFrom("transactions")
          .selectAll()
          .where("chain_id", "=", chainId)
          .where("status", "=", "queued")
          .orderBy("seq")
          .limit(limit)
          .forUpdate()
          .skipLocked()
          .execute();
        if (queued.length === 0) return [];
        const first = await reserveNonces(tx, of, epoch, queued.length);
        if (first === undefined) return "lease lost";
        const forms: SignedForm[] = [];
        for (const [index, row] of queued.entries()) {
          const nonce = first + index;
          const form = await signForm(tx, row, nonce, fees);
          await tx
            .updateTable("transactions")
            .set({ key: of.key, nonce, epoch, status: "stored", hash: form.hash, stored_at_ms: databaseNowMs })
            .where("id", "=", row.id)
            .execute();
          forms.push(form);
        }
        onStep("signed");
        return forms;
      }),
    async signAgain({ id, nonce }, fees) {
      const row = await store.db.selectFrom("transactions").selectAll().where("id", "=", id).executeTakeFirstOrThrow();
      return signForm(store.db, row, nonce ?? 0, fees);
    },
  };
}
