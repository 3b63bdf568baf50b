/** What a refusal looks like to the client; the HTTP status behind it is the http tests' matter. */
import { expect } from "chai";
import type { ErrorCode, TurnpikeError } from "turnpike/protocol";

export function expectRefused(outcome: { kind: string; error?: TurnpikeError }, code: ErrorCode): TurnpikeError {
  expect(outcome.kind, `expected ${code}`).to.equal("refused");
  const { error } = outcome as { error: TurnpikeError };
  expect(error.code).to.equal(code);
  return error;
}
