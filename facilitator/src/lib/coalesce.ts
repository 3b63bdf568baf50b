/**
 * Many who ask at the same time are answered together: what comes in during one turn of the event loop, soon after the
 * last batch, or while as many as allowed are under way, is one batch. For questions whose price is mostly that of asking.
 */
export interface CoalesceOptions<Q, A> {
  readonly maxItems: number;
  /** batches under way at once */
  readonly maxParallel: number;
  /**
   * Milliseconds since one batch left until the next may leave, unless that is full: asked for whenever one begins to
   * gather; none unless given. Whoever comes after a pause waits for nobody.
   */
  gatherMs?(): number;
  /**
   * Waits, as long as it is worth it, for what a batch needs in order to leave; whoever comes meanwhile leaves with it.
   * @returns whether it is there, for `run` to know; a batch leaves either way
   */
  ready?(first: readonly Q[]): Promise<boolean>;
  /** answers in the order of the questions */
  run(batch: readonly Q[], isReady: boolean): Promise<readonly A[]>;
}

interface Waiting<Q, A> {
  readonly question: Q;
  resolve(answer: A): void;
  reject(error: unknown): void;
}

const questionsOf = <Q>(some: readonly Waiting<Q, unknown>[]): Q[] => some.map(({ question }) => question);

/** An error of a batch is every asker's error. */
export function coalesce<Q, A>(options: CoalesceOptions<Q, A>): (question: Q) => Promise<A> {
  const { maxItems, maxParallel } = options;
  let waiting: Waiting<Q, A>[] = [];
  let running = 0;
  let gathering: NodeJS.Timeout | undefined;
  /** one batch is about to leave: who comes now may still leave with it */
  let isLeaving = false;
  let leftAtMs = Number.NEGATIVE_INFINITY;

  function schedule(): void {
    if (isLeaving || running >= maxParallel || waiting.length === 0) return;
    const isFull = waiting.length >= maxItems;
    if (gathering && !isFull) return;
    clearTimeout(gathering);
    const restMs = isFull ? 0 : leftAtMs + (options.gatherMs?.() ?? 0) - performance.now();
    if (restMs >= 1) {
      gathering = setTimeout(leave, restMs);
      return;
    }
    isLeaving = true;
    setImmediate(leave);
  }

  function leave(): void {
    gathering = undefined;
    isLeaving = true;
    running++;
    void answer().finally(() => {
      running--;
      schedule();
    });
  }

  function take(): Waiting<Q, A>[] {
    const batch = waiting.slice(0, maxItems);
    waiting = waiting.slice(maxItems);
    leftAtMs = performance.now();
    isLeaving = false;
    schedule();
    return batch;
  }

  async function answer(): Promise<void> {
    let batch: readonly Waiting<Q, A>[] | undefined;
    try {
      const isReady = options.ready ? await options.ready(questionsOf(waiting.slice(0, maxItems))) : true;
      batch = take();
      const answers = await options.run(questionsOf(batch), isReady);
      batch.forEach(({ resolve }, place) => {
        resolve(answers[place] as A);
      });
    } catch (error) {
      for (const { reject } of batch ?? take()) reject(error);
    }
  }

  return (question) =>
    new Promise((resolve, reject) => {
      waiting.push({ question, resolve, reject });
      schedule();
    });
}
