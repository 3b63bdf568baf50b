/**
 * Asks the URLs of listings for their 402, and shows, hides or drops each listing by the answer. Nothing that a client
 * sends decides it. One process does it, by lease; a second one would only ask twice.
 */
import { sql } from "kysely";
import type { Logger } from "pino";
import type { Address } from "turnpike/protocol";
import { recordAct } from "../db/audit";
import { createRoleLease } from "../db/leases";
import type { Db, Store } from "../db/open";
import { onChains } from "../db/owner";
import type { ListingTerms } from "../db/tables/discovery";
import { DAY_SEC } from "../lib/durations";
import { repeat } from "../lib/loop";
import { createNotifier } from "../lib/notifier";
import { createFaultLog } from "../telemetry/fault-log";
import type { ListingRow } from "./listings";
import type { ListingProblem, Prober } from "./probe";
import { fill } from "./template";
import { type OwnChain, readTerms } from "./terms";

export interface ListingChecksDeps {
  readonly store: Store;
  readonly own: OwnChain;
  readonly prober: Prober;
  readonly log: Logger;
  /** between two checks of a listing that is shown */
  readonly checkEveryMs: number;
  /** between two looks for what is due */
  readonly pollMs: number;
  /** unix milliseconds */
  readonly nowMs: () => number;
  readonly monotonicMs: () => number;
}

export interface ListingChecks {
  /** Checks what is due, a bounded number at once. @returns how many */
  tick(): Promise<number>;
  stop(): Promise<void>;
}

/** What a check found. */
type Finding =
  | { readonly kind: "sound"; readonly terms: ListingTerms }
  | { readonly kind: "failed"; readonly problem: ListingProblem };

/** Checks at once: of one provider, and in all. One host is asked once in a tick. */
const PER_PROVIDER = 2;

const AT_ONCE = 8;

/** Due listings among which those of a tick are chosen, the longest overdue first. */
const CONSIDERED = 1_024;

/** Longer than a check takes. */
const CLAIM_MS = 60_000;

const RETRY_MS = 300_000;

/** A listing that is hidden for longer is dropped; one that was never shown, sooner. */
const DROP_AFTER_MS = 3 * DAY_SEC * 1_000;

const DROP_UNSHOWN_AFTER_MS = DAY_SEC * 1_000;

export function startListingChecks(deps: ListingChecksDeps): ListingChecks {
  const { store, own, prober, log, nowMs, monotonicMs } = deps;
  const { chainId } = own.network;
  const faults = createFaultLog({ log, monotonicMs });
  const lease = createRoleLease({ store, chainId, role: "listings", monotonicMs });
  const stopping = new AbortController();
  const pauses = createNotifier();

  /** Serializes ticks: two at once would ask one host twice. */
  let last: Promise<number> = Promise.resolve(0);
  function tick(): Promise<number> {
    last = last.catch(() => 0).then(checkDue);
    return last;
  }

  async function checkDue(): Promise<number> {
    if (stopping.signal.aborted || !(await lease.acquire())) return 0;
    const rows = await claimDue(store.db, chainId, nowMs());
    await Promise.all(rows.map(check));
    return rows.length;
  }

  async function check(row: ListingRow): Promise<void> {
    const finding = await findingOf(row);
    if (finding === undefined) return;
    const gone = await conclude(deps, row, finding);
    const facts = { listing: row.id, outcome: gone ? "dropped" : finding.kind };
    log.info({ ...facts, ...(finding.kind === "failed" && { problem: finding.problem }) }, "listing");
  }

  /** @returns undefined when this service stops meanwhile */
  async function findingOf(row: ListingRow): Promise<Finding | undefined> {
    if (!(await hasLiveKey(store.db, row, nowMs()))) return { kind: "failed", problem: "no_key" };
    const answer = await prober.ask({ method: row.method, url: fill(row.url, row.sample) }, stopping.signal);
    if (answer.kind === "aborted") return undefined;
    if (answer.kind === "failed") return answer;
    const found = readTerms(answer, row.method, own);
    if (found.kind === "refused") return { kind: "failed", problem: found.problem };
    const isOwn = await areOwnPayees(store.db, row, found.payees);
    return isOwn ? { kind: "sound", terms: found.terms } : { kind: "failed", problem: "payee" };
  }

  const loop = repeat(
    async () => {
      try {
        await tick();
        faults.recovered("listings");
      } catch (error) {
        faults.met("listings", error, "checks of listings pause");
      }
    },
    () => pauses.wait("stop", deps.pollMs),
  );

  return {
    tick,
    async stop() {
      stopping.abort();
      const stopped = loop.stop();
      pauses.close();
      await stopped;
      await last.catch(() => 0);
      await lease.release().catch(() => undefined);
      await prober.close();
    },
  };
}

