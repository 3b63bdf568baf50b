/**
 * Debits allowances for providers whose plan's operator is the relayer. Each debit is simulated, stored before it is
 * sent, and settled when the indexed rows show it. The same subscription and index always identify the same debit. The
 * contract accepts each index once, so a repeated send never charges twice.
 */
import type { DebitRequest, DebitResultWire } from "turnpike/facilitator";
import { type Address, type Hex, InvalidRequest, isErrorCode, keccakText, TurnpikeError } from "turnpike/protocol";
import { type FacilitatorConfig, findToken } from "../../config";
import type { Store } from "../../db/open";
import type { Indexer } from "../../indexer";
import type { Relayer } from "../../relayer";
import { debitGas, encodeDebits, failuresIn, simulate } from "./batch";
import {
  claimIndexes,
  closeRequests,
  countBatches,
  type DebitRecord,
  debitKeyOf,
  findDebits,
  type NewRequest,
  nameTransaction,
} from "./records";
import { type DebitRights, DebitRules } from "./rights";
import { failed, PENDING, toWire, type Verdict } from "./verdict";

export interface DebitsDeps {
  readonly config: Pick<FacilitatorConfig, "chainId" | "turnpike" | "tokens" | "payTo" | "debitBatchesPerHour">;
  readonly store: Store;
  readonly relayer: Pick<Relayer, "addresses" | "simulate" | "submit" | "poke" | "waitFor">;
  readonly indexer: Pick<Indexer, "waitApplied" | "catchUp" | "keptTo">;
  readonly monotonicMs: () => number;
}

export interface Debits {
  /** @returns one result for each item, in order. @throws RateLimited, Unavailable: outcome unknown, retry */
  collect(
    provider: Address,
    items: readonly DebitRequest[],
    waiting: { readonly waitMs: number },
  ): Promise<DebitResultWire[]>;
  /** Returns, in order, whether debits of each plan would be collected for this provider, for any subscriber. */
  rights(provider: Address, planIds: readonly Hex[]): Promise<DebitRights>;
}

export function createDebits(deps: DebitsDeps): Debits {
  return new DebitCollector(deps);
}

class DebitCollector implements Debits {
  readonly #deps: DebitsDeps;
  readonly #rules: DebitRules;

  constructor(deps: DebitsDeps) {
    this.#deps = deps;
    this.#rules = new DebitRules(deps);
  }

