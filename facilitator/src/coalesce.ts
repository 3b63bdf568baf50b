/**
 * Many who ask at the same time are answered together: what comes in during one turn of the event loop, soon after the
 * last batch, or while as many as allowed are under way, is one batch. For questions whose price is mostly that of asking.
 */

export interface CoalesceOptions<Q, A> {
  readonly maxItems: number;
  /** batches under way at once */
  readonly maxParallel: number;
  /** since one batch left, until the next may leave; 0 unless given. Whoever comes after a pause waits for nobody. */
  readonly gatherMs?: number;
  /** answers in the order of the questions */
  run(batch: readonly Q[]): Promise<readonly A[]>;
}

interface Waiting<Q, A> {
  readonly question: Q;
  resolve(answer: A): void;
  reject(error: unknown): void;
}

/** An error of a batch is every asker's error. */
export function coalesce<Q, A>({
  maxItems,
  maxParallel,
  gatherMs = 0,
  run,
}: CoalesceOptions<Q, A>): (question: Q) => Promise<A> {
  let waiting: Waiting<Q, A>[] = [];
  let running = 0;
  let isScheduled = false;
  let leftAtMs = Number.NEGATIVE_INFINITY;

  function schedule(): void {
    if (isScheduled || running >= maxParallel || waiting.length === 0) return;
    isScheduled = true;
    const waitMs = waiting.length >= maxItems ? 0 : leftAtMs + gatherMs - performance.now();
    if (waitMs >= 1) setTimeout(leave, waitMs);
    else setImmediate(leave);
  }

  function leave(): void {
    isScheduled = false;
    leftAtMs = performance.now();
    const batch = waiting.slice(0, maxItems);
    waiting = waiting.slice(maxItems);
    running++;
    void answer(batch).finally(() => {
      running--;
      schedule();
    });
    schedule();
  }

  async function answer(batch: readonly Waiting<Q, A>[]): Promise<void> {
    try {
      const answers = await run(batch.map(({ question }) => question));
      batch.forEach(({ resolve }, place) => {
        resolve(answers[place] as A);
      });
    } catch (error) {
      for (const { reject } of batch) reject(error);
    }
  }

  return (question) =>
    new Promise((resolve, reject) => {
      waiting.push({ question, resolve, reject });
      schedule();
    });
}
