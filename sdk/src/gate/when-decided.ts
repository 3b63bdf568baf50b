/** What a gate decides at once is acted on at once; what it has to wait for, when it is there. */
import type { Decision } from "./decide";
import type { Gate } from "./gate";
import type { GateRequest } from "./request";

export interface WhenDecided<T> {
  readonly gate: Gate;
  readonly facts: GateRequest;
  /** its own throws are the caller's */
  readonly act: (decision: Decision) => T;
  /** the gate could not decide: a setting or a callback of the provider is at fault */
  readonly fail: (error: unknown) => T;
}

export function whenDecided<T>({ gate, facts, act, fail }: WhenDecided<T>): T | Promise<Awaited<T>> {
  let decided: Decision | Promise<Decision>;
  try {
    decided = gate.decide(facts);
  } catch (error) {
    return fail(error);
  }
  return "then" in decided ? (decided.then(act, fail) as Promise<Awaited<T>>) : act(decided);
}
