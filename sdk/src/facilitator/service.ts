import * as z from "zod";
import { addressSchema, hash32Schema } from "../protocol";

export const eventSchema = z.object({
  /** a hash of chain facts: the same after the database was rebuilt */
  id: z.string().max(128),
  type: z.string().max(64),
  /** block time, unix seconds */
  occurredAt: z.number().int().nonnegative(),
  /** its chain; older Facilitators leave it out */
  network: z.string().max(64).optional(),
  /** what it is about: a paymentId, idHash or planId */
  subject: hash32Schema,
  /** counts the events of one subject, from 1 */
  sequence: z.number().int().positive(),
  /** absent for what the mere passing of time brought about */
  transaction: hash32Schema.optional(),
  /** its block was reorganised away: it did not happen after all */
  reverted: z.boolean(),
  /** the subject's full state after the event */
  data: z.record(z.string(), z.unknown()),
});

export type FacilitatorEvent = z.output<typeof eventSchema>;

export const eventListSchema = z.object({
  events: z.array(eventSchema).max(200),
  /** pass as `cursor` for what follows, also when nothing follows yet */
  next: z.string().max(128),
});

export type EventList = z.output<typeof eventListSchema>;

export const healthSchema = z.object({ status: z.literal("ok") });

export const readinessSchema = z.object({
  ready: z.boolean(),
  checks: z.array(
    z.object({
      name: z.string().max(128),
      ok: z.boolean(),
      /** what is seen, safe for anyone to read */
      detail: z.string().max(256),
    }),
  ),
});

export type Readiness = z.output<typeof readinessSchema>;

/** The service from inside, for its operators. */
export const systemSchema = readinessSchema.extend({
  chain: z.object({
    /** newest block that a node reported; absent before the first */
    head: z.number().int().optional(),
    /** seconds since a node last answered */
    silentSec: z.number().int(),
    /** newest block whose events are in the database */
    applied: z.number().int(),
    /** blocks that the reader keeps behind the head on purpose */
    confirmations: z.number().int(),
    /** how many nodes are configured */
    nodes: z.number().int(),
  }),
  /** as this process sees them, in the order of RPC_URLS */
  rpcNodes: z.array(
    z.object({
      /** in RPC_URLS, from 1 */
      position: z.number().int().positive(),
      /** and port; the rest of the URL may be a key and is never shown */
      host: z.string().max(256),
      status: z.enum(["unknown", "well", "failing", "wrong_chain"]),
      /** newest block when it was last asked for it */
      head: z.number().int().optional(),
      /** blocks behind the furthest of the nodes */
      behind: z.number().int().optional(),
      /** of its last answer */
      latencyMs: z.number().int().optional(),
      /** seconds since it last answered; absent before the first time */
      answeredSec: z.number().int().optional(),
      /** why it last gave no answer, e.g. `timeout`, `http_429`, `econnrefused`; stays when it is well again */
      lastFault: z.object({ code: z.string().max(64), agoSec: z.number().int() }).optional(),
    }),
  ),
  lanes: z.array(
    z.object({
      address: addressSchema,
      status: z.enum(["starting", "standby", "running", "stopped"]),
      isWell: z.boolean(),
      reason: z.string().max(256).optional(),
      balanceWei: z.string().optional(),
      /** how long the balance lasts, as all lanes together spent in the last day; absent where they spent nothing */
      daysLeft: z.number().int().nonnegative().optional(),
      inFlight: z.number().int(),
      queued: z.number().int(),
      oldestPendingSec: z.number().int(),
    }),
  ),
  payments: z.object({ queued: z.number().int(), oldestQueuedSec: z.number().int() }),
  /** what the last `reconcile` of this chain found; absent before the first */
  reconciled: z
    .object({
      ageSec: z.number().int(),
      differences: z.number().int(),
      /** the first of them, as it named them */
      first: z.array(z.string().max(512)).optional(),
    })
    .optional(),
  renewalsDue: z.number().int(),
  /** claimed, and waiting for the chain */
  renewalsUnderWay: z.number().int(),
  /** when the next one falls due or is tried again, unix seconds; absent where nothing waits */
  nextRenewalAt: z.number().int().optional(),
  /**
   * the time up to which subscribers with insufficient funds have been warned, unix seconds of the chain; absent before
   * the first check
   */
  warnedUntil: z.number().int().optional(),
  webhooksPending: z.number().int(),
  /** of the last 24 hours by the clock of this machine */
  costs: z.array(
    z.object({
      purpose: z.string().max(64),
      transactions: z.number().int(),
      gas: z.number(),
      wei: z.number(),
      /** hundredths of a token; absent without NATIVE_PRICE */
      cents: z.number().optional(),
    }),
  ),
});

export type System = z.output<typeof systemSchema>;

/** Only of a service that runs as a sandbox, whose clock can be moved. */
export const testClockSchema = z.object({
  /** of the chain, unix seconds */
  now: z.number().int(),
  /** the time that it is advancing to; absent while it is still */
  target: z.number().int().optional(),
  /** absent where nothing renews */
  nextRenewalAt: z.number().int().optional(),
  /** why the last run ended early */
  problem: z.string().max(256).optional(),
  /** where the webhooks arrive that the sandbox receives */
  inboxUrl: z.string().max(256).optional(),
});

export type TestClockState = z.output<typeof testClockSchema>;
