/**
 * Manages a provider's webhook endpoints: URL, event types, secrets and deliveries. The caller names a provider and has
 * no access to another provider's endpoints.
 */
import { randomBytes } from "node:crypto";
import { type Selectable, sql } from "kysely";
import {
  type CreateEndpointRequest,
  TEST_EVENT_TYPE,
  type UpdateEndpointRequest,
  type WebhookEndpoint,
} from "turnpike/facilitator";
import { InvalidRequest, type Network, networkOfChain, TurnpikeError, toHex } from "turnpike/protocol";
import { recordAct } from "../db/audit";
import type { Store, Tx } from "../db/open";
import { type Owner, onChains } from "../db/owner";
import type { WebhookEndpointsTable } from "../db/tables/webhooks";
import { checkPublicUrl } from "../lib/public-addresses";
import { testBody } from "./message";
import { dropPending, lockNewestEvent } from "./outbox";

/** The caller, as recorded in the audit log. */
export interface Actor extends Owner {
  /** whether it is the same owner on every chain: its endpoints get the events of all */
  readonly isEveryChain: boolean;
  readonly keyId: string;
  readonly address: string;
  readonly requestId: string;
}

export interface WebhookEndpointsDeps {
  readonly store: Store;
  readonly network: Network;
  readonly allowPrivate: boolean;
  /** unix milliseconds */
  readonly nowMs: () => number;
}

type Row = Selectable<WebhookEndpointsTable>;

const MAX_ENDPOINTS = 20;

/** Secrets that sign beside the newest. */
const MAX_FORMER_SECRETS = 3;

export function createWebhookEndpoints(deps: WebhookEndpointsDeps): WebhookEndpoints {
  return new WebhookEndpoints(deps);
}

export class WebhookEndpoints {
  readonly #store: Store;
  readonly #network: Network;
  readonly #policy: { readonly allowPrivate: boolean };
  readonly #nowMs: () => number;

  constructor({ store, network, allowPrivate, nowMs }: WebhookEndpointsDeps) {
    this.#store = store;
    this.#network = network;
    this.#policy = { allowPrivate };
    this.#nowMs = nowMs;
  }

  /** @throws UnknownObject, also for an endpoint of another provider */
  async requireOwn(owner: Owner, id: string): Promise<void> {
    await this.#ownRow(this.#store.db, owner, id);
  }

