/** Signs and stores: reserving a nonce and writing the bytes that use it happen in one transaction. */
import { sql } from "kysely";
import type { Address, Hex } from "turnpike/protocol";
import type { Db, Store, Tx } from "../db/open";
import { databaseNowMs } from "../db/sql";
import type { OpenTransaction, SignedForm, TransactionRow } from "../db/tables/relayer";
import type { Failpoint } from "../telemetry/failpoints";
import { affordable, type Fees } from "./fees";
import { type LeaseKey, reserveNonces, returnNonces } from "./lease";
import { signRaw } from "./raw-transaction";
import { type DigestSigner, SignerUnavailable } from "./signer";
import { type QueuedTransaction, storeTransactions } from "./transactions";

interface Turn {
  readonly of: LeaseKey;
  readonly epoch: number;
  readonly fees: Fees;
}

export interface SignedQueue {
  readonly forms: SignedForm[];
  readonly wei: bigint;
  /** maximum cost of the next one, when that is more than what is left */
  readonly unaffordableWei?: bigint;
}

export interface Signing {
  /**
   * Signs queued transactions as far as `leftWei` allows: renewals first, because their grace ends, then the oldest.
   * Nothing may be sent before this returns.
   */
  signQueued(turn: Turn & { readonly limit: number; readonly leftWei: bigint }): Promise<SignedQueue | "lease lost">;
  /** Signs transactions that were never queued, within the caller's transaction. They may be sent after its commit. */
  signNew(tx: Tx, entries: readonly QueuedTransaction[], turn: Turn): Promise<SignedForm[] | "lease lost">;
  /** Signs another form of the same nonce and calldata. */
  signAgain(row: OpenTransaction, fees: Fees): Promise<SignedForm>;
}

export interface SigningOptions {
  readonly store: Store;
  readonly signer: DigestSigner;
  readonly chainId: number;
  readonly onStep: Failpoint;
}

type UnstoredForm = Omit<SignedForm, "signed_at_ms">;

export function createSigning({ store, signer, chainId, onStep }: SigningOptions): Signing {
  const signRow = (row: TransactionRow, nonce: number, fees: Fees): Promise<UnstoredForm> =>
    signForm(
      { id: row.id, to: row.to_address as Address, data: row.data as Hex, gasLimit: BigInt(row.gas_limit) },
      nonce,
      fees,
    );

  async function signForm(
    { id, to, data, gasLimit }: Pick<QueuedTransaction, "id" | "to" | "data" | "gasLimit">,
    nonce: number,
    fees: Fees,
  ): Promise<UnstoredForm> {
    const signed = await signRaw({ chainId, nonce, to, data, gasLimit, ...fees }, (digest) =>
      signer.signDigest(digest),
    );
    return {
      hash: signed.hash,
      chain_id: chainId,
      transaction_id: id,
      raw: signed.raw,
      max_fee_wei: fees.maxFeeWei.toString(),
      priority_fee_wei: fees.priorityFeeWei.toString(),
    };
  }

  /** Signs as many as the key's service signs, from the first. @throws SignerUnavailable when it signs none */
  async function signPrefix(rows: readonly TransactionRow[], first: number, fees: Fees): Promise<UnstoredForm[]> {
    const signed = await Promise.allSettled(rows.map((row, index) => signRow(row, first + index, fees)));
    const forms: UnstoredForm[] = [];
    for (const one of signed) {
      if (one.status === "fulfilled") forms.push(one.value);
      else if (forms.length > 0 && one.reason instanceof SignerUnavailable) break;
      else throw one.reason;
    }
    return forms;
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
    signQueued: ({ of, epoch, limit, fees, leftWei }) =>
      store.transaction(async (tx) => {
        const rows = await tx
          .selectFrom("transactions")
          .selectAll()
          .where("chain_id", "=", chainId)
          .where("status", "=", "queued")
          .where((eb) => eb.or([eb("sender", "is", null), eb("sender", "=", of.key)]))
          .orderBy(sql`purpose = 'renew'`, "desc")
          .orderBy("seq")
          .limit(limit)
          .forUpdate()
          .skipLocked()
          .execute();
        const { items, ...afforded } = affordable(
          rows.map((row) => ({ row, gasLimit: BigInt(row.gas_limit) })),
          fees,
          leftWei,
        );
        const queued = items.map(({ row }) => row);
        if (queued.length === 0) return { forms: [], ...afforded };
        const first = await reserveNonces(tx, of, epoch, queued.length);
        if (first === undefined) return "lease lost";
        const forms = await signPrefix(queued, first, fees);
        const rest = queued.length - forms.length;
        if (rest > 0) await returnNonces(tx, of, rest);
        const { wei } = affordable(items.slice(0, forms.length), fees, leftWei);
        const signed = await storeForms(tx, forms);
        const places = forms.map(({ transaction_id: id, hash }, index) => ({ id, hash, nonce: first + index }));
        await sql`
          update transactions t set key = ${of.key}, nonce = x.nonce, epoch = ${epoch}::bigint, status = 'stored',
            hash = x.hash, stored_at_ms = ${databaseNowMs}
          from json_to_recordset(${JSON.stringify(places)}::json) as x(id text, hash text, nonce bigint)
          where t.id = x.id`.execute(tx);
        onStep("signed");
        return { forms: signed, ...(rest > 0 ? { wei } : afforded) };
      }),
    async signNew(tx, entries, { of, epoch, fees }) {
      const first = await reserveNonces(tx, of, epoch, entries.length);
      if (first === undefined) return "lease lost";
      const signed = await Promise.all(
        entries.map(async (entry, index) => {
          const nonce = first + index;
          return { ...entry, key: of.key, nonce, epoch, form: await signForm(entry, nonce, fees) };
        }),
      );
      const forms = await storeTransactions(tx, signed);
      onStep("signed");
      return forms;
    },
    async signAgain({ id, nonce }, fees) {
      const row = await store.db.selectFrom("transactions").selectAll().where("id", "=", id).executeTakeFirstOrThrow();
      const [stored] = await storeForms(store.db, [await signRow(row, nonce ?? 0, fees)]);
      return stored as SignedForm;
    },
  };
}
