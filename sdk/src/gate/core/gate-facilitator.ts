/** Makes a gate's calls to its Facilitator, each with its own time limit. */
import { setTimeout as sleep } from "node:timers/promises";
import { createFacilitatorClient, type FacilitatorClient } from "../../facilitator/client";
import { supportedOn } from "../../facilitator/supported";
import type { FetchLike } from "../../facilitator/transport";
import { type Address, ConfigError, caip2Of, isTurnpikeError, type TurnpikeError, Unavailable } from "../../protocol";
import { Deadline, sharedCall } from "../../protocol/exchange";
import { facilitatorSpanName, type Tracing } from "../../protocol/tracing";
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
  /** All gates ask at their start: calls at one time share an answer. */
  const supported = sharedCall(waitMs, async () => supportedOn(await prompt.supported(), chainId));
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

export interface FacilitatorCheck {
  /**
   * Checks it now.
   * @throws ConfigError when the Facilitator signs with a key that is not pinned, Unavailable when it does not answer
   */
  check(): Promise<void>;
  /** Checks it once in the background, and logs what is wrong. */
  checkOnce(): void;
  /** Logs that a proof or a grant of an unpinned signer was refused; one line a minute at most. */
  refusedSigner(signer: Address): void;
}

export interface FacilitatorCheckOptions {
  readonly settings: Pick<Settings, "facilitator">;
  /** the Facilitator's current proof signer first */
  readonly proofSigners: () => Promise<readonly Address[]>;
  /** unix seconds, chain time */
  readonly nowSec: () => number;
}

const LOG_EVERY_MS = 60_000;

/** Returns what is wrong with an address where something else than a Facilitator answers; undefined in an outage. */
function noFacilitator(url: string, error: TurnpikeError): string | undefined {
  const { status } = error.details;
  if (typeof status !== "number" || status >= 500 || status === 429) return undefined;
  return `facilitator.url (TURNPIKE_FACILITATOR_URL) is ${url}, but GET ${url}/supported answered ${said(error)}: no Facilitator is there. Set its base URL, such as ${new URL(url).origin}`;
}

/** Says in a few words what came back. */
function said({ message, details: { status, isJson } }: TurnpikeError): string {
  if (typeof status !== "number") return message.replace(/\.$/, "");
  if (status >= 300) return `HTTP ${status}`;
  return isJson === true ? `HTTP ${status}: ${message.replace(/^.*: |\.$/g, "")}` : `HTTP ${status} without JSON`;
}

/**
 * Compares the pinned signers with those that the Facilitator names at `GET /supported`. Payments that settle through a
 * Facilitator whose signer is not pinned take the payer's money and are refused here. What the Facilitator says is only
 * a warning to the provider: it never makes a proof count.
 */
export function createFacilitatorCheck({ settings, proofSigners, nowSec }: FacilitatorCheckOptions): FacilitatorCheck {
  const { facilitator } = settings;
  const pinned = facilitator?.signers.list.map(({ address }) => address).join(", ") ?? "";
  let isChecked = false;
  let isForeignWarned = false;
  let loggedAtMs = Number.NEGATIVE_INFINITY;

  async function check(): Promise<void> {
    if (!facilitator) return;
    if (facilitator.trustUnsigned) return checkForeign(facilitator.url);
    if (facilitator.signers.list.length === 0) return;
    const [current] = await proofSigners().catch((cause: unknown) => {
      // Where it does not serve the gate's chain, its own error says more.
      if (!isTurnpikeError(cause) || cause.reason === "network") throw cause;
      const problem = noFacilitator(facilitator.url, cause);
      if (problem !== undefined) throw new ConfigError(problem, { cause });
      throw new Unavailable(
        `The Facilitator at ${facilitator.url} gave no usable answer to GET /supported: ${said(cause)}. If this persists, check that it runs, and that facilitator.url (TURNPIKE_FACILITATOR_URL) is its base URL.`,
        { cause, retryAfterSec: 2 },
      );
    });
    const known = current && facilitator.signers.find(current);
    if (!current || (known && nowSec() < (known.until ?? Number.POSITIVE_INFINITY))) return;
    throw new ConfigError(
      `facilitator.signers (TURNPIKE_FACILITATOR_SIGNERS) pins ${pinned}, but the Facilitator at ${facilitator.url} signs with ${current}: payments would settle, and their proofs would be refused here. Check with the Facilitator's operator which address is right, then pin it`,
    );
  }

  /** Another project's Facilitator names no proof signers, and may ask who wants to know what it supports. */
  async function checkForeign(url: string): Promise<void> {
    try {
      await proofSigners();
    } catch (error) {
      if (!isTurnpikeError(error)) throw error;
      const { isJson, status } = error.details;
      if (isJson === true && Number(status) < 300) return;
      const problem = noFacilitator(url, error);
      if (problem !== undefined && !isForeignWarned) process.emitWarning(`${problem}.`, "ConfigError");
      isForeignWarned = true;
    }
  }

  return {
    check,
    checkOnce() {
      if (isChecked) return;
      isChecked = true;
      check().catch((error: unknown) => {
        if (!isTurnpikeError(error)) throw error;
        if (error.code === "ConfigError") process.emitWarning(`${error.message}.`, "ConfigError");
        else process.emitWarning(`${error.message} No payment can settle until it answers.`);
      });
    },
    refusedSigner(signer) {
      const nowMs = performance.now();
      if (nowMs - loggedAtMs < LOG_EVERY_MS) return;
      loggedAtMs = nowMs;
      process.emitWarning(
        `A payment proof was refused: ${signer} signed it, and facilitator.signers pins ${pinned}. If that is your Facilitator's signer, payers pay and are not served.`,
      );
    },
  };
}
