/** Counts the gas that payments burnt without moving money, by payer and payee, and closes the door on who burns too much. */
import type { TurnpikeError } from "turnpike/protocol";
import { type Claim, refusal } from "./claim";

export interface Losses {
  add(payment: { readonly payer: string; readonly pay_to: string }): void;
  refusalOf(claim: Claim): TurnpikeError | undefined;
}

const HOUR_MS = 60 * 60 * 1_000;
const MAX_PARTIES = 50_000;

interface Window {
  count: number;
  sinceMs: number;
}

/** In this process's memory: a restart forgives. `monotonicMs` is milliseconds that never go back. */
export function createLosses(options: { monotonicMs: () => number; perPayer: number; perPayee: number }): Losses {
  const byParty = new Map<string, Window>();

  function windowOf(party: string): Window | undefined {
    const window = byParty.get(party);
    if (!window || options.monotonicMs() - window.sinceMs < HOUR_MS) return window;
    byParty.delete(party);
    return undefined;
  }

  function count(party: string): void {
    const window = windowOf(party);
    if (window) {
      window.count += 1;
      return;
    }
    // The oldest entry makes room: an attacker with that many accounts is slowed by the funds they need.
    if (byParty.size >= MAX_PARTIES) byParty.delete(byParty.keys().next().value ?? "");
    byParty.set(party, { count: 1, sinceMs: options.monotonicMs() });
  }

  return {
    add({ payer, pay_to }) {
      count(`payer ${payer}`);
      count(`payee ${pay_to}`);
    },
    refusalOf({ authorization: { from, to } }) {
      const payer = windowOf(`payer ${from}`)?.count ?? 0;
      const payee = windowOf(`payee ${to}`)?.count ?? 0;
      if (payer < options.perPayer && payee < options.perPayee) return undefined;
      const who = payer >= options.perPayer ? "payer" : "payee";
      return refusal("RateLimited", "losses", `too many payments of this ${who} were sent and moved nothing`, {
        retryAfterSec: 600,
      });
    },
  };
}
