/** What this service says about one debit, and how it says it on the wire. */
import type { DebitRequest, DebitResultWire } from "turnpike/facilitator";
import { ERRORS, type ErrorCode } from "turnpike/protocol";

export type Verdict =
  | { readonly kind: "settled"; readonly transaction: string }
  | { readonly kind: "failed"; readonly code: ErrorCode; readonly message?: string }
  | { readonly kind: "pending" }
  | { readonly kind: "new"; readonly attempt: number };

export const failed = (code: ErrorCode, message?: string): Verdict => ({
  kind: "failed",
  code,
  ...(message && { message }),
});

export const PENDING: Verdict = { kind: "pending" };

export function toWire({ idHash, index }: DebitRequest, verdict: Verdict): DebitResultWire {
  switch (verdict.kind) {
    case "settled":
      return { status: "settled", idHash, index, transaction: verdict.transaction };
    case "failed": {
      const { code } = verdict;
      return { status: "failed", idHash, index, code, message: (verdict.message ?? ERRORS[code].cause).slice(0, 512) };
    }
    default:
      return { status: "pending", idHash, index };
  }
}
