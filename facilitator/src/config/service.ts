import { z } from "zod";
import { ROLES } from "./roles";
import { flag, list, optional, setting, whole } from "./setting";

const LOG_LEVELS = ["silent", "error", "warn", "info", "debug"] as const;

export const SERVICE = {
  roles: setting({
    env: "ROLES",
    about:
      "What this process does, comma-separated: api, relayer, renewals, indexer, webhooks. Several processes may share a role; the embedded database needs all in one.",
    fallback: ROLES.join(","),
    danger: "A role that no process has is work that nobody does.",
    schema: z
      .string()
      .transform(list)
      .pipe(
        z.array(z.enum(ROLES, { error: `must name roles of ${ROLES.join(", ")}` })).min(1, "must name at least one"),
      ),
  }),
  actsPerHour: setting({
    env: "ACTS_PER_HOUR",
    about:
      "Signed acts (signups, changes, permits) that are submitted for one account within an hour. The first immediate cancel of a subscription is not limited.",
    fallback: "60",
    danger: "Acts cost the relayer gas and the account nothing.",
    schema: whole(1, 100_000),
  }),
  requestsPerMinute: setting({
    env: "REQUESTS_PER_MINUTE",
    about: "POST requests from one address within a minute; 0 for no limit.",
    fallback: "0",
    danger: "Behind a proxy every client has the proxy's address: limit there instead.",
    schema: whole(0, 10_000_000),
  }),
  maxConnections: setting({
    env: "MAX_CONNECTIONS",
    about:
      "Connections that clients may have open. Past that, a new one takes the place of the one that has been idle or slow for longest, or gets 503.",
    fallback: "10000",
    danger:
      "Each needs an open file: allow the process twice as many (`ulimit -n`), or clients are cut off unanswered.",
    schema: whole(1, 1_000_000),
  }),
  renewals: setting({
    env: "RENEWALS",
    about: "Whether a process with the role renewals collects what falls due.",
    fallback: "true",
    danger: "If no process does, subscriptions lapse at the end of their grace.",
    schema: flag,
  }),
  renewalBatch: setting({
    env: "RENEWAL_BATCH",
    about: "Renewals in one transaction, at most.",
    fallback: "200",
    schema: whole(1, 400),
  }),
  nativePrice: optional({
    env: "NATIVE_PRICE",
    about:
      "Price of the chain's native coin in whole tokens, e.g. 3000 or 2950.75: costs are shown in token cents then.",
    danger: "Shown, never acted upon; an old price shows old costs.",
    schema: z
      .string()
      .regex(/^[0-9]{1,9}([.][0-9]{1,9})?$/, "must be a decimal number")
      .transform(Number),
  }),
  host: setting({ env: "HOST", about: "Address to listen on.", fallback: "127.0.0.1", schema: z.string().min(1) }),
  port: setting({
    env: "PORT",
    about: "Port to listen on; 0 picks a free one.",
    fallback: "8402",
    schema: whole(0, 65_535),
  }),
  metricsPort: setting({
    env: "METRICS_PORT",
    about: "Port that serves GET /metrics alone; 0 picks a free one. `public`: PORT serves it too.",
    fallback: "9464",
    danger: "Each process on a machine needs its own. With `public` everyone who reaches the API reads the metrics.",
    schema: z.union([z.literal("public").transform(() => undefined), whole(0, 65_535)], {
      error: "must be a port, or public",
    }),
  }),
  metricsHost: setting({
    env: "METRICS_HOST",
    about: "Address to listen on for METRICS_PORT.",
    fallback: "127.0.0.1",
    danger: "The metrics need no key. They show amounts of work and keys' balances: keep them inside your network.",
    schema: z.string().min(1),
  }),
  logLevel: setting({
    env: "LOG_LEVEL",
    about: "silent, error, warn, info or debug.",
    fallback: "info",
    schema: z.enum(LOG_LEVELS, { error: `must be one of ${LOG_LEVELS.join(", ")}` }),
  }),
} as const;
