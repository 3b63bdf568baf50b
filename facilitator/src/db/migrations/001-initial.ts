/** The chain's rows, the relayer's rows, payments and events. */
import type { Migration } from "./migration";

const HASH = "text not null";

const AMOUNT = "numeric(78,0) not null";

export const initial: Migration = {
  id: "001-initial",
  statements: [
    `create table blocks (
      chain_id bigint not null, number bigint not null, hash ${HASH}, parent_hash ${HASH}, timestamp bigint not null,
      primary key (chain_id, number))`,
    `create table cursors (chain_id bigint not null, name text not null, position bigint not null,
      primary key (chain_id, name))`,
    `create table undo (
      chain_id bigint not null, block_number bigint not null, table_name text not null, row_key text not null,
      before jsonb, primary key (chain_id, block_number, table_name, row_key))`,
    `create table lanes (
      chain_id bigint not null, key text not null, lease_owner text not null, lease_epoch bigint not null,
      lease_until_ms bigint not null, next_nonce bigint not null, status text not null, reason text,
      primary key (chain_id, key))`,
    `create table transactions (
      seq bigserial primary key, id text not null unique, chain_id bigint not null, purpose text not null,
      idempotency_key text not null, to_address text not null, data text not null, gas_limit bigint not null,
      status text not null, created_at_ms bigint not null, key text, nonce bigint, epoch bigint, stored_at_ms bigint,
      hash text, block_number bigint, block_hash text, success boolean, gas_used bigint, gas_price_wei numeric(78,0),
      is_final boolean not null default false,
      unique (chain_id, idempotency_key), unique (chain_id, key, nonce))`,
    `create index transactions_open on transactions (chain_id, key, nonce) where not is_final`,
    `create index transactions_queued on transactions (chain_id, seq) where status = 'queued'`,
    `create table transaction_hashes (
      hash text primary key, chain_id bigint not null, transaction_id text not null references transactions (id),
      raw text not null, max_fee_wei ${AMOUNT}, priority_fee_wei ${AMOUNT}, signed_at_ms bigint not null)`,
    `create index transaction_hashes_of on transaction_hashes (transaction_id)`,
    `create table payments (
      chain_id bigint not null, payment_id ${HASH}, door text not null, resource_hash ${HASH},
      resource_shown text not null, token text not null, payer text not null, pay_to text not null, amount ${AMOUNT},
      nonce ${HASH}, valid_after bigint not null, valid_before bigint not null, signature text not null,
      has_code boolean not null, state text not null, fail_code text, fail_reason text, is_reversed boolean not null default false,
      attempts int not null default 0, accepted_at_ms bigint not null, accepted_block bigint not null,
      transaction_id text, tx_hash text, block_number bigint, block_hash text, block_time bigint, log_index bigint,
      primary key (chain_id, payment_id), unique (chain_id, block_hash, log_index))`,
    `create index payments_queued on payments (chain_id, accepted_at_ms) where state = 'queued'`,
    `create index payments_open on payments (chain_id, token, payer) where state in ('queued', 'sent')`,
    `create index payments_live on payments (chain_id, valid_before) where state in ('queued', 'sent', 'parked')`,
    `create index payments_sent on payments (transaction_id) where state = 'sent'`,
    `create index payments_payee on payments (chain_id, pay_to, block_time)`,
    `create table plans (
      chain_id bigint not null, plan_id ${HASH}, plan_index bigint not null, provider text not null, token text not null,
      amount ${AMOUNT}, interval_sec bigint not null, grace_sec bigint not null, pay_to text not null, salt ${HASH},
      metadata text not null, deprecated boolean not null, successor text, block_number bigint not null,
      created_at bigint not null, primary key (chain_id, plan_id))`,
    `create index plans_provider on plans (chain_id, provider)`,
    `create table operators (chain_id bigint not null, plan_id ${HASH}, operator text not null, allowed boolean not null,
      primary key (chain_id, plan_id, operator))`,
    `create table subscriptions (
      chain_id bigint not null, id_hash ${HASH}, subscriber text not null, plan_id ${HASH}, paid_through bigint not null,
      version int not null, paused boolean not null, ending boolean not null, cancelled boolean not null, moved_to text,
      block_number bigint not null, created_at bigint not null, transaction ${HASH}, primary key (chain_id, id_hash))`,
    `create index subscriptions_subscriber on subscriptions (chain_id, subscriber)`,
    `create index subscriptions_plan on subscriptions (chain_id, plan_id)`,
    `create table allowances (
      chain_id bigint not null, id_hash ${HASH}, cap ${AMOUNT}, spent ${AMOUNT}, cycle bigint not null,
      debits bigint not null, primary key (chain_id, id_hash))`,
    `create table debits (
      chain_id bigint not null, id_hash ${HASH}, debit_index bigint not null, amount ${AMOUNT}, transaction ${HASH},
      block_number bigint not null, block_time bigint not null, log_index bigint not null,
      primary key (chain_id, id_hash, debit_index))`,
    `create table events (
      seq bigserial primary key, id ${HASH}, chain_id bigint not null, type text not null, object_id ${HASH},
      sequence bigint not null, provider text, payer text, payload jsonb not null, block_number bigint, block_hash text,
      log_index bigint, block_time bigint not null, transaction text, reverted boolean not null default false,
      unique (chain_id, id))`,
    `create index events_object on events (chain_id, object_id, sequence)`,
    `create index events_block on events (chain_id, block_number)`,
    `create table renewal_due (
      chain_id bigint not null, id_hash ${HASH}, due_at bigint not null, paid_through bigint not null,
      attempts int not null default 0, lease_owner text, lease_until bigint not null default 0,
      primary key (chain_id, id_hash))`,
    `create index renewal_due_at on renewal_due (chain_id, due_at)`,
  ],
};
