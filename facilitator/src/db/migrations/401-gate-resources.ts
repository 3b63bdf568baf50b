/** Routes of a provider that are counted separately; their number is limited. */
import type { Migration } from "./migration";

export const gateResources: Migration = {
  id: "401-gate-resources",
  statements: [
    `create table gate_resources (
      chain_id bigint not null, provider text not null, resource text not null,
      primary key (chain_id, provider, resource))`,
  ],
};
