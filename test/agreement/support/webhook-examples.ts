/** One webhook of every type as the service makes it: a short history, emitted by the rules that write the outbox. */
import type { TurnpikeEvent } from "turnpike/chain";
import type { WebhookEventType } from "turnpike/facilitator";
import { addressOfKey, type Hex, keccakText, networkOfChain } from "turnpike/protocol";
import type { ChainFact } from "../../../facilitator/src/chain/facts";
import type { PaymentRow } from "../../../facilitator/src/db/tables/payments";
import type { EventDraft } from "../../../facilitator/src/events/event";
import { RowSet } from "../../../facilitator/src/events/projection";
import { applyBlock } from "../../../facilitator/src/indexer/block-writer";
import { paymentRules } from "../../../facilitator/src/payments/projection";
import { type RefundRecord, RefundRecords } from "../../../facilitator/src/payments/refund-records";
import { paymentPayload } from "../../../facilitator/src/payments/rows";
import { transferEvent } from "../../../facilitator/src/payments/transfer-events";
import { emptyState } from "../../../facilitator/src/subscriptions/block-rows";
import { subscriptionPayload } from "../../../facilitator/src/subscriptions/payloads";
import { turnpikeRules } from "../../../facilitator/src/subscriptions/projection";
import { bodyOf } from "../../../facilitator/src/webhooks/message";

const CHAIN_ID = 8453;
const NETWORK = networkOfChain(CHAIN_ID);
const START_SEC = 1_790_000_000;
const DAY = 86_400;
const address = (name: string) => addressOfKey(keccakText(`example ${name}`));
const hash = (name: string): Hex => keccakText(`example ${name}`);

const provider = address("provider");
const subscriber = address("subscriber");
const token = NETWORK.token?.address ?? address("token");
const [planId, larger, idHash, newIdHash] = [hash("plan"), hash("larger plan"), hash("subscription"), hash("rekeyed")];

const plan = (id: Hex, index: number, amount: bigint): TurnpikeEvent => ({
  name: "PlanCreated",
  planId: id,
  provider,
  index,
  salt: hash("salt"),
  metadata: '{"name":"Reader"}',
  terms: { token, amount, intervalSec: 30 * DAY, months: 0, graceSec: 3 * DAY, payTo: provider },
});

/** In the order in which they happen; a list is one block. */
const HISTORY: readonly TurnpikeEvent[] = [
  plan(planId, 0, 10_000_000n),
  plan(larger, 1, 25_000_000n),
  ...[
    {
      name: "Subscribed" as const,
      idHash,
      planId,
      subscriber,
      maxOverage: 5_000_000n,
      paidThroughSec: START_SEC + 30 * DAY,
    },
  ],
  { name: "Debited", idHash, amount: 3_900_000n, index: 0n },
  { name: "Debited", idHash, amount: 200_000n, index: 1n },
  { name: "Debited", idHash, amount: 900_000n, index: 2n },
  { name: "MaxOverageSet", idHash, cap: 8_000_000n },
  { name: "Renewed", idHash, paidThroughSec: START_SEC + 60 * DAY },
  { name: "Paused", idHash },
  { name: "Resumed", idHash, charged: 0n, paidThroughSec: START_SEC + 60 * DAY },
  {
    name: "PlanChanged" as const,
    idHash,
    newPlanId: larger,
    maxOverage: 8_000_000n,
    charged: 15_000_000n,
    paidThroughSec: START_SEC + 61 * DAY,
  },
  { name: "NextSet", idHash, untilSec: START_SEC + 400 * DAY, nextPlanId: planId },
  { name: "Rekeyed", idHash, newIdHash },
  { name: "Cancelled", idHash: newIdHash, atPeriodEnd: true, by: subscriber },
  {
    name: "PayToProposed" as const,
    planId: larger,
    payTo: address("treasury"),
    by: provider,
    effectiveAtSec: START_SEC + 7 * DAY,
  },
  { name: "PayToMoved", planId: larger, payTo: address("treasury") },
  { name: "PlanClosed", planId, successor: larger },
  { name: "PlanTransferred", planId, provider: address("next provider") },
  { name: "PlanEnded", planId },
];

