/**
 * Clients that retry as agents do: they post the same request until they hold an outcome, also when processes die.
 * Their answers are kept, so that it can be compared with the chain and with every other answer.
 */
import { createFacilitatorClient, type X402RequestWire } from "turnpike/facilitator";
import { type Hex, proofToWire, type SignedPayment } from "turnpike/protocol";
import { type FacilitatorWorld, until } from "../../../support/facilitator";
import { authorizationToWire, paymentToWire } from "../../support/payments";

const VALID_FOR_SEC = 36_000;

export interface Answered {
  readonly paymentId: Hex;
  readonly payer: string;
  /** every different outcome that was returned; of a sound service one */
  readonly outcomes: Set<string>;
}

export interface Clients {
  /** Pays through one of the two channels, and retries until the outcome is known. */
  pay(channel: "authorize" | "settle"): Promise<Answered>;
  readonly answered: readonly Answered[];
  /** Waits until few enough ask: hundreds that are never answered would be a load that no machine bears. */
  fewAsking(): Promise<void>;
}

const AGAIN_MS = 100;
/** Processes die all the time. */
const OUTCOME_WITHIN_MS = 1_200_000;
const FEW = 24;

/** @param urls of the processes that may live now; a client asks any of them */
export function createClients(
  world: FacilitatorWorld,
  urls: () => readonly string[],
  pick: (below: number) => number,
): Clients {
  const answered: Answered[] = [];
  let asking = 0;

  /** @returns undefined while the outcome is unknown */
  async function authorize(url: string, signed: SignedPayment): Promise<string | undefined> {
    const outcome = await createFacilitatorClient({ url, timeoutMs: 8_000 }).authorize(paymentToWire(signed));
    if (outcome.kind === "settled") return JSON.stringify(proofToWire(outcome.proof));
    if (outcome.kind === "pending" || outcome.error.retryable) return undefined;
    return `${outcome.kind}: ${outcome.error.code} ${outcome.error.reason ?? ""}`;
  }

  async function settle(url: string, request: X402RequestWire): Promise<string | undefined> {
    const response = await fetch(`${url}/settle`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify(request),
      signal: AbortSignal.timeout(8_000),
    });
    if (response.status !== 200) return undefined;
    const answer = (await response.json()) as { errorReason?: string };
    return answer.errorReason === "settlement_pending" ? undefined : JSON.stringify(answer);
  }

  return {
    answered,
    async fewAsking() {
      await until(async (saw) => asking <= FEW || saw(`${asking} ask`), "most payments have an outcome", 240_000);
    },
    async pay(channel) {
      const payer = await world.payer();
      // Hundreds of kills last longer than a usual window.
      const fields = { payer, validForSec: VALID_FOR_SEC };
      const signed = channel === "authorize" ? await world.signPayment(fields) : await world.signExact(fields);
      const one: Answered = { paymentId: world.idOf(signed), payer: payer.address, outcomes: new Set() };
      answered.push(one);
      asking += 1;
      const ask = (url: string): Promise<string | undefined> =>
        "scheme" in signed ? authorize(url, signed) : settle(url, exactToWire(signed));
      const answer = (): Promise<string> =>
        until(
          async (saw) => {
            const all = urls();
            const url = all[pick(all.length)];
            const outcome = url === undefined ? undefined : await ask(url).catch(saw);
            if (outcome === undefined) await new Promise((resolve) => setTimeout(resolve, AGAIN_MS));
            return outcome;
          },
          `payment ${one.paymentId} has an outcome`,
          OUTCOME_WITHIN_MS,
        );
      // One answer is not enough: the same request gets the same answer.
      for (let answers = 0; answers < 2; answers++) one.outcomes.add(await answer());
      asking -= 1;
      return one;
    },
  };
}

type Exact = Awaited<ReturnType<FacilitatorWorld["signExact"]>>;

/** As a gate asks: by the same grant again and again. */
function exactToWire(request: Exact): X402RequestWire {
  const { network, token: asset, payTo, resource, signature, purchase } = request;
  return {
    grant: { id: purchase.grantId, resource },
    x402Version: 1,
    paymentPayload: {
      x402Version: 1,
      scheme: "exact",
      network,
      payload: { signature, authorization: authorizationToWire(request.authorization) },
    },
    paymentRequirements: {
      scheme: "exact",
      network,
      maxAmountRequired: String(request.amount),
      resource,
      description: "",
      mimeType: "application/json",
      payTo,
      maxTimeoutSeconds: 20,
      asset,
      extra: { name: "Test USD", version: "1" },
    },
  } as X402RequestWire;
}
