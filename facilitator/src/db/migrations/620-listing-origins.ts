/** Stores the address that a listing came from: those of one address that wait for their first check are limited. */
import type { Migration } from "./migration";

export const listingOrigins: Migration = {
  id: "620-listing-origins",
  statements: [
    `alter table listings add column created_from text`,
    `create index listings_unchecked on listings (chain_id, created_from) where checked_at_ms is null`,
  ],
};
