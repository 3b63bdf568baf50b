/** Stores the events of a large block with its rows; they are published in the next transaction. */
import type { Migration } from "./migration";

export const stagedEvents: Migration = {
  id: "408-staged-events",
  statements: [
    `create table staged_events (
      chain_id bigint not null, place bigserial not null, drafts text not null, primary key (chain_id, place))`,
    // A megabyte that is stored for a tenth of a second is not worth compressing.
    "alter table staged_events alter column drafts set storage external",
  ],
};
