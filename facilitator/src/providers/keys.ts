/**
 * Manages API keys: created for the owner of a wallet, shown once, stored as a hash. A key identifies the provider and
 * its scopes; nothing else identifies a request.
 */
import { createHash, randomBytes, timingSafeEqual } from "node:crypto";
import { type Selectable, sql } from "kysely";
import {
  type ApiKey,
  type ApiScope,
  apiKeyDigests,
  apiKeyMessage,
  type ChallengeRequest,
  type CreateKeyRequest,
  type KeyChallenge,
  type NewApiKey,
  type SignInSite,
} from "turnpike/facilitator";
import { type Address, InvalidRequest, type Network, TurnpikeError } from "turnpike/protocol";
import type { ChainReader } from "../chain/chain-reader";
import { signerByWallet } from "../chain/wallet-signature";
import { recordAct } from "../db/audit";
import type { Store, Tx } from "../db/open";
import { type Owner, onChains } from "../db/owner";
import type { ApiKeysTable } from "../db/tables/providers";
import { checkChallenge, issueChallenge, requireLife, spendChallenge } from "./challenges";

/** The origin of a request, as this service sees it. */
export interface Origin {
  readonly address: string;
  readonly requestId: string;
}

export interface Caller extends Origin, Owner {
  readonly provider: Address;
  readonly isEveryChain: boolean;
  readonly keyId: string;
  readonly scopes: readonly ApiScope[];
  /** whether it may read data about the service as a whole */
  readonly isOperator: boolean;
}

/** What a request needs of its API key. */
export interface KeyNeed {
  readonly scope: ApiScope | "any";
  /** whether the request concerns no single chain: then a key of any chain of the deployment serves */
  readonly isShared?: boolean;
}

export interface KeysDeps {
  readonly store: Store;
  readonly network: Network;
  /** all chains of this deployment; default: that of `network` */
  readonly chainIds?: readonly number[];
  /** the signer of this service's proofs; wallets name it in what they sign */
  readonly facilitator: Address;
  /** the previous and next signers: another process with another key may have issued the challenge */
  readonly otherFacilitators?: readonly Address[];
  readonly chain: Pick<ChainReader, "code" | "call">;
  readonly operators: readonly Address[];
  /** unix milliseconds */
  readonly nowMs: () => number;
}

type Row = Selectable<ApiKeysTable>;

const YEAR_SEC = 366 * 86_400;

const MAX_KEYS = 50;

const MINUTE_MS = 60_000;

const FORM = /^bearer +tpk_([0-9a-f]{16})_([A-Za-z0-9_-]{43})$/i;

export function createKeys(deps: KeysDeps): Keys {
  return new Keys(deps);
}

export class Keys {
  readonly #deps: KeysDeps;

  constructor(deps: KeysDeps) {
    this.#deps = deps;
  }

