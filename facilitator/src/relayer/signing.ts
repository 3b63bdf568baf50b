/** Signs and stores: a nonce is reserved, and the bytes that use it are written, in one transaction or not at all. */
import { sql } from "kysely";
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

type UnstoredForm = Omit<SignedForm, "signed_at_ms">;

export function createSigning({ store, signer, chainId, onStep }: SigningOptions): Signing {
  async function signForm(row: TransactionRow, nonce: number, fees: Fees): Promise<UnstoredForm> {
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
    return {
      hash: signed.hash,
      chain_id: chainId,
      transaction_id: row.id,
      raw: signed.raw,
      max_fee_wei: fees.maxFeeWei.toString(),
      priority_fee_wei: fees.priorityFeeWei.toString(),
    };
  }

  async function storeForms(db: Db, forms: readonly UnstoredForm[]): Promise<SignedForm[]> {
    const stored = await db
      .insertInto("transaction_hashes")
      .values(forms.map((form) => ({ ...form, signed_at_ms: databaseNowMs })))
      .returning(["hash", "signed_at_ms"])
      .execute();
    const signedAtMs = new Map(stored.map((row) => [row.hash, row.signed_at_ms]));
    return forms.map((form) => ({ ...form, signed_at_ms: signedAtMs.get(form.hash) ?? 0 }));
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
        const forms = await Promise.all(queued.map((row, index) => signForm(row, first + index, fees)));
        const signed = await storeForms(tx, forms);
        const places = forms.map(({ transaction_id: id, hash }, index) => ({ id, hash, nonce: first + index }));
        await sql`
          update transactions t set key = ${of.key}, nonce = x.nonce, epoch = ${epoch}::bigint, status = 'stored',
            hash = x.hash, stored_at_ms = ${databaseNowMs}
          from json_to_recordset(${JSON.stringify(places)}::json) as x(id text, hash text, nonce bigint)
          where t.id = x.id`.execute(tx);
        onStep("signed");
        return signed;
      }),
    async signAgain({ id, nonce }, fees) {
      const row = await store.db.selectFrom("transactions").selectAll().where("id", "=", id).executeTakeFirstOrThrow();
      const [stored] = await storeForms(store.db, [await signForm(row, nonce ?? 0, fees)]);
      return stored as SignedForm;
    },
  };
}
