/**
 * Holds the lease of the one gate that sends debits, and records its entries. Every change swaps the sender's cell, so
 * that a former holder can write nothing more.
 */
import { Unavailable } from "../../protocol/errors";
import { type Hex, randomBytes, toBase64Url } from "../../protocol/hex";
import type { Cells } from "../cells/cells";
import { type Entry, hasBalance } from "./books";
import { accountKey, contended, MAX_TRIES, SENDER_KEY, type SenderState, type SharedView } from "./shared-view";

/** What a sender may record. */
export type SentEntry = Exclude<Entry, { kind: "reserved" }>;

export class SharedSender {
  readonly #cells: Cells;
  readonly #view: SharedView;
  readonly #leaseMs: number;
  readonly #self = toBase64Url(randomBytes(12));
  #maySend = true;
  /** monotonic; when this process renewed its lease */
  #renewedAtMs = 0;
  /** the sender's cell as it was last seen, and since when: monotonic */
  #seen: { readonly text: string | undefined; readonly sinceMs: number } | undefined;
  /** one change at a time: each builds on the one before */
  #recording: Promise<unknown> = Promise.resolve();

  constructor(cells: Cells, view: SharedView, leaseMs: number) {
    this.#cells = cells;
    this.#view = view;
    this.#leaseMs = leaseMs;
  }

  /** Whether this process holds the lease, as last seen. */
  get isSender(): boolean {
    return this.#view.sender.owner === this.#self;
  }

  /** Sets whether this process may hold the lease, from the next refresh on. */
  setSending(may: boolean): void {
    this.#maySend = may;
  }

  /** @throws Unavailable when another gate sends, or the store does not answer */
  record(entry: SentEntry): Promise<void> {
    return this.#serialize(() => this.#record(entry));
  }

  /** Reads what other gates changed, and renews, acquires or releases the lease. */
  refresh(): Promise<void> {
    return this.#serialize(() => this.#refresh());
  }

  release(): Promise<void> {
    return this.#serialize(() => this.#release());
  }

  #serialize<T>(work: () => Promise<T>): Promise<T> {
    const done = this.#recording.then(work, work);
    // The caller gets the error; the next one only waits.
    this.#recording = done.catch(() => undefined);
    return done;
  }

  /** Applies an entry to the current cells, and retries whenever another gate was quicker. */
  async #record(entry: SentEntry): Promise<void> {
    const view = this.#view;
    if (!this.isSender) throw lost();
    const idHashes = this.#idHashesOf(entry).flatMap((idHash) => [idHash, view.books.current(idHash)]);
    const keys = [...new Set(idHashes.map(accountKey))];
    for (let tries = 0; tries < MAX_TRIES; tries++) {
      const draft = view.draft(keys, entry.kind === "rekeyed" ? entry.idHash : undefined);
      draft.apply(entry);
      if (await view.swap(view.changesTo(draft, keys))) return;
      await view.reread([SENDER_KEY, ...keys]);
      if (!this.isSender) throw lost();
    }
    throw contended();
  }

  #idHashesOf(entry: SentEntry): Hex[] {
    switch (entry.kind) {
      case "sealed":
        return entry.items.map(({ idHash }) => idHash);
      case "resolved":
      case "reopened": {
        const { batches, recent } = this.#view.books;
        const batch = batches.get(entry.batch) ?? recent.find(({ id }) => id === entry.batch);
        return batch?.items.map(({ idHash }) => idHash) ?? [];
      }
      case "rekeyed":
        return [entry.idHash, entry.to];
      case "replaced":
        return [];
      default:
        return [entry.idHash];
    }
  }

  async #refresh(): Promise<void> {
    const view = this.#view;
    await view.refresh();
    if (!this.#maySend) return this.#release();
    if (!this.isSender || performance.now() - this.#renewedAtMs > this.#leaseMs / 2) await this.#renew();
    if (!this.isSender) return;
    for (const account of [...view.books.accounts.values()]) {
      const to = view.books.successors.get(account.idHash);
      if (to && hasBalance(account))
        await this.#record({ kind: "rekeyed", idHash: account.idHash, to, block: account.seenBlock });
    }
  }

  async #renew(): Promise<void> {
    await this.#view.reread([SENDER_KEY]);
    const nowMs = await this.#cells.nowMs();
    if (!this.isSender && this.#view.sender.owner !== "" && this.#isAlive(nowMs)) return;
    const atMs = performance.now();
    await this.#write({ owner: this.#self, leaseUntilMs: nowMs + this.#leaseMs });
    if (this.isSender) this.#renewedAtMs = atMs;
  }

  /** Of one machine, whose clock may be set meanwhile, the sender is watched for a lease. */
  #isAlive(nowMs: number): boolean {
    if (!this.#cells.isLocal) return this.#view.sender.leaseUntilMs > nowMs;
    const text = this.#view.text(SENDER_KEY);
    if (this.#seen === undefined || this.#seen.text !== text) this.#seen = { text, sinceMs: performance.now() };
    return performance.now() - this.#seen.sinceMs < this.#leaseMs;
  }

  async #release(): Promise<void> {
    if (this.isSender) await this.#write({ owner: "", leaseUntilMs: 0 });
  }

  async #write(change: Partial<SenderState>): Promise<void> {
    if (!(await this.#view.swap([this.#view.changeOfSender(change)]))) await this.#view.reread([SENDER_KEY]);
  }
}

function lost(): Unavailable {
  return new Unavailable("Another gate sends the debits now.", { retryAfterSec: 2 });
}
