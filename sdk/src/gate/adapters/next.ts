import type { Gate } from "../core/gate";
import { type FetchGate, fetchGate } from "./fetch";

/** Wraps a route handler of Next.js. */
export type NextGate = FetchGate;

/** The same for a provider of createProvider. */
export function nextGate(gate: Gate): NextGate {
  return fetchGate(gate, isNextAnswer);
}

/** `redirect()`, `notFound()` and their kin throw; Next.js makes a 3xx or 4xx of it, and that was paid for. */
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
