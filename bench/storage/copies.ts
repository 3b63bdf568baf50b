/**
 * Copies the rows of real payments under other ids. A copy passes through the states of a real payment: each update
 * leaves a dead row version and new index entries, which are part of what a payment takes.
 */
import type { Client } from "pg";

/** An id of the same length as the original, different for each copy `$1`. */
const other = (column: string): string => `'0x' || encode(sha256(convert_to($1 || ${column}, 'UTF8')), 'hex')`;

/** The same for a column of bytes: an id has the same copy in both forms. */
const otherBytes = (column: string): string => `sha256(convert_to($1 || '0x' || encode(${column}, 'hex'), 'UTF8'))`;

const otherUuid = (column: string): string => `md5($1 || ${column})::uuid::text`;

/** Copies are older than the originals: each is an hour of its own, `$2` hours ago. Later copies are newer. */
const atMs = (column: string): string => `${column} - $2::bigint * 3600000`;

const block = (column: string): string => `${column} - $2::bigint * 1000`;

const STEPS: readonly string[] = [
  `insert into transactions (id, chain_id, purpose, idempotency_key, to_address, data, gas_limit, status, created_at_ms,
    sender, key, nonce, epoch, stored_at_ms, hash)
  select ${otherUuid("t.id")}, t.chain_id, t.purpose, 'settle/' || ${otherUuid("t.id")}, t.to_address, t.data, t.gas_limit, 'stored',
    ${atMs("t.created_at_ms")}, t.sender, t.key, t.nonce - $2::bigint * 100000, t.epoch, ${atMs("t.stored_at_ms")}, ${other("t.hash")}
  from bench_transactions t order by t.seq`,
  `insert into transaction_hashes
  select ${other("h.hash")}, h.chain_id, ${otherUuid("h.transaction_id")}, h.raw, h.max_fee_wei, h.priority_fee_wei,
    ${atMs("h.signed_at_ms")}
  from bench_hashes h`,
  `insert into payments (chain_id, payment_id, door, resource_hash, resource_shown, token, payer, pay_to, amount, nonce,
    valid_after, valid_before, signature, method, has_code, state, attempts, transaction_id, accepted_at_ms, accepted_block)
  select p.chain_id, ${other("p.payment_id")}, p.door, p.resource_hash, p.resource_shown, p.token, p.payer, p.pay_to, p.amount,
    ${otherBytes("p.nonce")}, p.valid_after, p.valid_before, p.signature, p.method, p.has_code, 'sent', p.attempts,
    ${otherUuid("p.transaction_id")}, ${atMs("p.accepted_at_ms")}, ${block("p.accepted_block")}
  from bench_payments p order by p.accepted_at_ms`,
  `insert into payment_grants (chain_id, payment_id, grant_id, is_gate, held_until_ms)
  select g.chain_id, ${otherBytes("g.payment_id")}, ${otherBytes("g.grant_id")}, g.is_gate, g.held_until_ms from bench_grants g`,
  `update payments p set state = 'settled', tx_hash = ${otherBytes("o.tx_hash")}, block_number = ${block("o.block_number")},
    block_hash = ${otherBytes("o.block_hash")}, block_time = o.block_time, log_index = o.log_index,
    settled_at_ms = ${atMs("o.settled_at_ms")}
  from bench_payments o where p.chain_id = o.chain_id and p.payment_id = ${other("o.payment_id")}`,
  `update transactions t set status = 'mined', block_number = ${block("o.block_number")}, block_hash = ${other("o.block_hash")},
    success = true, gas_used = o.gas_used, gas_price_wei = o.gas_price_wei
  from bench_transactions o where t.id = ${otherUuid("o.id")}`,
  `insert into events (id, chain_id, type, object_id, sequence, provider, payer, payload, block_number, block_hash, log_index,
    block_time, transaction)
  select ${other("e.id")}, e.chain_id, e.type, ${other("e.object_id")}, e.sequence, e.provider, e.payer,
    e.payload,
    ${block("e.block_number")}, ${other("e.block_hash")}, e.log_index, e.block_time, ${other("e.transaction")}
  from bench_events e order by e.seq`,
  `update payment_grants g set granted_at_ms = o.granted_at_ms
  from bench_grants o where g.chain_id = o.chain_id and g.payment_id = ${otherBytes("o.payment_id")}`,
  `insert into webhook_deliveries (chain_id, endpoint_id, event_id, due_at_ms, created_at_ms)
  select d.chain_id, d.endpoint_id, ${other("d.event_id")}, ${atMs("d.due_at_ms")}, ${atMs("d.created_at_ms")}
  from bench_deliveries d order by d.seq`,
  `update webhook_deliveries d set lease_until_ms = d.due_at_ms + 30000
  from bench_deliveries o where d.endpoint_id = o.endpoint_id and d.event_id = ${other("o.event_id")}`,
  `update webhook_deliveries d set state = o.state, attempts = o.attempts, lease_until_ms = 0,
    finished_at_ms = ${atMs("o.finished_at_ms")}
  from bench_deliveries o where d.endpoint_id = o.endpoint_id and d.event_id = ${other("o.event_id")}`,
  `insert into webhook_attempts
  select a.endpoint_id, ${other("a.event_id")}, a.number, a.at_ms, a.duration_ms, a.status_code, a.error from bench_attempts a`,
  `update transactions t set is_final = true from bench_transactions o where t.id = ${otherUuid("o.id")}`,
];

/** Autovacuum runs when a fifth of a table's rows have changed. */
const VACUUM_SHARE = 0.2;

export async function keepOriginals(client: Client): Promise<number> {
  for (const [copy, table] of [
    ["bench_payments", "payments where state = 'settled'"],
    ["bench_grants", "payment_grants"],
    ["bench_events", "events"],
    ["bench_transactions", "transactions where status = 'mined'"],
    ["bench_hashes", "transaction_hashes"],
    ["bench_deliveries", "webhook_deliveries"],
    ["bench_attempts", "webhook_attempts"],
  ]) {
    await client.query(`create table ${copy} as select * from ${table}`);
    await client.query(`analyze ${copy}`);
  }
  const { rows } = await client.query<{ count: string }>("select count(*) from bench_payments");
  return Number(rows[0]?.count);
}

/** Copies until there are about `wanted` payments. */
export async function copyPayments(client: Client, originals: number, wanted: number): Promise<void> {
  const copies = Math.floor(wanted / originals) - 1;
  for (let copy = 1, unvacuumed = 0; copy <= copies; copy++, unvacuumed += originals) {
    await client.query("begin");
    for (const step of STEPS) await client.query(step, [...paramsOf(step, copy, 1 + copies - copy)]);
    await client.query("commit");
    if (unvacuumed < VACUUM_SHARE * originals * copy) continue;
    await client.query("vacuum analyze");
    unvacuumed = 0;
  }
}

function* paramsOf(step: string, copy: number, hoursAgo: number): Generator<string> {
  yield String(copy);
  if (step.includes("$2")) yield String(hoursAgo);
}
