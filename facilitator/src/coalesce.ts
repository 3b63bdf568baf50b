/**
 * Many who ask at the same time are answered together: what comes in during one turn of the event loop, or while as many
 * batches as allowed are under way, is one batch. For questions whose price is mostly that of asking.
 */

export interface CoalesceOptions<Q, A> {
  readonly maxItems: number;
  /** batches under way at once */
  readonly maxParallel: number;
  /** answers in the order of the questions */
  run(batch: readonly Q[]): Promise<readonly A[]>;
}

interface Waiting<Q, A> {
  readonly question: Q;
  resolve(answer: A): void;
  reject(error: unknown): void;
}

/** An error of a batch is every asker's error. */
export function coalesce<Q, A>({ maxItems, maxParallel, run }: CoalesceOptions<Q, A>): (question: Q) => Promise<A> {
  let waiting: Waiting<Q, A>[] = [];
  let running = 0;
  let isScheduled = false;

  function schedule(): void {
    if (isScheduled || running >= maxParallel || waiting.length === 0) return;
    isScheduled = true;
    setImmediate(() => {
      isScheduled = false;
      const batch = waiting.slice(0, maxItems);
      waiting = waiting.slice(maxItems);
      running++;
      void answer(batch).finally(() => {
        running--;
        schedule();
      });
      schedule();
    });
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
