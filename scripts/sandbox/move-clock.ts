/**
 * Moves a running sandbox's clock from outside, through its Facilitator. The Facilitator runs one move at a time for
 * all callers, and knows the gates that must report before time passes.
 */
import type { TestClockState } from "turnpike/facilitator";

export interface RunningClock {
  readonly facilitatorUrl: string;
  /** the chain whose clock it is; default the first */
  readonly network?: string;
  readonly apiKey: string;
}

export interface Progress {
  /** unix seconds of the chain */
  readonly nowSec: number;
  readonly targetSec: number;
}

const LOOK_MS = 100;

/** A smaller difference comes from the chain's own blocks. */
const STEP_SEC = 60;

/**
 * Returns when everything that became due was processed.
 * @throws Error with the reason why the clock did not move, or stopped early
 */
export async function moveClock(
  { facilitatorUrl, network, apiKey }: RunningClock,
  seconds: number,
  onStep: (progress: Progress) => void = () => undefined,
): Promise<void> {
  let clock = await untilIsMoved();
  let reportedSec = 0;
  const targetSec = clock.target ?? clock.now;
  for (;;) {
    // The last step is reported when all that became due is done, once.
    if (clock.target === undefined || (clock.now - reportedSec >= STEP_SEC && clock.now < targetSec)) {
      onStep({ nowSec: clock.now, targetSec });
      reportedSec = clock.now;
    }
    if (clock.target === undefined) break;
    await pause();
    clock = await answerOf(await ask());
  }
  if (clock.problem !== undefined) throw new Error(clock.problem);

  /** Another client may be moving it. */
  async function untilIsMoved(): Promise<TestClockState> {
    for (;;) {
      const answer = await ask({ seconds });
      if (answer.status !== 429) return answerOf(answer);
      await pause();
    }
  }

  function ask(body?: { readonly seconds: number }): Promise<Response> {
    return fetch(`${facilitatorUrl}/sandbox/clock${network ? `?network=${network}` : ""}`, {
      headers: { authorization: `Bearer ${apiKey}`, ...(body && { "content-type": "application/json" }) },
      ...(body && { method: "POST", body: JSON.stringify(body) }),
    });
  }
}

async function answerOf(answer: Response): Promise<TestClockState> {
  if (answer.ok) return (await answer.json()) as TestClockState;
  const { message = `HTTP ${answer.status}` } = (await answer.json()) as { message?: string };
  throw new Error(`The clock does not move: ${message}`);
}

const pause = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, LOOK_MS));
