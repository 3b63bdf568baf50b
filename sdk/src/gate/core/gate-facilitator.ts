/**
 * Makes the gate's calls to its Facilitator, each with its own bound. A call that moves no money ends after `waitMs`. A
 * settlement may wait for a block, so it ends early only when the Facilitator stops answering; its outcome is then
 * unknown, and the same payment can be presented again.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { createFacilitatorClient, type FacilitatorClient } from "../../facilitator/client";
import type { FetchLike } from "../../facilitator/transport";
import { Unavailable } from "../../protocol";
import { Deadline } from "../../protocol/waiting";

export interface GateFacilitator
  extends Pick<FacilitatorClient, "verifyProof" | "x402Settle" | "payment" | "subscriptionsOf"> {
  /** Returns whether it signs to which purchase a payment was granted. @throws Unavailable */
  signsGrants(): Promise<boolean>;
}

export interface GateFacilitatorOptions {
  readonly url: string;
  /** how long the Facilitator may be silent */
  readonly waitMs: number;
  readonly fetch?: FetchLike | undefined;
}

export function createGateFacilitator({ url, waitMs, fetch: given }: GateFacilitatorOptions): GateFacilitator {
  const send: FetchLike = given ?? ((input, init) => fetch(input, init));
  const prompt = createFacilitatorClient({ url, fetch: send, timeoutMs: waitMs });
  const patient = createFacilitatorClient({ url, fetch: send });
  let signsGrants = false;
  return {
    async signsGrants() {
      signsGrants ||= (await prompt.supported()).paymentGrants === true;
      return signsGrants;
    },
    verifyProof: (...args) => prompt.verifyProof(...args),
    payment: (...args) => prompt.payment(...args),
    subscriptionsOf: (...args) => prompt.subscriptionsOf(...args),
    async x402Settle(request, { signal } = {}) {
      const done = new AbortController();
      const silent = watchForSilence({ url, waitMs, send, done: done.signal });
      try {
        return await patient.x402Settle(request, { signal: signal ? AbortSignal.any([signal, silent]) : silent });
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