  /**
   * @param ownOrigin this service's origin as the browser sees it; undefined: only typed data can be signed
   * @throws InvalidRequest for a time at which no key may end
   */
  async challenge(request: ChallengeRequest, ownOrigin: string | undefined): Promise<KeyChallenge> {
    const { store, facilitator } = this.#deps;
    const chainId = this.#chainId;
    const expiresAt = request.expiresAt ?? this.#nowSec() + YEAR_SEC;
    requireLife(expiresAt, this.#nowSec());
    const { text: challenge, issuedAt, validUntil } = await issueChallenge(store.db, request.provider, this.#nowSec());
    const terms = { ...request, expiresAt, challenge, facilitator, chainId };
    const site = ownOrigin === undefined ? undefined : { origin: ownOrigin, issuedAt, validUntil };
    return {
      challenge,
      validUntil,
      expiresAt,
      facilitator,
      chainId,
      ...(site && { message: apiKeyMessage(terms, site) }),
    };
  }

  /**
   * Verifies the signature without parsing the signed text. The service rebuilds the only text that it would have
   * requested, so another domain, chain, statement or time does not match.
   * @throws InvalidSignature when the wallet did not sign, or the challenge is invalid; Unavailable
   */
  async create(request: CreateKeyRequest, origin: Origin, ownOrigin: string | undefined): Promise<NewApiKey> {
    const { store, facilitator, otherFacilitators = [], chain } = this.#deps;
    const chainId = this.#chainId;
    const { provider, name, scopes, expiresAt, challenge, signature } = request;
    requireLife(expiresAt, this.#nowSec());
    const issued = await checkChallenge(store.db, provider, challenge, this.#nowSec());
    const site: SignInSite | undefined = ownOrigin === undefined ? undefined : { origin: ownOrigin, ...issued };
    const digests = [facilitator, ...otherFacilitators].flatMap((named) =>
      apiKeyDigests({ provider, name, scopes, expiresAt, challenge, facilitator: named, chainId }, site),
    );
    const signer = await signerByWallet(chain, { wallet: provider, digests, signature });
    if (!signer) {
      throw new TurnpikeError("InvalidSignature", `the challenge is not signed by ${provider}`, {
        reason: "signature",
      });
    }
    return store.transaction(async (tx) => {
      await spendChallenge(tx, issued, this.#nowSec());
      const { row, key } = await this.#insert(tx, {
        provider,
        name,
        scopes: scopes.join(","),
        expires_at_ms: expiresAt * 1_000,
        rotated_from: null,
        chain_id: chainId,
        every_chain: signer === "key",
      });
      await recordAct(tx, {
        chainId,
        provider,
        actor: "wallet",
        act: "key.created",
        objectId: row.id,
        ...origin,
        details: { name, scopes },
      });
      return { ...keyToWire(row), key };
    });
  }

  /**
   * Identifies the caller of a request.
   * @param authorization the header as received
   * @throws InvalidApiKey, ScopeMissing
   */
  async authenticate(
    authorization: string | null,
    { scope, isShared = false }: KeyNeed,
    origin: Origin,
  ): Promise<Caller> {
    const { store, operators } = this.#deps;
    const [, id, secret] = FORM.exec(authorization ?? "") ?? [];
    const chainIds = isShared ? this.#chainIds : [this.#chainId];
    const row =
      id && secret
        ? await this.#live(store.db, chainIds).selectAll().where("id", "=", id).executeTakeFirst()
        : undefined;
    if (!row || !secret || !timingSafeEqual(Buffer.from(hashOf(secret), "hex"), Buffer.from(row.hash, "hex"))) {
      throw new TurnpikeError("InvalidApiKey");
    }
    const scopes = row.scopes.split(",") as ApiScope[];
    if (scope !== "any" && !scopes.includes(scope)) {
      throw new TurnpikeError("ScopeMissing", `the API key lacks the scope ${scope}`, { details: { scope } });
    }
    if ((row.last_used_at_ms ?? 0) < this.#deps.nowMs() - MINUTE_MS) {
      await store.db
        .updateTable("api_keys")
        .set({ last_used_at_ms: this.#deps.nowMs() })
        .where("id", "=", row.id)
        .execute();
    }
    const provider = row.provider as Address;
    const isEveryChain = row.every_chain;
    const identified = { provider, isEveryChain, chainIds: isEveryChain ? this.#chainIds : [row.chain_id] };
    return { ...origin, ...identified, keyId: row.id, scopes, isOperator: operators.includes(provider) };
  }

  async list({ provider, chainIds }: Owner): Promise<ApiKey[]> {
    const rows = await this.#deps.store.db
      .selectFrom("api_keys")
      .selectAll()
      .where(onChains("api_keys", chainIds))
      .where("provider", "=", provider)
      .orderBy("created_at_ms", "desc")
      .orderBy("id")
      .limit(200)
      .execute();
    return rows.map(keyToWire);
  }

  /**
   * Creates a key with the same name, scopes and expiry. The calling key stays valid for `overlapSec`. It has one
   * successor: another rotation, such as a retry, revokes the former one and those that followed it. Links that sign in once
   * depend on it.
   * @throws InvalidApiKey when it has ended since the request was admitted
   */
  async rotate(caller: Caller, overlapSec: number): Promise<NewApiKey> {
    return this.#deps.store.transaction(async (tx) => {
      const old = await this.#requireOwn(tx, caller, caller.keyId);
      const { expires_at_ms: endsMs } = old;
      if (old.revoked_at_ms !== null || endsMs <= this.#deps.nowMs()) throw new TurnpikeError("InvalidApiKey");
      // The first rotation has left the old key its overlap alone: the newest successor has the key's own end.
      const expires_at_ms = Math.max(endsMs, ...(await this.#revokeSuccessors(tx, old)));
      const { row, key } = await this.#insert(tx, { ...old, expires_at_ms, rotated_from: old.id });
      const endMs = Math.min(endsMs, this.#deps.nowMs() + overlapSec * 1_000);
      await tx.updateTable("api_keys").set({ expires_at_ms: endMs }).where("id", "=", old.id).execute();
      await this.#record(tx, caller, "key.rotated", old.id, { successor: row.id, overlapSec });
      return { ...keyToWire(row), key };
    });
  }

  /** @returns when each of them would have ended, milliseconds */
  async #revokeSuccessors(tx: Tx, { id, provider }: Row): Promise<number[]> {
    let ends: number[] = [];
    // Until none comes to them: the last one may have been rotated at the same time.
    for (let known = -1; known !== ends.length; ) {
      known = ends.length;
      const { rows } = await sql<{ expires_at_ms: number }>`with recursive s as (
          select id from api_keys where provider = ${provider} and rotated_from = ${id}
          union all select k.id from api_keys k join s on k.rotated_from = s.id)
        update api_keys k set revoked_at_ms = coalesce(k.revoked_at_ms, ${this.#deps.nowMs()}::bigint) from s
        where k.id = s.id returning k.expires_at_ms`.execute(tx);
      ends = rows.map((row) => row.expires_at_ms);
    }
    return ends;
  }

  /**
   * Revokes a key permanently. Any key may revoke itself; the scope `keys` allows revoking every key of the provider.
   */
  async revoke(caller: Caller, id: string): Promise<ApiKey> {
    if (id !== caller.keyId && !caller.scopes.includes("keys")) {
      throw new TurnpikeError("ScopeMissing", "another key is revoked with the scope keys", {
        details: { scope: "keys" },
      });
    }
    return this.#deps.store.transaction(async (tx) => {
      const row = await this.#requireOwn(tx, caller, id);
      if (row.revoked_at_ms !== null) return keyToWire(row);
      const revoked = { ...row, revoked_at_ms: this.#deps.nowMs() };
      await tx.updateTable("api_keys").set({ revoked_at_ms: revoked.revoked_at_ms }).where("id", "=", id).execute();
      await this.#record(tx, caller, "key.revoked", id);
      return keyToWire(revoked);
    });
  }

  get #chainId(): number {
    return this.#deps.network.chainId;
  }

  get #chainIds(): readonly number[] {
    return this.#deps.chainIds ?? [this.#chainId];
  }

  #nowSec(): number {
    return Math.floor(this.#deps.nowMs() / 1_000);
  }

  #live(db: Store["db"], chainIds: readonly number[]) {
    return db
      .selectFrom("api_keys")
      .where(onChains("api_keys", chainIds))
      .where("revoked_at_ms", "is", null)
      .where("expires_at_ms", ">", this.#deps.nowMs());
  }

  async #insert(
    tx: Tx,
    fields: Pick<Row, "provider" | "name" | "scopes" | "expires_at_ms" | "rotated_from" | "chain_id" | "every_chain">,
  ) {
    const { count } = await this.#live(tx, this.#chainIds)
      .select(({ fn }) => fn.countAll().as("count"))
      .where("provider", "=", fields.provider)
      .executeTakeFirstOrThrow();
    if (Number(count) >= MAX_KEYS) throw new InvalidRequest(`a provider may have ${MAX_KEYS} live keys: revoke one`);
    const secret = randomBytes(32).toString("base64url");
    const row = await tx
      .insertInto("api_keys")
      .values({
        ...fields,
        id: randomBytes(8).toString("hex"),
        hash: hashOf(secret),
        created_at_ms: this.#deps.nowMs(),
        revoked_at_ms: null,
        last_used_at_ms: null,
      })
      .returningAll()
      .executeTakeFirstOrThrow();
    return { row, key: `tpk_${row.id}_${secret}` };
  }

  /** @throws UnknownObject, also for a key of another provider */
  async #requireOwn(tx: Tx, { provider, chainIds }: Owner, id: string): Promise<Row> {
    const row = await tx
      .selectFrom("api_keys")
      .selectAll()
      .where(onChains("api_keys", chainIds))
      .where("provider", "=", provider)
      .where("id", "=", id)
      .forUpdate()
      .executeTakeFirst();
    if (!row) throw new TurnpikeError("UnknownObject", `no API key ${id}`);
    return row;
  }

  #record(tx: Tx, caller: Caller, act: string, objectId: string, details: Record<string, unknown> = {}) {
    const { provider, keyId: actor, address, requestId } = caller;
    return recordAct(tx, { chainId: this.#chainId, provider, actor, act, objectId, address, requestId, details });
  }
}

const hashOf = (secret: string): string => createHash("sha256").update(secret).digest("hex");

function keyToWire(row: Row): ApiKey {
  const sec = (ms: number) => Math.floor(ms / 1_000);
  return {
    id: row.id,
    name: row.name,
    scopes: row.scopes.split(",") as ApiScope[],
    createdAt: sec(row.created_at_ms),
    expiresAt: sec(row.expires_at_ms),
    ...(row.revoked_at_ms !== null && { revokedAt: sec(row.revoked_at_ms) }),
    ...(row.last_used_at_ms !== null && { lastUsedAt: sec(row.last_used_at_ms) }),
  };
}
