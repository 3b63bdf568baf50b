/** Which routes of a provider are counted apart: only so many are. */
import type { Migration } from "./migration";

export const gateResources: Migration = {
  id: "401-gate-resources",
  statements: [
    `create table gate_resources (
      chain_id bigint not null, provider text not null, resource text not null,
      primary key (chain_id, provider, resource))`,
  ],
};
