/** Asks the database for the value of a gauge, for no longer than a scraper waits. */
import type { Gauge } from "prom-client";

/** Less than any scraper waits: without an answer of the database, all other metrics are needed most. */
const ANSWER_MS = 1_000;

/**
 * @returns asks one question at a time. It gives undefined when there is no answer, or none in time: the next caller gets
 * the same question's answer, so that scrapes add no statements to those that wait.
 */
export function inTime<T>(ask: () => Promise<T>): () => Promise<T | undefined> {
  let open: Promise<T | undefined> | undefined;
  return async () => {
    open ??= ask()
      .catch(() => undefined)
      .finally(() => {
        open = undefined;
      });
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<undefined>((resolve) => {
      timer = setTimeout(() => resolve(undefined), ANSWER_MS);
    });
    return Promise.race([open, late]).finally(() => clearTimeout(timer));
  };
}

/** @returns sets a gauge to the answer; removes its value when there is none */
export function setter(ask: () => Promise<number>): (gauge: Gauge) => Promise<void> {
  const answer = inTime(ask);
  return async (gauge) => {
    const value = await answer();
    if (value === undefined) gauge.remove();
    else gauge.set(value);
  };
}
