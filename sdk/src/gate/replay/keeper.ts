/** Seals the answer to one purchase for the claim store, and opens it for a client that repeats that purchase. */
import type { MemoKey } from "../../protocol";
import type { ClaimStore, StoredAnswer } from "../claims/rules";
import { decodeKept, encodeKept, type KeptAnswer } from "./kept-answer";
import type { ReplayLimits } from "./options";
import { type Purchased, seal, unseal } from "./seal";

export interface AnswerKeeper {
  readonly paymentId: Purchased["paymentId"];
  /** the largest body that is worth recording */
  readonly maxBytes: number;
  seal(answer: KeptAnswer): StoredAnswer;
}

export interface KeeperOptions {
  readonly purchased: Purchased;
  readonly limits: ReplayLimits;
  readonly gateKey: MemoKey;
  /** the machine's clock */
  readonly nowMs: () => number;
}

export function keeperOf({ purchased, limits, gateKey, nowMs }: KeeperOptions): AnswerKeeper {
  return {
    paymentId: purchased.paymentId,
    maxBytes: limits.maxBytes,
    seal: (answer) => ({
      text: seal(encodeKept(answer), purchased, gateKey),
      nowMs: nowMs(),
      keepSec: limits.keepSec,
    }),
  };
}

export type ServedAnswer =
  | { readonly kind: "answer"; readonly answer: KeptAnswer }
  /** it has bought its request, and no answer can be given again */
  | { readonly kind: "no_answer" };

export interface ServedQuestion {
  readonly store: ClaimStore;
  readonly paymentId: Purchased["paymentId"];
  /** undefined: the request names no secret, or the route keeps no answers */
  readonly purchased: Purchased | undefined;
  readonly gateKeys: readonly MemoKey[];
  readonly nowMs: number;
}

/** @returns undefined when the payment has bought nothing yet. @throws Unavailable when the store cannot answer */
export async function findServed({
  store,
  paymentId,
  purchased,
  gateKeys,
  nowMs,
}: ServedQuestion): Promise<ServedAnswer | undefined> {
  const used = await store.served?.(paymentId, nowMs);
  if (!used) return undefined;
  const plain = purchased && used.answer !== undefined ? unseal(used.answer, purchased, gateKeys) : undefined;
  return plain ? { kind: "answer", answer: decodeKept(plain) } : { kind: "no_answer" };
}
