/** Asks a provider's callback about a request, and keeps the request's body for the handler. */
import { isTurnpikeError, TurnpikeError } from "../../protocol";
import { bodyUnbound } from "./body-fault";
import type { GateRequest } from "./request";
import type { Route } from "./route";

export interface Question<T> {
  readonly route: Pick<Route, "bindsBody">;
  readonly request: GateRequest;
  /** the option's name, and what its failure leaves undecided */
  readonly callback: string;
  readonly undecided: string;
  readonly ask: (raw: unknown) => T | Promise<T>;
}

/**
 * @throws Internal for a callback that throws, InvalidRequest as it is, ConfigError where the callback read the body
 */
export async function askCallback<T>({ route, request, callback, undecided, ask }: Question<T>): Promise<T> {
  const wasLost = request.isBodyLost;
  let answer: T;
  try {
    answer = await ask(request.raw);
  } catch (cause) {
    throw isTurnpikeError(cause) && cause.status === 400 ? cause : new TurnpikeError("Internal", undecided, { cause });
  }
  if (!route.bindsBody && !wasLost && request.isBodyLost) throw bodyUnbound(callback);
  return answer;
}
