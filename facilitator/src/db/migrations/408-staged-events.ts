/** Events of a block that tells very many, stored with its rows and told in the transaction after it. */
import type { Migration } from "./migration";

export const stagedEvents: Migration = {
  id: "408-staged-events",
  statements: [
    `create table staged_events (
      chain_id bigint not null, place bigserial not null, drafts text not null, primary key (chain_id, place))`,
    // A megabyte that stands for a tenth of a second is not worth compressing.
    "alter table staged_events alter column drafts set storage external",
  ],
};