  async create(actor: Actor, request: CreateEndpointRequest): Promise<WebhookEndpoint & { secret: string }> {
    const url = checkPublicUrl(request.url, this.#policy);
    return this.#store.transaction(async (tx) => {
      const newestEvent = await lockNewestEvent(tx, actor.chainIds);
      const { count } = await tx
        .selectFrom("webhook_endpoints")
        .select(({ fn }) => fn.countAll().as("count"))
        .where(onChains("webhook_endpoints", actor.chainIds))
        .where("provider", "=", actor.provider)
        .executeTakeFirstOrThrow();
      if (Number(count) >= MAX_ENDPOINTS) throw new InvalidRequest(`a provider may have ${MAX_ENDPOINTS} endpoints`);
      const row = await tx
        .insertInto("webhook_endpoints")
        .values({
          id: `we_${randomBytes(12).toString("hex")}`,
          chain_id: this.#chainOf(actor),
          every_chain: actor.isEveryChain,
          provider: actor.provider,
          url,
          types: request.types ? JSON.stringify(request.types) : null,
          description: request.description,
          status: "enabled",
          disabled_reason: null,
          created_at_ms: this.#nowMs(),
          queued_after: newestEvent,
        })
        .returningAll()
        .executeTakeFirstOrThrow();
      const secret = await this.#addSecret(tx, row.id);
      await this.#record(tx, actor, "webhook.created", row.id, { origin: new URL(url).origin });
      return { ...endpointToWire(row), secret };
    });
  }

  async list({ provider, chainIds }: Owner): Promise<WebhookEndpoint[]> {
    const rows = await this.#store.db
      .selectFrom("webhook_endpoints")
      .selectAll()
      .where(onChains("webhook_endpoints", chainIds))
      .where("provider", "=", provider)
      .orderBy("created_at_ms")
      .orderBy("id")
      .execute();
    return rows.map(endpointToWire);
  }

  async get(owner: Owner, id: string): Promise<WebhookEndpoint> {
    return endpointToWire(await this.#ownRow(this.#store.db, owner, id));
  }

  async update(actor: Actor, id: string, change: UpdateEndpointRequest): Promise<WebhookEndpoint> {
    const url = change.url === undefined ? undefined : checkPublicUrl(change.url, this.#policy);
    const { enabled, types, description } = change;
    return this.#store.transaction(async (tx) => {
      // Starts with the next event: earlier ones were not queued while it was disabled or had other types.
      const newestEvent = enabled || types !== undefined ? await lockNewestEvent(tx, actor.chainIds) : undefined;
      const before = await this.#ownRow(tx, actor, id);
      const row = await tx
        .updateTable("webhook_endpoints")
        .set({
          ...(url !== undefined && { url, failures: 0 }),
          ...(types !== undefined && { types: types === null ? null : JSON.stringify(types) }),
          ...(description !== undefined && { description }),
          ...(enabled === true && { status: "enabled" as const, disabled_reason: null, failures: 0 }),
          ...(newestEvent !== undefined && { queued_after: newestEvent }),
          ...(enabled === false && { status: "disabled" as const, disabled_reason: "owner" as const }),
        })
        .where("id", "=", id)
        .returningAll()
        .executeTakeFirstOrThrow();
      // Also when it is enabled: a block written at the same time may have queued a delivery for it.
      if (enabled === false || before.status === "disabled") await dropPending(tx, id, this.#nowMs());
      const { url: _url, ...changed } = change;
      await this.#record(tx, actor, "webhook.updated", id, { ...changed, ...(url && { origin: new URL(url).origin }) });
      return endpointToWire(row);
    });
  }

  async remove(actor: Actor, id: string): Promise<void> {
    await this.#store.transaction(async (tx) => {
      await this.#ownRow(tx, actor, id);
      await tx.deleteFrom("webhook_endpoints").where("id", "=", id).execute();
      await this.#record(tx, actor, "webhook.deleted", id);
    });
  }

  /**
   * Rotates the secret. The new one signs from now on. Those before it sign as well until they expire, at the latest then: a
   * rotation that is repeated, such as after a lost answer, does not end the one that a receiver has.
   */
  async rotateSecret(actor: Actor, id: string, overlapSec: number) {
    const previousExpiresAtMs = this.#nowMs() + overlapSec * 1_000;
    return this.#store.transaction(async (tx) => {
      await this.#ownRow(tx, actor, id);
      const newest = tx
        .selectFrom("webhook_secrets")
        .select("secret")
        .where("endpoint_id", "=", id)
        .where((is) => is.or([is("expires_at_ms", "is", null), is("expires_at_ms", ">", this.#nowMs())]))
        .orderBy("created_at_ms", "desc")
        .limit(MAX_FORMER_SECRETS);
      await tx.deleteFrom("webhook_secrets").where("endpoint_id", "=", id).where("secret", "not in", newest).execute();
      await tx
        .updateTable("webhook_secrets")
        .set({ expires_at_ms: sql`least(expires_at_ms, ${previousExpiresAtMs}::bigint)` })
        .where("endpoint_id", "=", id)
        .execute();
      const secret = await this.#addSecret(tx, id);
      await this.#record(tx, actor, "webhook.secret_rotated", id, { overlapSec });
      return { secret, previousExpiresAt: Math.floor(previousExpiresAtMs / 1_000) };
    });
  }

  /** Queues a test event that shows that the endpoint works. @returns its id */
  async sendTest(actor: Actor, id: string): Promise<string> {
    const eventId = toHex(randomBytes(32));
    await this.#store.transaction(async (tx) => {
      await requireEnabled(await this.#ownRow(tx, actor, id));
      const chainId = this.#chainOf(actor);
      const body = testBody(eventId, Math.floor(this.#nowMs() / 1_000), networkOfChain(chainId, [this.#network]));
      await this.#queue(tx, { endpointId: id, eventId, chainId, body });
      await this.#record(tx, actor, "webhook.tested", id, { event: eventId, type: TEST_EVENT_TYPE });
    });
    this.#store.notifier.notify("events");
    return eventId;
  }

  /** Delivers an event of the provider again, also one older than the endpoint. */
  async resend(actor: Actor, id: string, eventId: string): Promise<void> {
    await this.#store.transaction(async (tx) => {
      await requireEnabled(await this.#ownRow(tx, actor, id));
      const known = await tx
        .selectFrom("webhook_deliveries")
        .select(["body", "chain_id"])
        .where("endpoint_id", "=", id)
        .where("event_id", "=", eventId)
        .executeTakeFirst();
      // A test event has its own body.
      const chainId = known?.body ? known.chain_id : await this.#chainOfOwnEvent(tx, actor, eventId);
      await this.#queue(tx, { endpointId: id, eventId, chainId, body: known?.body ?? null });
      await this.#record(tx, actor, "webhook.resent", id, { event: eventId });
    });
    this.#store.notifier.notify("events");
  }

  /** @throws UnknownObject, also for an endpoint of another provider */
  async #ownRow(db: Store["db"], { provider, chainIds }: Owner, id: string): Promise<Row> {
    const row = await db
      .selectFrom("webhook_endpoints")
      .selectAll()
      .where(onChains("webhook_endpoints", chainIds))
      .where("provider", "=", provider)
      .where("id", "=", id)
      .executeTakeFirst();
    if (!row) throw new TurnpikeError("UnknownObject", `no webhook endpoint ${id}`);
    return row;
  }

  /** The chain of rows that concern no chain: the caller's own, where it has one. */
  #chainOf({ isEveryChain, chainIds: [own] }: Actor): number {
    return isEveryChain || own === undefined ? this.#network.chainId : own;
  }

  #record(tx: Tx, actor: Actor, act: string, objectId: string, details: Record<string, unknown> = {}): Promise<void> {
    const { provider, keyId, address, requestId } = actor;
    const chainId = this.#chainOf(actor);
    return recordAct(tx, { chainId, provider, actor: keyId, act, objectId, details, address, requestId });
  }

  async #addSecret(tx: Tx, endpointId: string): Promise<string> {
    const secret = `whsec_${randomBytes(32).toString("base64")}`;
    const row = { endpoint_id: endpointId, secret, created_at_ms: this.#nowMs(), expires_at_ms: null };
    await tx.insertInto("webhook_secrets").values(row).execute();
    return secret;
  }

  /** Makes a delivery due at once. A delivered or failed event restarts its schedule. */
  async #queue(
    tx: Tx,
    {
      endpointId,
      eventId,
      chainId,
      body,
    }: { endpointId: string; eventId: string; chainId: number; body: string | null },
  ): Promise<void> {
    const fresh = {
      state: "pending" as const,
      step: 0,
      due_at_ms: this.#nowMs(),
      created_at_ms: this.#nowMs(),
      lease_until_ms: 0,
      finished_at_ms: null,
    };
    await tx
      .insertInto("webhook_deliveries")
      .values({
        ...fresh,
        endpoint_id: endpointId,
        event_id: eventId,
        chain_id: chainId,
        body,
      })
      .onConflict((conflict) => conflict.columns(["endpoint_id", "event_id"]).doUpdateSet(fresh))
      .execute();
  }

  /**
   * Locks the event, so that retention does not delete it before its delivery is stored.
   * @throws UnknownObject, also for an event of another provider
   */
  async #chainOfOwnEvent(tx: Tx, { provider, chainIds }: Owner, eventId: string): Promise<number> {
    const event = await tx
      .selectFrom("events")
      .select("chain_id")
      .where("chain_id", "in", [...chainIds])
      .where("id", "=", eventId)
      .where("provider", "=", provider)
      .forKeyShare()
      .executeTakeFirst();
    if (!event)
      throw new TurnpikeError(
        "UnknownObject",
        `no event ${eventId}: the provider has none of this id, or it is too old and was deleted`,
      );
    return event.chain_id;
  }
}

/** An owner who disabled one knows it. */
export const needsAttention = ({ status, failures, disabledReason }: WebhookEndpoint): boolean =>
  status === "enabled" ? failures > 0 : disabledReason !== "owner";

function requireEnabled(row: Row): void {
  if (row.status === "disabled") throw new InvalidRequest(`webhook endpoint ${row.id} is disabled: enable it first`);
}

function endpointToWire(row: Row): WebhookEndpoint {
  return {
    id: row.id,
    url: row.url,
    types: row.types,
    description: row.description,
    status: row.status,
    ...(row.disabled_reason && { disabledReason: row.disabled_reason }),
    failures: row.failures,
    createdAt: Math.floor(row.created_at_ms / 1_000),
  };
}
