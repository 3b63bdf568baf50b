/** Adapts a gate to route handlers of Next.js. */
import type { Gate } from "../core/gate";
import { type FetchGate, fetchGate } from "./fetch";

/** Wraps a route handler of Next.js. */
export type NextGate = FetchGate;

/** Creates the wrapper from a provider's gate. */
export function nextGate(gate: Gate): NextGate {
  return fetchGate(gate, isNextAnswer);
}

/**
 * Returns whether `redirect()`, `notFound()` or the like threw: Next.js answers 3xx or 4xx, which the payment covers.
 */
function isNextAnswer(thrown: unknown): boolean {
  const digest = (thrown as { digest?: unknown } | null | undefined)?.digest;
  return typeof digest === "string" && /^NEXT_(?:REDIRECT|HTTP_ERROR_FALLBACK);/.test(digest);
}

export function lazily(open: () => Gate): Gate {
  let opened: Gate | undefined;
  const gate = (): Gate => {
    opened ??= open();
    return opened;
  };
  return {
    ready: async () => gate().ready(),
    decide: async (request) => gate().decide(request),
    answerOfRefusedCharge: async (scope) => gate().answerOfRefusedCharge(scope),
    get cors() {
      return gate().cors;
    },
    get bindsBody() {
      return gate().bindsBody;
    },
  };
}
