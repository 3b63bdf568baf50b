/** Adds the providers' data: API keys, webhook endpoints with their outbox, debits, and the audit log. */
import type { Migration } from "./migration";

export const providers: Migration = {
  id: "110-providers",
  statements: [
    `create table service_secrets (name text primary key, value text not null)`,
    `create table api_keys (
      id text primary key, chain_id bigint not null, provider text not null, name text not null, scopes text not null,
      hash text not null, created_at_ms bigint not null, expires_at_ms bigint not null, revoked_at_ms bigint,
      rotated_from text, last_used_at_ms bigint)`,
    `create index api_keys_provider on api_keys (chain_id, provider)`,
    `create table spent_challenges (nonce text primary key, expires_at_ms bigint not null)`,
    `create table webhook_endpoints (
      id text primary key, chain_id bigint not null, provider text not null, url text not null, types jsonb,
      description text not null, status text not null, disabled_reason text, failures int not null default 0,
      created_at_ms bigint not null)`,
    `create index webhook_endpoints_provider on webhook_endpoints (chain_id, provider)`,
    `create table webhook_secrets (
      endpoint_id text not null references webhook_endpoints (id) on delete cascade, secret text not null,
      created_at_ms bigint not null, expires_at_ms bigint, primary key (endpoint_id, secret))`,
    `create table webhook_deliveries (
      seq bigserial not null, chain_id bigint not null,
      endpoint_id text not null references webhook_endpoints (id) on delete cascade, event_id text not null, body text,
      state text not null default 'pending', step int not null default 0, attempts int not null default 0,
      due_at_ms bigint not null, lease_until_ms bigint not null default 0, created_at_ms bigint not null,
      finished_at_ms bigint, primary key (endpoint_id, event_id))`,
    `create index webhook_deliveries_due on webhook_deliveries (endpoint_id, due_at_ms, seq) where state = 'pending'`,
    `create index webhook_deliveries_next on webhook_deliveries (chain_id, due_at_ms) where state = 'pending'`,
    `create index webhook_deliveries_list on webhook_deliveries (endpoint_id, seq)`,
    `create table webhook_attempts (
      endpoint_id text not null, event_id text not null, number int not null, at_ms bigint not null,
      duration_ms bigint not null, status_code int, error text, primary key (endpoint_id, event_id, number),
      foreign key (endpoint_id, event_id) references webhook_deliveries (endpoint_id, event_id) on delete cascade)`,
    `create table debit_requests (
      chain_id bigint not null, id_hash text not null, debit_index bigint not null, attempt int not null,
      amount numeric(78,0) not null, provider text not null, transaction_id text, closed_code text,
      accepted_at_ms bigint not null, primary key (chain_id, id_hash, debit_index, attempt))`,
    `create index debit_requests_provider on debit_requests (chain_id, provider, accepted_at_ms)`,
    `create table audit_log (
      seq bigserial primary key, chain_id bigint not null, at_ms bigint not null, provider text not null,
      actor text not null, act text not null, object_id text not null, address text not null, request_id text,
      details jsonb not null)`,
    `create index audit_log_provider on audit_log (chain_id, provider, seq)`,
  ],
};
