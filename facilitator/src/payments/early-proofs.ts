/**
 * Proofs for those who wait, made while the block that settles their payments is being written: the database is at work
 * then, and this process is not. Nothing is handed out before the row is there, nor for a row that says anything else.
 */
import { setImmediate as nextTurn } from "node:timers/promises";
import type { PaymentProof, SignedPayment } from "turnpike/protocol";
import type { PaymentRow } from "../db/tables/payments";
import type { DigestSigner } from "../relayer/signer";
import { issueProof, type SettledFacts, settledFacts } from "./proofs";

/** The proof that one caller waits for. */
export interface EarlyProof {
  /**
   * @param facts of the row as it stands: of others no proof is given
   * @throws Unavailable when the key is elsewhere and nobody answers there
   */
  issue(facts: SettledFacts): Promise<PaymentProof>;
  /** Waits no longer. */
  end(): void;
}

export interface EarlyProofs {
  register(paymentId: string, signed: SignedPayment): EarlyProof;
  /** Makes the proofs of rows that are about to be written, for those who wait. */
  prepare(rows: readonly PaymentRow[]): Promise<void>;
}

export interface EarlyProofsOptions {
  readonly chainId: number;
  /** asked for when a proof is wanted: only processes that give proofs have the key */
  readonly signer: () => DigestSigner;
}

interface Waiting {
  readonly signed: SignedPayment;
  made?: { readonly facts: SettledFacts; readonly proof: Promise<PaymentProof> };
}

/** Then whatever else came in has its turn: the database's answers above all. */
const MADE_AT_ONCE = 20;

export function createEarlyProofs({ chainId, signer }: EarlyProofsOptions): EarlyProofs {
  const waiting = new Map<string, Set<Waiting>>();
  const make = (signed: SignedPayment, facts: SettledFacts) => issueProof(signed, facts, chainId, signer());

  return {
    register(paymentId, signed) {
      const one: Waiting = { signed };
      const all = waiting.get(paymentId) ?? new Set();
      waiting.set(paymentId, all.add(one));
      return {
        issue(facts) {
          const { made } = one;
          if (!made || !isSame(made.facts, facts)) return make(signed, facts);
          // A key that is elsewhere may have been away for a moment.
          return made.proof.catch(() => make(signed, facts));
        },
        end() {
          all.delete(one);
          if (all.size === 0 && waiting.get(paymentId) === all) waiting.delete(paymentId);
        },
      };
    },
    async prepare(rows) {
      let made = 0;
      for (const row of rows) {
        const facts = settledFacts(row);
        if (!facts) continue;
        for (const one of waiting.get(row.payment_id) ?? []) {
          const proof = make(one.signed, facts);
          // What fails is tried again when it is wanted, if it ever is.
          proof.catch(() => undefined);
          one.made = { facts, proof };
          if (++made % MADE_AT_ONCE === 0) await nextTurn();
        }
      }
    },
  };
}

const isSame = (a: SettledFacts, b: SettledFacts): boolean =>
  a.transaction === b.transaction && a.blockNumber === b.blockNumber && a.settledAt === b.settledAt;