const payment = (name: string): PaymentRow => ({
  chain_id: CHAIN_ID,
  payment_id: hash(name),
  door: "authorize",
  resource_hash: hash("resource"),
  resource_shown: "https://api.example/report",
  token,
  payer: subscriber,
  pay_to: provider,
  amount: "250000",
  nonce: hash(`${name} nonce`),
  valid_after: 0,
  valid_before: START_SEC + 600,
  signature: "0x",
  has_code: false,
  method: "eip3009",
  permitted: null,
  sender: null,
  token_permit: null,
  state: "sent",
  fail_code: null,
  fail_reason: null,
  is_reversed: false,
  attempts: 0,
  accepted_at_ms: 0,
  accepted_block: 1,
  transaction_id: null,
  tx_hash: null,
  block_number: null,
  block_hash: null,
  block_time: null,
  log_index: null,
});

const refund = (name: string): PaymentRow => ({
  ...payment(name),
  door: "refund",
  resource_shown: "",
  payer: provider,
  pay_to: subscriber,
  amount: "100000",
});

const refundRecord = (name: string): RefundRecord => ({
  payment_id: hash(name),
  refunded_id: hash("payment"),
  kind: "payment",
  provider,
  payer: subscriber,
  refund_index: name === "refund" ? 0 : 1,
  paid: "250000",
  others: "0",
  plan_id: null,
  id_hash: null,
});

