/**
 * Compares the database with the chain and reports every difference. Changes nothing. When a Facilitator runs on the
 * database, `store` must be one snapshot of it. It compares:
 * - the rows with a second reading of all logs
 * - the plans and the subscriptions with the contract's own storage
 * - the payments with the token's logs, and the service's transfers to its payees with the payments
 * - the outbox and the sums with the events
 */
import { lensInterface, tokenInterface } from "turnpike/chain";
import { type Address, type Hex, lensAddressOf, NO_PLAN, ZERO_ADDRESS } from "turnpike/protocol";
import { countPruned } from "../../analytics/event-sums";
import { HOURS_KEPT_DAYS } from "../../analytics/ranges";
import { findWrongSums } from "../../analytics/recount";
import { KNOWN_TOPICS } from "../../chain/facts";
import { PROXIES, PROXY_TOPICS, readFacts } from "../../chain/permit2-settlements";
import { type Db, openStore } from "../../db/open";
import type { PaymentRow } from "../../db/tables/payments";
import { countStaged } from "../../events/feed";
import { prunedBlock } from "../../events/retention";
import { newestBlock } from "../../indexer/applied-blocks";
import { findPermit2Evidence } from "../../payments/permit2-evidence";
import { findUnqueued } from "../../webhooks/outbox";
import { type DumpedRow, differences, dumpChainRows } from "./dump";
import { type Reindex, readChain } from "./reindex";
import { type Missing, missed, missingPayments, sumsOf } from "./since/missing";
import { SETTLED, unsettled } from "./since/wrong";

/** One sentence that states what is wrong. */
export type Wrong = string;

const PAGE = 200;

const DAY_SEC = 86_400;

/** @throws Unavailable when no node answers: what was not reported by then is not checked */
export async function* reconcile(job: Omit<Reindex, "untilBlock">): AsyncGenerator<Wrong> {
  const { store, config, chain } = job;
  const newest = await newestBlock(store.db, config.chainId);
  if (!newest) {
    yield "blocks: the database has read no block of this chain";
    return;
  }
  const onChain = await chain.block(newest.number);
  if (onChain?.hash !== newest.hash) {
    yield `blocks: block ${newest.number} is ${newest.hash} here and ${onChain?.hash ?? "absent"} on the chain`;
    return;
  }
  const staged = await countStaged(store.db, config.chainId);
  if (staged > 0) {
    yield `events: those of ${staged} blocks are stored and not published yet; start a Facilitator, which publishes them first`;
    return;
  }
  yield* againstSecondReading(job, newest.number);
  yield* plansAgainstContract(job, newest.number);
  yield* againstContract(job, newest.number);
  yield* againstToken(job, newest.number);
  yield* againstEvents(job, newest.timestamp);
  yield* againstTransfers(job, newest.number - config.finalityDepth);
}

/** The transfers of newer blocks may not have their rows yet. @param toBlock the newest final block */
async function* againstTransfers(job: Omit<Reindex, "untilBlock">, toBlock: number): AsyncGenerator<Wrong> {
  const missing: Missing[] = [];
  const range = { fromBlock: job.config.startBlock, toBlock };
  for await (const one of missingPayments(job, range)) {
    missing.push(one);
    yield missed(one);
  }
  yield* sumsOf(missing);
}

async function* againstSecondReading(job: Omit<Reindex, "untilBlock">, untilBlock: number): AsyncGenerator<Wrong> {
  const { config, store } = job;
  const shadow = await openStore({ kind: "pglite", dir: "memory://", lockMs: 10_000 });
  try {
    await readChain({ ...job, store: shadow, untilBlock });
    const ours = withoutPayments(dumpChainRows(store.db, config.chainId));
    for await (const { table, key, ours: here, theirs } of differences(
      ours,
      dumpChainRows(shadow.db, config.chainId),
    )) {
      yield `${table} ${key}: ${here ?? "absent"} here, ${theirs ?? "absent"} by the chain's logs`;
    }
  } finally {
    await shadow.close();
  }
}

