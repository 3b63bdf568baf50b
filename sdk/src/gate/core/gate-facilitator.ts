/** Makes a gate's calls to its Facilitator, each with its own time limit. */
/** Makes a gate's calls to its Facilitator, each with its own time limit. */
import { setTimeout as sleep } from "node:timers/promises";
import { createFacilitatorClient, type FacilitatorClient } from "../../facilitator/client";
import { supportedOn } from "../../facilitator/supported";
import type { FetchLike } from "../../facilitator/transport";
import { type Address, ConfigError, caip2Of, Unavailable } from "../../protocol";
import { facilitatorSpanName, type Tracing } from "../../protocol/tracing";
import { Deadline } from "../../protocol/waiting";
import type { ProviderOptions } from "./options";
import type { Settings } from "./settings";

/** Returns the gate's Facilitator, opened with the first call: a gate that sells only plans may have none. */
export function lazyFacilitator(
  settings: Settings,
  options: ProviderOptions,
  tracing: Tracing | undefined,
): GateFacilitator {
  let opened: GateFacilitator | undefined;
  const open = (): GateFacilitator => {
    opened ??= openFacilitator(settings, options, tracing);
    return opened;
  };
  return {
    verifyProof: (...args) => open().verifyProof(...args),
    x402Verify: (...args) => open().x402Verify(...args),
    x402Settle: (...args) => open().x402Settle(...args),
    releasePayment: (...args) => open().releasePayment(...args),
    refundPayment: (...args) => open().refundPayment(...args),
    signsGrants: () => open().signsGrants(),
    reserves: async () => open().reserves(),
    knownToReserve: () => opened?.knownToReserve() ?? false,
    proofSigners: () => open().proofSigners(),
    supported: async () => open().supported(),
    payment: (...args) => open().payment(...args),
    subscriptionsOf: (...args) => open().subscriptionsOf(...args),
  };
}

/** @throws ConfigError when none is configured */
function openFacilitator(
  { facilitator, facilitatorWaitMs, network: { chainId } }: Settings,
  { fetch }: ProviderOptions,
  tracing: Tracing | undefined,
): GateFacilitator {
  if (!facilitator) throw new ConfigError("facilitator is not set (TURNPIKE_FACILITATOR_URL)");
  const { url, refundsKey } = facilitator;
  return createGateFacilitator({ url, chainId, refundsKey, waitMs: facilitatorWaitMs, fetch, tracing });
}

export interface GateFacilitator
  extends Pick<
    FacilitatorClient,
    | "verifyProof"
    | "x402Verify"
    | "x402Settle"
    | "releasePayment"
    | "refundPayment"
    | "payment"
    | "subscriptionsOf"
    | "supported"
  > {
  /** Returns whether it signs to which purchase a payment was granted. @throws Unavailable */
  signsGrants(): Promise<boolean>;
  /** Returns whether its verification reserves a payment's amount for a purchase. @throws Unavailable */
  reserves(): Promise<boolean>;
  /** Returns whether it is known to; asks nothing. */
  knownToReserve(): boolean;
  /** Returns the signers of its proofs, the current one first. @throws Unavailable */
  proofSigners(): Promise<readonly Address[]>;
}

export interface GateFacilitatorOptions {
  readonly url: string;
  /** of the gate: a Facilitator may settle on several chains */
  readonly chainId: number;
  /** how long the Facilitator may be silent */
  readonly waitMs: number;
  readonly fetch?: FetchLike | undefined;
  /** of calls that have a payment refunded */
  readonly refundsKey?: string | undefined;
  readonly tracing: Tracing | undefined;
}

/** An older Facilitator is asked again after this: it may be upgraded while the gate runs. */
const ASK_AGAIN_MS = 60_000;

/**
 * Makes the gate's calls to its Facilitator, each with its own bound. A call that moves no money ends after `waitMs`. A
 * settlement may wait for a block, so it ends early only when the Facilitator stops answering; its outcome is then
 * unknown, and the same payment can be presented again.
 */
function createGateFacilitator({
  url,
  chainId,
  waitMs,
  fetch: given,
  refundsKey,
  tracing,
}: GateFacilitatorOptions): GateFacilitator {
  const plain: FetchLike = given ?? ((input, init) => fetch(input, init));
  const send = tracing?.fetch(plain, facilitatorSpanName) ?? plain;
  const prompt = createFacilitatorClient({ url, fetch: send, timeoutMs: waitMs });
  const patient = createFacilitatorClient({ url, fetch: send });
  let asking: ReturnType<typeof prompt.supported> | undefined;
  /** All gates ask at their start: calls at one time share an answer. */
  const supported = async () => {
    asking ??= prompt.supported().finally(() => {
      asking = undefined;
    });
    return supportedOn(await asking, chainId);
  };
  const refunding = createFacilitatorClient({ url, fetch: send, ...(refundsKey && { apiKey: refundsKey }) });
  let signsGrants = false;
  let reserves = false;
  let reservesNotUntilMs = Number.NEGATIVE_INFINITY;
  return {
    async signsGrants() {
      signsGrants ||= (await supported()).paymentGrants === true;
      return signsGrants;
    },
    async reserves() {
      if (reserves || performance.now() < reservesNotUntilMs) return reserves;
      reserves = (await supported()).reservations === true;
      if (!reserves) reservesNotUntilMs = performance.now() + ASK_AGAIN_MS;
      return reserves;
    },
    knownToReserve: () => reserves,
    proofSigners: async () => (await supported()).proofSigners,
    supported,
    verifyProof: (...args) => prompt.verifyProof(...args),
    payment: (...args) => prompt.payment(...args),
    x402Verify: (...args) => prompt.x402Verify(...args),
    releasePayment: (...args) => prompt.releasePayment(...args),
    refundPayment: (...args) => refunding.refundPayment(...args),
    subscriptionsOf: (wallet, call) => prompt.subscriptionsOf(wallet, { network: caip2Of(chainId), ...call }),
    async x402Settle(request, { signal, trace } = {}) {
      const done = new AbortController();
      const silent = watchForSilence({ url, waitMs, send: plain, done: done.signal });
      try {
        return await patient.x402Settle(request, {
          signal: signal ? AbortSignal.any([signal, silent]) : silent,
          trace,
        });
      } finally {
        done.abort();
      }
    },
  };
}

interface Watch {
  readonly url: string;
  readonly waitMs: number;
  readonly send: FetchLike;
  readonly done: AbortSignal;
}

/** @returns a signal that aborts when a probe gets no answer of any kind */
function watchForSilence({ url, waitMs, send, done }: Watch): AbortSignal {
  const silent = new AbortController();
  const probe = async (): Promise<void> => {
    const deadline = new Deadline(waitMs, done);
    try {
      const response = await send(`${url}/healthz`, { method: "GET", redirect: "manual", signal: deadline.signal });
      await response.body?.cancel();
    } finally {
      deadline.end();
    }
  };
  const watch = async (): Promise<void> => {
    for (;;) {
      await sleep(waitMs, undefined, { signal: done, ref: false });
      await probe();
    }
  };
  watch().catch((cause: unknown) => {
    if (done.aborted) return;
    silent.abort(new Unavailable(`The Facilitator at ${url} does not answer; the outcome is unknown.`, { cause }));
  });
  return silent.signal;
}
