/** Wire bodies about the Facilitator itself: what it supports, its health, its events. */
import * as z from "zod";
import { addressSchema, hash32Schema, networkOfChain, Unavailable } from "../protocol";
import { aNumber, fieldsOf } from "../protocol/arguments";

/** What a Facilitator settles on one chain, and with which contracts and keys. */
const chainFields = {
  network: z.string().max(64),
  chainId: z.number().int().positive(),
  turnpike: addressSchema,
  batchSettler: addressSchema,
  /** whose signature on a proof counts for any payment: the current signer first, then the next one and former ones */
  proofSigners: z.array(addressSchema).min(1),
  /** whose signature counts for payments that settled before `until`, unix seconds of the chain */
  retiredProofSigners: z.array(z.object({ address: addressSchema, until: z.number().int().nonnegative() })).optional(),
  /** who submits transactions */
  relayers: z.array(addressSchema),
  /** how `exact` payments may move their money; absent: by the token's EIP-3009 alone */
  transferMethods: z.array(z.string().max(64)).optional(),
  tokens: z.array(
    z.object({
      address: addressSchema,
      /** of the token's EIP-712 domain */
      name: z.string().max(128),
      version: z.string().max(32),
      decimals: z.number().int().min(0).max(77),
      /** base units; a smaller payment is refused, but for the charge 0 of an `upto` payment */
      minAmount: z
        .string()
        .regex(/^[0-9]{1,78}$/)
        .optional(),
    }),
  ),
};

export const supportedChainSchema = z.object(chainFields);

export type SupportedChain = z.output<typeof supportedChainSchema>;

export type SupportedChainWire = z.input<typeof supportedChainSchema>;

export const supportedSchema = z.object({
  /** as stock x402 clients read them, versions 1 and 2 mixed */
  kinds: z.array(
    z.object({
      x402Version: z.number().int().positive(),
      scheme: z.string().max(64),
      network: z.string().max(64),
      extra: z.record(z.string(), z.unknown()).optional(),
    }),
  ),
  extensions: z.array(z.string()),
  /** relayer addresses by CAIP-2 pattern, as x402 version 2 lists them */
  signers: z.record(z.string(), z.array(z.string())),
  ...chainFields,
  /** whether `/settle` signs to which purchase a payment was granted; gates of this project settle with no other */
  paymentGrants: z.boolean().optional(),
  /** whether `/verify` reserves a payment's amount for a purchase, so that a gate may serve before it settles */
  reservations: z.boolean().optional(),
  /** of a Facilitator on several chains: the same facts for each; those above are of the first, or of `?network=` */
  chains: z.array(supportedChainSchema).optional(),
});

export type Supported = z.output<typeof supportedSchema>;

/**
 * Narrows an answer about several chains to one of them, with the contracts, keys and tokens of that chain.
 * @throws Unavailable with the reason `network` where that chain is not among those that are up
 */
export function supportedOn(supported: Supported, chainId: number): Supported {
  fieldsOf(supported, "supported");
  aNumber(chainId, "chainId");
  const chains = supported.chains ?? [supported];
  const own = chains.find((chain) => chain.chainId === chainId);
  if (own) return { ...supported, ...own };
  const names = chains.map(({ network }) => network).join(", ");
  throw new Unavailable(
    `The Facilitator does not serve ${networkOfChain(chainId).name} now: it lists ${names}. Check the Facilitator's URL and the network, or try again when that chain is up.`,
    { reason: "network" },
  );
}

export type SupportedWire = z.input<typeof supportedSchema>;

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
      inFlight: z.number().int(),
      queued: z.number().int(),
      oldestPendingSec: z.number().int(),
    }),
  ),
  payments: z.object({ queued: z.number().int(), oldestQueuedSec: z.number().int() }),
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