/** Takes what is due and moves its time: another process, or a repeated request, sees that it is being checked. */
async function claimDue(db: Db, chainId: number, nowMs: number): Promise<ListingRow[]> {
  const { rows } = await sql<{ id: string }>`
    with due as (
      select id, provider, host, due_at_ms, seq from listings
      where chain_id = ${chainId} and due_at_ms <= ${nowMs} order by due_at_ms, seq limit ${CONSIDERED}),
    ranked as (
      select id, due_at_ms, seq, row_number() over (partition by host order by due_at_ms, seq) as of_host, provider
      from due),
    fair as (
      select id, due_at_ms, seq, row_number() over (partition by provider order by due_at_ms, seq) as of_provider
      from ranked where of_host = 1)
    select id from fair where of_provider <= ${PER_PROVIDER} order by due_at_ms, seq limit ${AT_ONCE}`.execute(db);
  if (rows.length === 0) return [];
  return db
    .updateTable("listings")
    .set({ due_at_ms: nowMs + CLAIM_MS })
    .where(
      "id",
      "in",
      rows.map(({ id }) => id),
    )
    .where("due_at_ms", "<=", nowMs)
    .returningAll()
    .execute();
}

/** Records what a check found. A listing that was deleted, or changed, meanwhile stays as it is. @returns if dropped */
async function conclude({ store, nowMs, checkEveryMs }: ListingChecksDeps, row: ListingRow, finding: Finding) {
  const now = nowMs();
  const { id, due_at_ms: claimed, chain_id: chainId, provider } = row;
  if (finding.kind === "sound") {
    const { terms } = finding;
    await store.db
      .updateTable("listings")
      .set({
        state: "listed",
        problem: null,
        failures: 0,
        hidden_at_ms: null,
        terms: JSON.stringify(terms),
        search_text: searchTextOf(row.url, terms),
        checked_at_ms: now,
        listed_at_ms: now,
        due_at_ms: now + checkEveryMs,
      })
      .where("id", "=", id)
      .where("due_at_ms", "=", claimed)
      .execute();
    return false;
  }
  const { problem } = finding;
  const hiddenAtMs = row.hidden_at_ms ?? now;
  if (now - hiddenAtMs >= (row.listed_at_ms === null ? DROP_UNSHOWN_AFTER_MS : DROP_AFTER_MS)) {
    return store.transaction(async (tx) => {
      const { numDeletedRows } = await tx
        .deleteFrom("listings")
        .where("id", "=", id)
        .where("due_at_ms", "=", claimed)
        .executeTakeFirst();
      if (numDeletedRows === 0n) return false;
      const details = { method: row.method, url: row.url, problem };
      await recordAct(tx, { chainId, provider, actor: "service", act: "listing.dropped", objectId: id, details });
      return true;
    });
  }
  const retryMs = Math.min(RETRY_MS * 2 ** row.failures, checkEveryMs);
  await store.db
    .updateTable("listings")
    .set({
      state: "hidden",
      problem,
      terms: null,
      search_text: "",
      hidden_at_ms: hiddenAtMs,
      checked_at_ms: now,
      failures: row.failures + 1,
      due_at_ms: now + retryMs,
    })
    .where("id", "=", id)
    .where("due_at_ms", "=", claimed)
    .execute();
  return false;
}

/** A provider without a key cannot remove its listings: they go with its last key. */
async function hasLiveKey(db: Db, { chain_id: chainId, provider }: ListingRow, nowMs: number): Promise<boolean> {
  const key = await db
    .selectFrom("api_keys")
    .select("id")
    .where(onChains("api_keys", [chainId]))
    .where("provider", "=", provider)
    .where("revoked_at_ms", "is", null)
    .where("expires_at_ms", ">", nowMs)
    .limit(1)
    .executeTakeFirst();
  return key !== undefined;
}

/**
 * Returns whether every payee is the provider's wallet or one of its plans' payees. Anyone can create a plan that pays
 * another wallet, so a wallet with an API key of its own is that provider's alone.
 */
async function areOwnPayees(
  db: Db,
  { chain_id: chainId, provider }: ListingRow,
  payees: readonly Address[],
): Promise<boolean> {
  const others = payees.filter((payee) => payee !== provider);
  if (others.length === 0) return true;
  const plans = await db
    .selectFrom("plans")
    .select("pay_to")
    .distinct()
    .where("chain_id", "=", chainId)
    .where("provider", "=", provider)
    .where("pay_to", "in", others)
    .where(({ not, exists, selectFrom }) =>
      not(
        exists(
          selectFrom("api_keys")
            .select("id")
            .whereRef("api_keys.provider", "=", "plans.pay_to")
            .where(onChains("api_keys", [chainId])),
        ),
      ),
    )
    .execute();
  return plans.length === others.length;
}

const searchTextOf = (url: string, { description, serviceName, tags = [] }: ListingTerms): string =>
  [url, description ?? "", serviceName ?? "", ...tags].join(" ").toLowerCase();