/** The chain does not show which payments were requested: these are compared one by one. */
async function* withoutPayments(rows: AsyncGenerator<DumpedRow>): AsyncGenerator<DumpedRow> {
  for await (const row of rows) {
    const isTransfer = row.table === "events" && /\["type","(?:payment|refund)\./.test(row.text);
    if (row.table !== "payments" && !isTransfer) yield row;
  }
}

interface StateOutput {
  readonly subscription: Record<"subscriber" | "planId" | "nextPlanId", string> &
    Record<"paidThrough" | "version" | "anchorDay" | "until", bigint> &
    Record<"paused" | "ending" | "cancelled" | "intro", boolean>;
  readonly allowance: Record<"cap" | "spent" | "debits", bigint>;
}

interface PlanOutput extends Record<"provider" | "successor" | "firstPayTo" | "proposedPayTo", string> {
  readonly terms: Record<"amount" | "interval" | "grace", bigint> & {
    readonly months: boolean;
    readonly payTo: string;
  };
  readonly deprecated: boolean;
  readonly stopped: boolean;
  readonly effectiveAt: bigint;
}

/** Calls the contract's lens about a page of ids. @returns undefined when it does not answer */
async function readLens<T>(
  { config, chain }: Omit<Reindex, "untilBlock">,
  { method, ids, block }: { readonly method: "getStates" | "getPlans"; readonly ids: readonly string[]; block: number },
): Promise<readonly T[] | undefined> {
  const data = lensInterface.encodeFunctionData(method, [ids]) as Hex;
  const answer = await chain.call({ to: lensAddressOf(config.turnpike), data, block });
  return answer.kind === "ok" ? (lensInterface.decodeFunctionResult(method, answer.data)[0] as T[]) : undefined;
}

async function* plansAgainstContract(job: Omit<Reindex, "untilBlock">, block: number): AsyncGenerator<Wrong> {
  const { store, config } = job;
  let after = "";
  for (;;) {
    const rows = await store.db
      .selectFrom("plans")
      .selectAll()
      .where("chain_id", "=", config.chainId)
      .where("plan_id", ">", after)
      .orderBy("plan_id")
      .limit(PAGE)
      .execute();
    if (rows.length === 0) return;
    const plans = await readLens<PlanOutput>(job, { method: "getPlans", ids: rows.map((row) => row.plan_id), block });
    if (!plans) {
      yield `plans: the contract does not return them at block ${block}`;
      return;
    }
    for (const [index, row] of rows.entries()) {
      const p = plans[index] as PlanOutput;
      const { terms: t } = p;
      const here = [row.provider, row.amount, row.months || row.interval_sec, row.months > 0, row.grace_sec];
      const there = [p.provider, t.amount, t.interval, t.months, t.grace];
      const payees = [row.pay_to, row.first_pay_to ?? row.pay_to, row.proposed_pay_to ?? ZERO_ADDRESS];
      const end = [row.deprecated, row.stopped_at !== null, row.successor ?? NO_PLAN];
      const endThere = [p.deprecated, p.stopped, p.successor];
      const ours = [...here, ...payees, row.pay_to_effective_at ?? 0, ...end];
      const theirs = [...there, t.payTo, p.firstPayTo, p.proposedPayTo, p.effectiveAt, ...endThere];
      if (ours.join(" ") !== theirs.join(" "))
        yield `plans ${row.plan_id}: ${ours.join(" ")} here, ${theirs.join(" ")} in the contract`;
    }
    after = rows.at(-1)?.plan_id ?? after;
  }
}

async function* againstContract(job: Omit<Reindex, "untilBlock">, block: number): AsyncGenerator<Wrong> {
  const { store, config } = job;
  let after = "";
  for (;;) {
    const rows = await store.db
      .selectFrom("subscriptions as s")
      .leftJoin("allowances as a", (join) =>
        join.onRef("a.chain_id", "=", "s.chain_id").onRef("a.id_hash", "=", "s.id_hash"),
      )
      .select(["s.id_hash", "s.subscriber", "s.plan_id", "s.paid_through", "s.version", "s.paused", "s.ending"])
      .select([
        "s.cancelled",
        "s.intro",
        "s.anchor_day",
        "s.until",
        "s.next_plan_id",
        "s.moved_to",
        "a.cap",
        "a.spent",
        "a.cycle",
        "a.debits",
      ])
      .where("s.chain_id", "=", config.chainId)
      .where("s.id_hash", ">", after)
      .orderBy("s.id_hash")
      .limit(PAGE)
      .execute();
    if (rows.length === 0) return;
    const states = await readLens<StateOutput>(job, {
      method: "getStates",
      ids: rows.map((row) => row.id_hash),
      block,
    });
    if (!states) {
      yield `subscriptions: the contract does not return its states at block ${block}`;
      return;
    }
    for (const [index, row] of rows.entries()) {
      const { subscription: s, allowance: a } = states[index] as StateOutput;
      const spent = row.cycle === row.paid_through ? (row.spent ?? "0") : "0";
      const here = [row.subscriber, row.plan_id, row.paid_through, row.version, row.paused, row.ending, row.cancelled];
      const there = [s.subscriber, s.planId, Number(s.paidThrough), Number(s.version), s.paused, s.ending, s.cancelled];
      const next = [row.intro, row.anchor_day, row.until, row.next_plan_id ?? NO_PLAN];
      const nextThere = [s.intro, s.anchorDay, s.until, s.nextPlanId];
      const ours = [...here, ...next, row.cap ?? "0", spent, row.debits ?? 0].join(" ");
      const theirs = [...there, ...nextThere, a.cap, a.spent, a.debits].join(" ");
      if (ours !== theirs) yield `subscriptions ${row.id_hash}: ${ours} here, ${theirs} in the contract`;
    }
    after = rows.at(-1)?.id_hash ?? after;
  }
}

async function* againstToken(job: Omit<Reindex, "untilBlock">, block: number): AsyncGenerator<Wrong> {
  const { store, config } = job;
  let after = "";
  for (;;) {
    const rows = await store.db
      .selectFrom("payments")
      .selectAll()
      .where("chain_id", "=", config.chainId)
      .where("payment_id", ">", after)
      .orderBy("payment_id")
      .limit(PAGE)
      .execute();
    if (rows.length === 0) return;
    for (const row of rows) {
      const wrong = await wrongPayment(job, row, block);
      if (wrong) yield wrong;
    }
    after = rows.at(-1)?.payment_id ?? after;
  }
}

async function wrongPayment(
  { config, chain }: Omit<Reindex, "untilBlock">,
  row: PaymentRow,
  block: number,
): Promise<Wrong | undefined> {
  const name = `payments ${row.payment_id}`;
  const isPermit2 = row.method !== "eip3009";
  if (row.state !== "settled") {
    // A payer can spend a Permit2 nonce on anything: only a proxy's call says that this payment moved.
    if (isPermit2) {
      const { kind } = await findPermit2Evidence(chain, row, block);
      return kind === "transfer" ? `${name}: ${row.state} here, and moved on the chain` : undefined;
    }
    const data = tokenInterface.encodeFunctionData("authorizationState", [row.payer, row.nonce]) as Hex;
    const answer = await chain.call({ to: row.token as Address, data, block });
    if (answer.kind !== "ok") return `${name}: the token does not return whether its nonce is used`;
    const isUsed = !/^0x0*$/.test(answer.data);
    // A failure caused by a log has used its nonce.
    const isExpected = row.state === "failed" && row.fail_reason !== "expired";
    return isUsed && !isExpected ? `${name}: ${row.state} here, and its nonce is used on the chain` : undefined;
  }
  const unproved = `${name}: settled here by ${row.tx_hash}, and no transfer there proves it`;
  if ((await chain.block(row.block_number ?? -1))?.hash !== row.block_hash) return unproved;
  const tokens = config.tokens.map(({ address }) => address);
  const filter = {
    addresses: [row.token as Address, ...(isPermit2 ? PROXIES : [])],
    topics: [[...KNOWN_TOPICS, ...PROXY_TOPICS]],
  };
  const logs = await chain.logsOfBlock(row.block_hash as Hex, filter);
  const facts = await readFacts(chain, { chainId: config.chainId, turnpike: config.turnpike, tokens }, logs);
  const isThere = facts.some(
    (fact) =>
      fact.kind === "authorizationUsed" &&
      fact.paymentId === row.payment_id &&
      fact.transaction === row.tx_hash &&
      fact.transfer?.logIndex === row.log_index &&
      fact.transfer.to === row.pay_to &&
      fact.transfer.amount === BigInt(row.amount),
  );
  return isThere ? undefined : unproved;
}

/** Settled payments without a valid event. */
const withoutEvent = (db: Db, chainId: number) =>
  db
    .selectFrom("payments as p")
    .leftJoin("events as e", (join) =>
      join
        .onRef("e.chain_id", "=", "p.chain_id")
        .onRef("e.object_id", "=", "p.payment_id")
        .on("e.type", "in", SETTLED)
        .on("e.reverted", "=", false),
    )
    .select("p.payment_id")
    .where("p.chain_id", "=", chainId)
    .where("p.state", "=", "settled")
    .where("e.id", "is", null);

/** Valid events of settled payments that have no row. */
const withoutPayment = (db: Db, chainId: number) =>
  db
    .selectFrom("events as e")
    .leftJoin("payments as p", (join) =>
      join.onRef("p.chain_id", "=", "e.chain_id").onRef("p.payment_id", "=", "e.object_id"),
    )
    .select(["e.id", "e.object_id"])
    .where("e.chain_id", "=", chainId)
    .where("e.type", "in", SETTLED)
    .where("e.reverted", "=", false)
    .where("p.payment_id", "is", null);

async function* againstEvents({ store, config }: Omit<Reindex, "untilBlock">, nowSec: number): AsyncGenerator<Wrong> {
  const { chainId } = config;
  const pruned = await prunedBlock(store.db, chainId);
  const unpublished = await withoutEvent(store.db, chainId).where("p.block_number", ">", pruned).execute();
  for (const { payment_id: id } of unpublished) yield `events: payment ${id} is settled without an event`;
  for (const event of await withoutPayment(store.db, chainId).execute()) yield unsettled(event);
  // Retention has deleted the events of the older ones, and counted them.
  const { older } = await withoutEvent(store.db, chainId)
    .where("p.block_number", "<=", pruned)
    .clearSelect()
    .select(({ fn }) => fn.countAll<number>().as("older"))
    .executeTakeFirstOrThrow();
  const deleted = await countPruned(store.db, chainId, SETTLED);
  if (older !== deleted)
    yield `events: ${older} payments up to block ${pruned} are settled without an event, and ${deleted} events were deleted`;
  for (const { endpoint, event } of await findUnqueued(store.db, chainId))
    yield `outbox: event ${event} was never queued for endpoint ${endpoint}`;
  const hoursSince = nowSec - HOURS_KEPT_DAYS * DAY_SEC;
  for (const { table, key, stored, counted } of await findWrongSums(store.db, chainId, hoursSince)) {
    yield `${table} ${key}: ${stored ?? "absent"} here, ${counted ?? "absent"} by the events`;
  }
}
