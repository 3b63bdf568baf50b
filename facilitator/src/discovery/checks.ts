/**
 * Asks the URLs of listings for their 402, and shows, hides or drops each listing by the answer. Nothing that a client
 * sends decides it. One process does it, by lease; a second one would only ask twice.
 */
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
import { type ClaimedListing, claimDue } from "./due";
import type { ListingRow } from "./listings";
import type { ListingProblem, Prober } from "./probe";
import { fill } from "./template";
import { type OwnChain, readTerms } from "./terms";

export interface ListingChecksDeps {
  readonly store: Store;
  readonly own: OwnChain;
  readonly prober: Prober;
  readonly log: Logger;
  /** A listing that is shown is checked this often. */
  readonly checkEveryMs: number;
  /** What is due is looked for this often. */
  readonly pollMs: number;
  /** unix milliseconds */
  readonly nowMs: () => number;
  readonly monotonicMs: () => number;
}

export interface ListingChecks {
  /** Starts to check what is due, as far as there are slots. @returns how many */
  start(): Promise<number>;
  tick(): Promise<number>;
  stop(): Promise<void>;
}

type Finding =
  | { readonly kind: "sound"; readonly terms: ListingTerms }
  | { readonly kind: "failed"; readonly problem: ListingProblem };

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

  const underWay = new Map<string, { readonly claimed: ClaimedListing; readonly done: Promise<void> }>();

  /** Serializes claims: two at once would ask one host twice. */
  let last: Promise<readonly Promise<void>[]> = Promise.resolve([]);
  function start(): Promise<readonly Promise<void>[]> {
    last = last.catch(() => []).then(startDue);
    return last;
  }

  async function startDue(): Promise<readonly Promise<void>[]> {
    if (stopping.signal.aborted || !(await lease.acquire())) return [];
    const busy = [...underWay.values()].map(({ claimed }) => claimed);
    const claimed = await claimDue(store.db, { chainId, nowMs: nowMs(), claimMs: CLAIM_MS, busy });
    return claimed.map((one) => {
      const { id } = one.row;
      const done = check(one.row)
        .then(() => faults.recovered("check"))
        .catch((error: unknown) => faults.met("check", error, "a check of a listing failed"))
        .finally(() => underWay.delete(id));
      underWay.set(id, { claimed: one, done });
      return done;
    });
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

  const settled = () => Promise.all([...underWay.values()].map(({ done }) => done));

  const loop = repeat(
    async () => {
      try {
        await start();
        faults.recovered("listings");
      } catch (error) {
        faults.met("listings", error, "checks of listings pause");
      }
    },
    () => pauses.wait("stop", deps.pollMs),
  );

  return {
    start: async () => (await start()).length,
    async tick() {
      const started = await start();
      await settled();
      return started.length;
    },
    async stop() {
      stopping.abort();
      const stopped = loop.stop();
      pauses.close();
      await stopped;
      await last.catch(() => []);
      await settled();
      await lease.release().catch(() => undefined);
      await prober.close();
    },
  };
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
