/** Indexes signed acts by what they are about: a request of a chain that is served no more finds them. */
import type { Migration } from "./migration";

export const actsByObject: Migration = {
  id: "580-acts-by-object",
  statements: [`create index signed_acts_object on signed_acts (chain_id, object_id)`],
};
