/**
 * Compares what settled in final blocks with the chain's logs: in steps of few blocks, so that memory does not grow with
 * the range. A final block does not change, so no step needs the snapshot of another one. It compares:
 * - each settled payment and refund with the token's logs
 * - each payment that the logs name with its state
 * - each event of a log with the log, and each settled payment with its event, unless retention has deleted it
 * - each event of a settled payment with a row
 * - each transfer that the service made to one of its payees with a row
 * - the outbox with the events
 */
import { prunedBlock } from "../../../events/retention";
import { findUnqueued } from "../../../webhooks/outbox";
import type { BlockRange, SinceJob } from "./job";
import { isTransfer, readLogs } from "./logs";
import { type Missing, missed, missingAmong, readServed, type Served } from "./missing";
import { eventsOf, eventsWithoutPayment, otherPayments, settledPayments } from "./rows";
import { inSteps, MANY, orTooWide } from "./steps";
import { SETTLED, unsettled, wrongEvents, wrongPayments } from "./wrong";

export interface ComparedStep extends BlockRange {
  readonly payments: number;
  /** one sentence for each difference */
  readonly wrong: readonly string[];
  /** payments without a row; `wrong` names them too */
  readonly missing: readonly Missing[];
}

/** @throws Unavailable when no node answers: the step is not yielded then */
export async function* compareSettled(job: SinceJob, range: BlockRange): AsyncGenerator<ComparedStep> {
  const served = await readServed(job);
  yield* inSteps(range, (step) => compareStep(job, step, served));
}

interface Compared extends Pick<ComparedStep, "payments" | "wrong" | "missing"> {
  readonly size: number;
}

async function compareStep(job: SinceJob, range: BlockRange, served: Served): Promise<Compared | "too wide"> {
  const { store, config } = job;
  const isOneBlock = range.fromBlock === range.toBlock;
  const payments = await settledPayments(store.db, config.chainId, range, isOneBlock ? undefined : MANY + 1);
  if (payments.length > MANY && !isOneBlock) return "too wide";
  const read = await orTooWide(readStep(job, range, served));
  if (read === "too wide") return read;
  const { logs, missing } = read;
  const pruned = await prunedBlock(store.db, config.chainId);
  const events = await eventsOf(store.db, config.chainId, range);
  const { wrong, named } = await wrongPayments(job, payments, logs);
  const others = await otherPayments(store.db, config.chainId, named);
  const known = new Set([...payments, ...others].map(({ payment_id: id }) => id));
  const lost = await eventsWithoutPayment(
    store.db,
    config.chainId,
    events.filter(({ type, object_id: id }) => SETTLED.includes(type) && !known.has(id)),
  );
  // Their logs were not read where the service has no payment of their payee.
  const withoutRow = new Set(lost.map(({ object_id: id }) => id));
  const rest = events.filter(({ object_id: id }) => !withoutRow.has(id));
  const unqueued = await findUnqueued(store.db, config.chainId, range);
  return {
    payments: payments.length,
    missing,
    size: payments.length + logs.length + events.length,
    wrong: [
      ...wrong,
      ...others.map(({ payment_id: id, state }) => `payments ${id}: ${state} here, and its nonce is used on the chain`),
      ...lost.map(unsettled),
      ...wrongEvents({ payments, pruned, events: rest, logs }),
      ...missing.map(missed),
      ...unqueued.map(({ endpoint, event }) => `outbox: event ${event} was never queued for endpoint ${endpoint}`),
    ],
  };
}

async function readStep(job: SinceJob, range: BlockRange, served: Served) {
  const logs = await readLogs(job, range, served.payees);
  return { logs, missing: await missingAmong(job, logs.filter(isTransfer), served) };
}
