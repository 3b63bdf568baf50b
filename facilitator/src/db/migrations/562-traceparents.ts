/** The request that accepted a payment, so that the process that sends the payment continues its trace. */
import type { Migration } from "./migration";

export const traceparents: Migration = {
  id: "562-traceparents",
  statements: [
    "alter table payments add column traceparent text",
    "alter table payments alter column traceparent set statistics 20",
  ],
};