  async collect(
    provider: Address,
    items: readonly DebitRequest[],
    { waitMs }: { readonly waitMs: number },
  ): Promise<DebitResultWire[]> {
    const { config, store, monotonicMs } = this.#deps;
    const { chainId } = config;
    if (new Set(items.map(debitKeyOf)).size !== items.length) {
      throw new InvalidRequest("body: the same idHash and index appear twice");
    }
    const untilMs = monotonicMs() + waitMs;
    const { records, verdicts } = await this.#judgeAll(provider, items);
    const fresh = items.flatMap((item): NewRequest[] => {
      const verdict = verdicts.get(debitKeyOf(item));
      return verdict?.kind === "new" ? [{ ...item, attempt: verdict.attempt }] : [];
    });
    if (fresh.length > 0) for (const [key, verdict] of await this.#begin(provider, fresh)) verdicts.set(key, verdict);

    const waited = items.filter((item) => verdicts.get(debitKeyOf(item))?.kind === "pending");
    if (waited.length > 0) {
      const under = fresh.length > 0 ? await findDebits(store.db, chainId, waited) : records;
      const open = under.flatMap(({ sent }) => (sent && sent.closedCode === null ? [sent.transactionId] : []));
      await Promise.all([...new Set(open)].map((id) => this.#follow(id, untilMs)));
      const after = await findDebits(store.db, chainId, waited);
      for (const [place, item] of waited.entries()) verdicts.set(debitKeyOf(item), this.#conclude(item, after[place]));
    }
    return items.map((item) => toWire(item, verdicts.get(debitKeyOf(item)) ?? PENDING));
  }

  rights(provider: Address, planIds: readonly Hex[]): Promise<DebitRights> {
    return this.#rules.rights(provider, planIds);
  }

  async #judgeAll(provider: Address, items: readonly DebitRequest[]) {
    const { config, store } = this.#deps;
    const records = await findDebits(store.db, config.chainId, items);
    const verdicts = new Map<string, Verdict>();
    for (const [place, item] of items.entries()) {
      const record = records[place] as DebitRecord;
      verdicts.set(debitKeyOf(item), await this.#judge(provider, item, record));
    }
    return { records, verdicts };
  }

  /** Decides from the rows alone, before the chain is queried. */
  async #judge(provider: Address, item: DebitRequest, record: DebitRecord): Promise<Verdict> {
    const { config, indexer } = this.#deps;
    const { plan, onChain, sent } = record;
    const isOfProvider = plan?.provider === provider;
    // What was sent for a signup that a reorganisation has removed may be mined once the signup is mined again.
    const isSentFor = sent?.provider === provider && sent.closedCode === null;
    if (!isOfProvider && !isSentFor) return failed("UnknownSubscription");
    if (onChain) {
      if (onChain.blockNumber > indexer.keptTo()) return PENDING;
      return onChain.amount === item.amount
        ? { kind: "settled", transaction: onChain.transaction }
        : failed("StaleDebit", `index ${item.index} was debited with another amount`);
    }
    if (sent && sent.closedCode === null) {
      if (sent.amount === item.amount) return PENDING;
      return failed("PayloadConflict", `index ${item.index} is under way with another amount`);
    }
    if (!isOfProvider) return failed("UnknownSubscription");
    const minAmount = findToken(config as FacilitatorConfig, plan.token as Address)?.minAmount ?? 0n;
    const against = await this.#rules.faultOfPlan(plan);
    if (against) return failed(against.code, against.message);
    if (item.amount < minAmount) return failed("PaymentNotAllowed", `a debit is at least ${minAmount} base units`);
    // An earlier index is still undecided: the chain can only refuse this one now.
    return record.isBehind ? PENDING : { kind: "new", attempt: sent ? sent.attempt + 1 : 0 };
  }

  /** Simulates new debits and sends those that would succeed. @returns the results of the others */
  async #begin(provider: Address, items: readonly NewRequest[]): Promise<Map<string, Verdict>> {
    const { config, relayer } = this.#deps;
    const found = new Map<string, Verdict>();
    this.#rules.requireRelayer();
    const reasons = await simulate(items, { relayer, turnpike: config.turnpike });
    const willing = items.filter((item) => reasons.get(debitKeyOf(item)) === undefined);
    const stale = items.filter((item) => reasons.get(debitKeyOf(item)) === "StaleDebit");
    for (const item of items) {
      const reason = reasons.get(debitKeyOf(item));
      if (reason !== undefined) found.set(debitKeyOf(item), failed(reason));
    }
    if (willing.length > 0) {
      await this.#send(provider, willing);
      for (const item of willing) found.set(debitKeyOf(item), PENDING);
    }
    if (stale.length > 0) for (const [key, verdict] of await this.#judgeStale(provider, stale)) found.set(key, verdict);
    return found;
  }

  /**
   * Handles a chain that is ahead of the rows. This very debit may have taken the index, so it is not reported as
   * failed until its block is indexed.
   */
  async #judgeStale(provider: Address, items: readonly NewRequest[]): Promise<Map<string, Verdict>> {
    await this.#deps.indexer.catchUp();
    const { records, verdicts } = await this.#judgeAll(provider, items);
    return new Map(
      items.map((item, place): [string, Verdict] => {
        const verdict = verdicts.get(debitKeyOf(item)) ?? PENDING;
        if (verdict.kind !== "new") return [debitKeyOf(item), verdict];
        // The rows expect this index, the newest block does not: something unconfirmed took it.
        return [debitKeyOf(item), records[place]?.debits === item.index ? PENDING : failed("StaleDebit")];
      }),
    );
  }

  async #send(provider: Address, items: readonly NewRequest[]): Promise<void> {
    const { config, store, relayer } = this.#deps;
    const { chainId, turnpike } = config;
    const recent = await countBatches(store.db, chainId, provider);
    if (recent >= config.debitBatchesPerHour) {
      throw new TurnpikeError("RateLimited", `${recent} batches of debits were sent within the hour`, {
        retryAfterSec: 60,
      });
    }
    await store.transaction(async (tx) => {
      const taken = await claimIndexes(tx, { chainId, provider }, items);
      if (taken.length === 0) return;
      const data = encodeDebits(taken);
      const key = taken.map((item) => `${debitKeyOf(item)}/${item.attempt}/${item.amount}`).join();
      const request = { purpose: "debit", idempotencyKey: `debit:${keccakText(key)}`, to: turnpike, data };
      const transactionId = await relayer.submit({ ...request, gasLimit: debitGas(data, taken.length) }, tx);
      await nameTransaction(tx, chainId, taken, transactionId);
    });
    relayer.poke();
  }

  /** Waits for one transaction, then closes the debits that it did not execute. */
  async #follow(transactionId: string, untilMs: number): Promise<void> {
    const { config, store, relayer, indexer, monotonicMs } = this.#deps;
    const { chainId, turnpike } = config;
    const leftMs = () => Math.max(0, untilMs - monotonicMs());
    const outcome = await relayer.waitFor(transactionId, leftMs());
    if (outcome.kind === "pending") return;
    const own = await store.db
      .selectFrom("debit_requests")
      .select(["id_hash", "debit_index"])
      .where("chain_id", "=", chainId)
      .where("transaction_id", "=", transactionId)
      .where("closed_code", "is", null)
      .execute();
    const all = (code: string) => new Map(own.map((row) => [`${row.id_hash}/${row.debit_index}`, code]));
    if (outcome.kind !== "mined") return closeRequests(store.db, chainId, transactionId, all("displaced"));
    // The block is confirmed and its rows are stored.
    if (!(await indexer.waitApplied(outcome.blockNumber, leftMs()))) return;
    const failures = outcome.success ? failuresIn(outcome.logs, turnpike) : all("InsufficientGas");
    await closeRequests(store.db, chainId, transactionId, failures);
  }

  /** Returns results after the wait: settled, refused by the chain, or still pending. */
  #conclude(item: DebitRequest, record: DebitRecord | undefined): Verdict {
    const { onChain, sent } = record ?? {};
    // The chain dropped its block, or the head moved back for a moment.
    if (onChain && onChain.blockNumber > this.#deps.indexer.keptTo()) return PENDING;
    if (onChain?.amount === item.amount) return { kind: "settled", transaction: onChain.transaction };
    const code = sent?.closedCode;
    // Displaced: the debit itself is undecided, and the next request sends it again.
    return code && isErrorCode(code) ? failed(code) : PENDING;
  }
}
