/**
 * Stores the accounts that providers name for automatic refunds. Only the provider's signature names one; a later
 * statement needs a higher version, so that a revoked one cannot be presented again.
 */
import type { NameRefundAccount, RefundAccount, RefundAccountList } from "turnpike/facilitator";
import { refundAccountDigest } from "turnpike/facilitator";
import { type Address, TurnpikeError } from "turnpike/protocol";
import type { ChainReader } from "../chain/chain-reader";
import { isSignedByWallet, signatureForChain } from "../chain/wallet-signature";
import { type FacilitatorConfig, findToken } from "../config";
import { recordAct } from "../db/audit";
import type { Store, Tx } from "../db/open";
import { databaseNowMs } from "../db/sql";
import type { RefundAccountsTable } from "../db/tables/payments";
import { usedOfCap } from "../payments/refund-cap";
import type { DigestSigner } from "../relayer";
import { requireLife } from "./challenges";
import type { Caller, Origin } from "./keys";

export interface RefundAccounts {
  /** @throws InvalidSignature, PaymentNotAllowed, PayloadConflict, InvalidRequest, Unavailable */
  name(statement: NameRefundAccount, origin: Origin): Promise<RefundAccount>;
  list(provider: Address): Promise<RefundAccountList>;
  /** Ends automatic refunds of a token; refunds that were accepted are still settled. @throws UnknownObject */
  revoke(caller: Caller, token: Address): Promise<RefundAccount>;
}

export interface RefundAccountsDeps {
  readonly config: FacilitatorConfig;
  readonly store: Store;
  readonly chain: Pick<ChainReader, "code" | "call">;
  /** signers of this service's proofs, the current one first: a statement names one of them */
  readonly facilitators: readonly Address[];
  readonly signerOf: (provider: Address) => Pick<DigestSigner, "address"> | undefined;
  /** unix seconds, by the chain */
  readonly nowSec: () => number;
}

export function createRefundAccounts(deps: RefundAccountsDeps): RefundAccounts {
  const { config, store, signerOf } = deps;
  const { chainId } = config;

  const rowOf = (tx: Tx, provider: Address, token: Address) =>
    tx
      .selectFrom("refund_accounts")
      .selectAll()
      .where("chain_id", "=", chainId)
      .where("provider", "=", provider)
      .where("token", "=", token)
      .forUpdate()
      .executeTakeFirst();

  async function wireOf(row: RefundAccountsTable): Promise<RefundAccount> {
    const [provider, token] = [row.provider as Address, row.token as Address];
    return {
      account: row.account as Address,
      token,
      dailyCap: BigInt(row.daily_cap),
      version: row.version,
      expiresAt: row.expires_at,
      namedAt: Math.floor(row.named_at_ms / 1_000),
      ...(row.revoked_at_ms !== null && { revokedAt: Math.floor(row.revoked_at_ms / 1_000) }),
      used: await usedOfCap(store.db, { chainId, provider, token }),
    };
  }

  return {
    async name(statement, origin) {
      requireUsable(deps, statement);
      const facilitator = await namedFacilitator(deps, statement);
      const { provider, token, account, version, expiresAt: expires_at } = statement;
      const signature = await signatureForChain(deps.chain, { wallet: provider, signature: statement.signature });
      const daily_cap = statement.dailyCap.toString();
      const named = { account, daily_cap, version, expires_at, facilitator, signature };
      const stored = await store.transaction(async (tx) => {
        const before = await rowOf(tx, provider, token);
        if (before && isSame(before, named)) return before;
        const row = await tx
          .insertInto("refund_accounts")
          .values({ chain_id: chainId, provider, token, ...named, named_at_ms: databaseNowMs, revoked_at_ms: null })
          .onConflict((conflict) =>
            conflict
              .columns(["chain_id", "provider", "token"])
              .doUpdateSet({ ...named, named_at_ms: databaseNowMs, revoked_at_ms: null })
              .where("refund_accounts.version", "<", version),
          )
          .returningAll()
          .executeTakeFirst();
        if (!row) {
          throw new TurnpikeError(
            "PayloadConflict",
            `a statement of version ${before?.version ?? version} was accepted: sign one with a higher version`,
            { reason: "version" },
          );
        }
        await recordAct(tx, {
          chainId,
          provider,
          actor: "wallet",
          act: "refund_account.named",
          objectId: account,
          ...origin,
          details: { token, dailyCap: daily_cap, version, expiresAt: expires_at },
        });
        return row;
      });
      return wireOf(stored);
    },
    async list(provider) {
      const rows = await store.db
        .selectFrom("refund_accounts")
        .selectAll()
        .where("chain_id", "=", chainId)
        .where("provider", "=", provider)
        .orderBy("token")
        .execute();
      const held = signerOf(provider);
      return { ...(held && { account: held.address }), accounts: await Promise.all(rows.map(wireOf)) };
    },
    async revoke({ provider, keyId: actor, address, requestId }, token) {
      const revoked = await store.transaction(async (tx) => {
        const row = await rowOf(tx, provider, token);
        if (!row) throw new TurnpikeError("UnknownObject", `${provider} has named no refund account for ${token}`);
        if (row.revoked_at_ms !== null) return row;
        await recordAct(tx, {
          chainId,
          provider,
          actor,
          act: "refund_account.revoked",
          objectId: row.account,
          address,
          requestId,
          details: { token },
        });
        return tx
          .updateTable("refund_accounts")
          .set({ revoked_at_ms: databaseNowMs })
          .where("chain_id", "=", chainId)
          .where("provider", "=", provider)
          .where("token", "=", token)
          .returningAll()
          .executeTakeFirstOrThrow();
      });
      return wireOf(revoked);
    },
  };
}

async function namedFacilitator(
  { config, chain, facilitators }: RefundAccountsDeps,
  { signature, ...terms }: NameRefundAccount,
): Promise<Address> {
  for (const facilitator of facilitators) {
    const digests = [refundAccountDigest({ ...terms, facilitator, chainId: config.chainId })];
    if (await isSignedByWallet(chain, { wallet: terms.provider, digests, signature })) return facilitator;
  }
  throw new TurnpikeError("InvalidSignature", `the statement is not signed by ${terms.provider}`, {
    reason: "signature",
  });
}

/** @throws InvalidRequest, PaymentNotAllowed */
function requireUsable(
  { config, signerOf, nowSec }: RefundAccountsDeps,
  { provider, account, token, expiresAt }: NameRefundAccount,
): void {
  requireLife(expiresAt, nowSec());
  const refused = (message: string) => new TurnpikeError("PaymentNotAllowed", message, { reason: "refund_account" });
  if (!findToken(config, token)) throw refused(`this Facilitator does not settle token ${token}`);
  const held = signerOf(provider)?.address;
  if (held === account) return;
  throw refused(
    held
      ? `this Facilitator has no key of ${account}: for ${provider} it signs for ${held}`
      : `this Facilitator has no refund key for ${provider}: its operator sets REFUND_KEYS`,
  );
}

type Named = Pick<RefundAccountsTable, "account" | "daily_cap" | "version" | "expires_at">;

/** A repetition of the statement that counts; a contract wallet's signature may differ. */
const isSame = (row: RefundAccountsTable, named: Named): boolean =>
  row.revoked_at_ms === null &&
  row.account === named.account &&
  row.daily_cap === named.daily_cap &&
  row.version === named.version &&
  row.expires_at === named.expires_at;
