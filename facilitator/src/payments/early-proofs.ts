/**
 * Signs proofs for waiting callers while the block that settles their payments is being written. The database is busy
 * then, and this process is idle. A proof is released only after the row is written, and only if the row has the same
 * facts.
 */
import { setImmediate as nextTurn } from "node:timers/promises";
import type { PaymentProof, SignedPayment } from "turnpike/protocol";
import type { PaymentRow } from "../db/tables/payments";
import type { DigestSigner } from "../relayer/signer";
import { issueProof, type SettledFacts, settledFacts } from "./proofs";

export interface EarlyProof {
  /**
   * Returns the proof for a settled row. Signs a new one when the prepared proof has other facts.
   * @param facts facts of the row as written
   * @throws Unavailable when a remote key's service does not answer
   */
  issue(facts: SettledFacts): Promise<PaymentProof>;
  /** Stops waiting for the proof. */
  end(): void;
}

export interface EarlyProofs {
  register(paymentId: string, signed: SignedPayment): EarlyProof;
  /** Signs the proofs of rows that are about to be written, for the callers that wait. */
  prepare(rows: readonly PaymentRow[]): Promise<void>;
}

export interface EarlyProofsOptions {
  readonly chainId: number;
  /** called when a proof is needed: only processes that issue proofs have the key */
  readonly signer: () => DigestSigner;
}

interface Waiting {
  readonly signed: SignedPayment;
  made?: { readonly facts: SettledFacts; readonly proof: Promise<PaymentProof> };
}

/** After this many, the event loop runs other work: above all, the database's answers. */
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
          // A remote key may have been unavailable for a moment.
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
          // A failed proof is signed again when a caller asks for it.
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
