import { isTurnpikeError, type TurnpikeError } from "turnpike/protocol";

/** The project's own error that `work` rejects with; anything else fails the test. */
export async function rejection(work: Promise<unknown>): Promise<TurnpikeError> {
  try {
    await work;
  } catch (error) {
    if (isTurnpikeError(error)) return error;
    throw error;
  }
  throw new Error("expected a rejection");
}
