/** Measures each query, warm and cold. */
import { sql } from "kysely";
import { networkOfChain } from "turnpike/protocol";
import { createAnalytics } from "../../facilitator/src/analytics";
import type { Store } from "../../facilitator/src/db/open";
import { CHAIN_ID, END_SEC, TOKEN } from "./fill";
import { type Question, questionsOf } from "./queries";

export interface Timing {
  readonly page: Question["page"];
  readonly question: string;
  readonly samples: number;
  readonly p50Ms: number;
  readonly p95Ms: number;
}

const SERVICE = {
  chainId: CHAIN_ID,
  network: networkOfChain(CHAIN_ID),
  nativePrice: 3_000,
  tokens: [{ address: TOKEN, name: "Test", version: "1", decimals: 6 }],
} as never;

export const questionsFor = (store: Store): Question[] =>
  questionsOf(createAnalytics({ db: store.db, config: SERVICE, clock: { nowSec: () => END_SEC - 60 } }), store.db);

/** A database that can be stopped, dropped from the kernel's cache, and opened again. */
export interface Opened {
  readonly store: Store;
  close(): Promise<void>;
}

/** Runs each query once, then measures in turns, so that no query has the cache to itself. */
export async function timeWarm(store: Store, rounds: number, isWanted: Wanted): Promise<Timing[]> {
  const questions = questionsFor(store).filter(isWanted);
  for (const question of questions) await question.ask(0);
  const took = questions.map((): number[] => []);
  for (let turn = 0; turn < rounds; turn++) {
    for (const [index, question] of questions.entries()) took[index]?.push(await timeOf(() => question.ask(turn)));
  }
  return questions.map((question, index) => timingOf(question, took[index] ?? []));
}

export type Wanted = (question: Pick<Question, "page" | "name">) => boolean;

/** Opens the database for each query, on files dropped from the kernel's cache; always runs the hardest variant. */
export async function timeCold(
  open: () => Promise<Opened>,
  rounds: number,
  isWanted: Wanted,
  report: (done: string) => void,
): Promise<Timing[]> {
  const took = new Map<string, { question: Question; ms: number[] }>();
  for (let round = 0; round < rounds; round++) {
    for (let index = 0, count = 1; index < count; index++) {
      const { store, close } = await open();
      const questions = questionsFor(store).filter(isWanted);
      const question = questions[index];
      count = questions.length;
      if (question) {
        await sql`select 1`.execute(store.db);
        const key = `${question.page} ${question.name}`;
        const entry = took.get(key) ?? { question, ms: [] };
        took.set(key, entry);
        const ms = await timeOf(() => question.ask(0));
        entry.ms.push(ms);
        report(`round ${round + 1} of ${rounds}, ${index + 1} of ${count}: ${key} ${ms.toFixed(1)} ms`);
      }
      await close();
    }
  }
  return [...took.values()].map(({ question, ms }) => timingOf(question, ms));
}

async function timeOf(act: () => Promise<unknown>): Promise<number> {
  const startedMs = performance.now();
  await act();
  return performance.now() - startedMs;
}

function timingOf({ page, name }: Question, ms: readonly number[]): Timing {
  const sorted = [...ms].sort((a, b) => a - b);
  const at = (share: number) => Number((sorted[Math.ceil(sorted.length * share) - 1] ?? 0).toFixed(1));
  return { page, question: name, samples: ms.length, p50Ms: at(0.5), p95Ms: at(0.95) };
}