/** @returns bodies by type: of several the first */
export function webhookExamples(): ReadonlyMap<WebhookEventType, string> {
  const state = emptyState();
  const payments = new RowSet<PaymentRow>();
  for (const name of ["payment", "late payment"]) payments.load(hash(name), payment(name));
  for (const name of ["refund", "late refund"]) payments.load(hash(name), refund(name));
  const refunds = new RefundRecords(["refund", "late refund"].map(refundRecord));
  const drafts: EventDraft[] = [];
  let blockNumber = 40_000_000;
  const apply = (facts: readonly ChainFact[], expired: readonly Hex[] = []): void => {
    blockNumber += 1;
    const block = {
      number: blockNumber,
      hash: hash(`block ${blockNumber}`),
      parentHash: hash(`block ${blockNumber - 1}`),
      timestampSec: START_SEC + (blockNumber - 40_000_001) * 60,
      baseFeeWei: 0n,
      transactions: [],
    };
    const input = { chainId: CHAIN_ID, block, facts, expired };
    drafts.push(...applyBlock(input, [paymentRules(input, { payments, refunds }), turnpikeRules(input, state)]));
  };
  const at = (name: string) => ({ transaction: hash(name), logIndex: 7 });
  for (const [place, event] of HISTORY.entries()) apply([{ kind: "turnpike", event, ...at(`transaction ${place}`) }]);
  const transfer = { to: provider, amount: 250_000n, logIndex: 8 };
  apply([{ kind: "authorizationUsed", paymentId: hash("payment"), token, transfer, ...at("settlement") }]);
  apply([], [hash("late payment")]);
  const back = { to: subscriber, amount: 100_000n, logIndex: 8 };
  apply([{ kind: "authorizationUsed", paymentId: hash("refund"), token, transfer: back, ...at("refund") }]);
  apply([], [hash("late refund")]);

  const settled = payments.get(hash("payment")) as PaymentRow;
  const reversed = { ...settled, state: "sent" as const, tx_hash: null, block_number: null, block_time: null };
  const more = { status: "reversed", reversedTransaction: settled.tx_hash };
  const reversal = { objectId: hash("payment"), payload: { ...paymentPayload(reversed), ...more } };
  drafts.push(clockEvent("payment.reversed", START_SEC + 1_000, reversal));
  const restored = { objectId: hash("payment"), payload: paymentPayload(settled) };
  drafts.push(clockEvent("payment.restored", START_SEC + 1_001, restored));

  const refunded = payments.get(hash("refund")) as PaymentRow;
  const pending = { ...refunded, state: "sent" as const, tx_hash: null, block_number: null, block_time: null };
  const unrefunded = new RefundRecords([refundRecord("refund")]);
  const { payload, ...undone } = transferEvent(pending, "reversed", unrefunded);
  const unrefunding = { ...undone, payload: { ...payload, status: "reversed", reversedTransaction: refunded.tx_hash } };
  drafts.push(clockEvent("refund.reversed", START_SEC + 1_002, unrefunding));
  const again = transferEvent(refunded, "restored", refunds);
  drafts.push(clockEvent("refund.restored", START_SEC + 1_003, again));

  const row = state.subscriptions.get(newIdHash);
  const terms = state.plans.get(larger);
  if (!row || !terms) throw new TypeError("the history lacks its subscription");
  const due = { ...row, ending: false };
  const dueSec = row.paid_through;
  const emit = (type: WebhookEventType, atSec: number, beside: Record<string, unknown> = {}) =>
    drafts.push(
      clockEvent(type, atSec, {
        objectId: newIdHash,
        payload: { ...subscriptionPayload(due, terms, state.allowances.get(newIdHash), atSec), ...beside },
      }),
    );
  const charge = { charge: "10000000" };
  const needs = { renewals: 1, required: "10000000", balance: "4000000", approval: "100000000" };
  const lacks = { missingFunds: "6000000", missingApproval: "0" };
  emit("subscription.renewal_at_risk", dueSec - 3 * DAY, {
    dueAt: dueSec,
    horizonSec: 3 * DAY,
    ...charge,
    ...needs,
    ...lacks,
  });
  const failure = { reason: "InsufficientFunds", attempt: 1, nextAttemptAt: dueSec + 3_600, ...charge };
  emit("subscription.renewal_failed", dueSec, failure);
  emit("subscription.past_due", dueSec + 3 * DAY, charge);
  emit("subscription.expired", dueSec + 30 * DAY, charge);

  const sum = { token, decimals: 6, kind: "renewal", count: 1, gross: "10000000", refunded: "0", net: "10000000" };
  const range = { from: START_SEC + 59 * DAY - (START_SEC % DAY), to: START_SEC + 60 * DAY - (START_SEC % DAY) };
  const risk = { token, count: 1, amount: "10000000", firstAt: dueSec };
  const endpoint = { id: "we_0123456789abcdef01234567", description: "billing", status: "enabled", failures: 3 };
  const matters = { pastDue: [], atRisk: [risk], stuck: [], endpoints: [endpoint] };
  const digest = { provider, ...range, totals: [sum], ...matters };
  drafts.push(clockEvent("digest.daily", range.to + 900, { objectId: hash("digests"), payload: digest }));

  const bodies = new Map<WebhookEventType, string>();
  const sequences = new Map<string, number>();
  for (const draft of drafts) {
    const sequence = (sequences.get(draft.objectId) ?? 0) + 1;
    sequences.set(draft.objectId, sequence);
    const { id, type, objectId: object_id, blockTime: block_time, payload } = draft;
    const event = { id, type, object_id, sequence, block_time, transaction: draft.transaction ?? null };
    const body = bodyOf({ ...event, payload: { ...payload } }, NETWORK);
    if (!bodies.has(type as WebhookEventType)) bodies.set(type as WebhookEventType, body);
  }
  return bodies;
}

const clockEvent = (type: WebhookEventType, blockTime: number, rest: Pick<EventDraft, "objectId" | "payload">) => ({
  id: hash(`${type} event`),
  chainId: CHAIN_ID,
  type,
  provider,
  payer: subscriber,
  blockTime,
  ...rest,
});
