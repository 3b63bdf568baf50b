/** Records which transaction carries which signed act, so that a repeated request finds it. */
import type { Migration } from "./migration";

export const signedActs: Migration = {
  id: "100-signed-acts",
  statements: [
    `create table signed_acts (
      chain_id bigint not null, act_key text not null, attempt int not null, act text not null, object_id text not null,
      signer text not null, transaction_id text not null, accepted_at bigint not null,
      primary key (chain_id, act_key, attempt))`,
    `create index signed_acts_signer on signed_acts (chain_id, signer, accepted_at)`,
  ],
};
