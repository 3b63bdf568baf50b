/**
 * Combines concurrent requests into batches, for work whose cost is mostly per call. A batch collects the requests of
 * one event-loop turn. It collects longer during the pause after the last batch, or while `maxParallel` batches run.
 */
export interface CoalesceOptions<Q, A> {
  readonly maxItems: number;
  /** maximum batches that run at once */
  readonly maxParallel: number;
  /**
   * Returns the minimum milliseconds between the starts of two batches, unless one is full; 0 when absent. Called when
   * a batch begins to collect. A request after a longer pause starts at once.
   */
  gatherMs?(): number;
  /**
   * Waits, while worthwhile, for what the batch needs; requests that arrive meanwhile join it.
   * @returns whether it is available, passed to `run`; the batch runs either way
   */
  ready?(first: readonly Q[]): Promise<boolean>;
  /** returns answers in the order of the questions */
  run(batch: readonly Q[], isReady: boolean): Promise<readonly A[]>;
}

interface Waiting<Q, A> {
  readonly question: Q;
  resolve(answer: A): void;
  reject(error: unknown): void;
}

const questionsOf = <Q>(some: readonly Waiting<Q, unknown>[]): Q[] => some.map(({ question }) => question);

/** Creates a function that batches its calls. An error of a batch rejects each of its calls. */
export function coalesce<Q, A>(options: CoalesceOptions<Q, A>): (question: Q) => Promise<A> {
  const { maxItems, maxParallel } = options;
  let waiting: Waiting<Q, A>[] = [];
  let running = 0;
  let gathering: NodeJS.Timeout | undefined;
  /** a batch is about to start; requests that arrive now may join it */
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
