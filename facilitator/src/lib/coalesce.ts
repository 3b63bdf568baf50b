/**
 * Combines concurrent requests into batches, for work whose cost is mostly per call. A batch collects the requests of
 * one event-loop turn. It collects longer during the pause after the last batch, or while `maxParallel` batches run.
 */
import { type ActiveSpan, activeSpan, withinSpan } from "./active-span";

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
  readonly span: ActiveSpan | undefined;
  resolve(answer: A): void;
  reject(error: unknown): void;
}

const questionsOf = <Q>(some: readonly Waiting<Q, unknown>[]): Q[] => some.map(({ question }) => question);

/** The first span of a batch has the parts of its work; the others link to it. */
function spanOf(batch: readonly Waiting<unknown, never>[]): ActiveSpan | undefined {
  const [first, ...others] = new Set(batch.flatMap(({ span }) => span ?? []));
  if (first) for (const other of others) other.linkTo(first);
  return first;
}

/** Creates a function that batches its calls. An error of a batch rejects each of its calls. */
export function coalesce<Q, A>(options: CoalesceOptions<Q, A>): (question: Q) => Promise<A> {
  const batches = new Batches(options);
  return (question) => batches.ask(question);
}

class Batches<Q, A> {
  readonly #options: CoalesceOptions<Q, A>;
  #waiting: Waiting<Q, A>[] = [];
  #running = 0;
  #gathering: NodeJS.Timeout | undefined;
  /** a batch is about to start; requests that arrive now may join it */
  #isStarting = false;
  #startedAtMs = Number.NEGATIVE_INFINITY;

  constructor(options: CoalesceOptions<Q, A>) {
    this.#options = options;
  }

  ask(question: Q): Promise<A> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ question, span: activeSpan(), resolve, reject });
      this.#schedule();
    });
  }

  #schedule(): void {
    const { maxItems, maxParallel } = this.#options;
    if (this.#isStarting || this.#running >= maxParallel || this.#waiting.length === 0) return;
    const isFull = this.#waiting.length >= maxItems;
    if (this.#gathering && !isFull) return;
    clearTimeout(this.#gathering);
    const restMs = isFull ? 0 : this.#startedAtMs + (this.#options.gatherMs?.() ?? 0) - performance.now();
    if (restMs >= 1) {
      this.#gathering = setTimeout(() => this.#start(), restMs);
      return;
    }
    this.#isStarting = true;
    setImmediate(() => this.#start());
  }

  #start(): void {
    this.#gathering = undefined;
    this.#isStarting = true;
    this.#running++;
    // No part of what a former batch was part of.
    void withinSpan(undefined, () => this.#run()).finally(() => {
      this.#running--;
      this.#schedule();
    });
  }

  /** Closes the batch: later requests wait for the next one. */
  #close(): Waiting<Q, A>[] {
    const { maxItems } = this.#options;
    const batch = this.#waiting.slice(0, maxItems);
    this.#waiting = this.#waiting.slice(maxItems);
    this.#startedAtMs = performance.now();
    this.#isStarting = false;
    this.#schedule();
    return batch;
  }

  async #run(): Promise<void> {
    const options = this.#options;
    let batch: readonly Waiting<Q, A>[] | undefined;
    try {
      const first = () => questionsOf(this.#waiting.slice(0, options.maxItems));
      const isReady = options.ready ? await options.ready(first()) : true;
      batch = this.#close();
      const questions = questionsOf(batch);
      const answers = await withinSpan(spanOf(batch), () => options.run(questions, isReady));
      batch.forEach(({ resolve }, place) => {
        resolve(answers[place] as A);
      });
    } catch (error) {
      for (const { reject } of batch ?? this.#close()) reject(error);
    }
  }
}
