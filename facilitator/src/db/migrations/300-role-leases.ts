/** Leases of roles for which one process is enough. */
import type { Migration } from "./migration";

export const roleLeases: Migration = {
  id: "300-role-leases",
  statements: [
    `create table role_leases (
      chain_id bigint not null, role text not null, owner text not null, until_ms bigint not null,
      primary key (chain_id, role))`,
  ],
};
