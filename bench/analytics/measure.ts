/** How long each question takes, warm and cold. */
import { sql } from "kysely";
import { networkOfChain } from "turnpike/protocol";
import { createAnalytics } from "../../facilitator/src/analytics";
import { Secret } from "../../facilitator/src/config";
import { connectStore, type Store } from "../../facilitator/src/store/open";
import { CHAIN_ID, END_SEC, TOKEN } from "./fill";
import { forgetPages, startServer } from "./postgres";
import { type Question, questionsOf } from "./queries";

export interface Timing {
  readonly page: Question["page"];
  readonly question: string;
  readonly samples: number;
  readonly p50Ms: number;
  readonly p95Ms: number;
}

const SERVICE = {
  ...{ chainId: CHAIN_ID, network: networkOfChain(CHAIN_ID), nativePrice: 3_000 },
  tokens: [{ address: TOKEN, name: "Test", version: "1", decimals: 6 }],
} as never;

export const questionsFor = (store: Store): Question[] =>
  questionsOf(createAnalytics({ db: store.db, config: SERVICE, clock: { nowSec: () => END_SEC - 60 } }), store.db);

/** After every question was asked once; questions take turns, so that none has the cache to itself. */
export async function timeWarm(store: Store, rounds: number): Promise<Timing[]> {
  const questions = questionsFor(store);
  for (const question of questions) await question.ask(0);
  const took = questions.map((): number[] => []);
  for (let turn = 0; turn < rounds; turn++) {
    for (const [index, question] of questions.entries()) took[index]?.push(await timeOf(() => question.ask(turn)));
  }
  return questions.map((question, index) => timingOf(question, took[index] ?? []));
}

/** Each time by a server that has just started on files that the kernel has forgotten. */
export async function timeCold(folder: string, rounds: number, tell: (done: string) => void): Promise<Timing[]> {
  const took = new Map<string, { question: Question; ms: number[] }>();
  for (let round = 0; round < rounds; round++) {
    for (let index = 0, count = 1; index < count; index++) {
      forgetPages(folder);
      const server = await startServer(folder);
      const store = await connectStore({ kind: "postgres", url: new Secret(server.url), poolSize: 5 });
      const questions = questionsFor(store);
      const question = questions[index] as Question;
      count = questions.length;
      await sql`select 1`.execute(store.db);
      const key = `${question.page} ${question.name}`;
      const entry = took.get(key) ?? { question, ms: [] };
      took.set(key, entry);
      const ms = await timeOf(() => question.ask(round));
      entry.ms.push(ms);
      await store.close();
      await server.stop();
      tell(`round ${round + 1} of ${rounds}, ${index + 1} of ${count}: ${key} ${ms.toFixed(1)} ms`);
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
