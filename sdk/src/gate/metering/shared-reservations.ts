/**
 * Reserves in a store that several gates share, by compare-and-swap on the subscription's own cell. Calls of one
 * subscription that arrive during a swap share the next one.
 */
import type { Hex } from "../../protocol/hex";
import { emptyAccount } from "./books";
import { accountKey, accountText, contended, MAX_TRIES, readAccount, type SharedView } from "./shared-view";
import { decideReservation, type Reserved, type ReserveRequest } from "./store";

interface Waiting {
  readonly request: ReserveRequest;
  readonly resolve: (reserved: Reserved) => void;
  readonly reject: (error: unknown) => void;
}

export class SharedReservations {
  readonly #view: SharedView;
  readonly #queues = new Map<Hex, Waiting[]>();

  constructor(view: SharedView) {
    this.#view = view;
  }

  /** @throws Unavailable */
  reserve(request: ReserveRequest): Promise<Reserved> {
    return new Promise((resolve, reject) => {
      const queue = this.#queues.get(request.idHash);
      if (queue) return void queue.push({ request, resolve, reject });
      const first = [{ request, resolve, reject }];
      this.#queues.set(request.idHash, first);
      void this.#drain(request.idHash, first);
    });
  }

  async #drain(idHash: Hex, queue: Waiting[]): Promise<void> {
    await new Promise<void>((resolve) => setImmediate(resolve));
    while (queue.length > 0) {
      const round = queue.splice(0);
      try {
        const answers = await this.#reserveTogether(idHash, round);
        round.forEach(({ resolve }, i) => void resolve(answers[i] as Reserved));
      } catch (error) {
        for (const { reject } of round) reject(error);
      }
    }
    this.#queues.delete(idHash);
  }

  async #reserveTogether(idHash: Hex, round: readonly Waiting[]): Promise<Reserved[]> {
    const view = this.#view;
    let isCertain = false;
    for (let tries = 0; tries < MAX_TRIES; tries++) {
      const key = accountKey(view.books.current(idHash));
      if (!view.has(key)) {
        await view.reread([key]);
        isCertain = true;
      }
      const expected = view.text(key);
      const account = expected === undefined ? emptyAccount(view.books.current(idHash)) : readAccount(expected);
      let saturates = false;
      const answers = round.map(({ request }): Reserved => {
        const decision = decideReservation(account, request);
        saturates ||= decision.kind === "saturated";
        if (decision.kind !== "reserved") return decision;
        account.pending += decision.charged;
        account.calls += 1;
        account.seenBlock = Math.max(account.seenBlock, request.facts.blockNumber);
        return decision;
      });
      const isRefused = answers.some(({ kind }) => kind !== "reserved");
      // A refusal must not rest on what another gate has changed meanwhile.
      if (isRefused && !isCertain) {
        await view.reread([key]);
        isCertain = true;
        continue;
      }
      if (answers.every(({ kind }) => kind !== "reserved") && !saturates) return answers;
      const next = accountText(account, saturates);
      if (next === expected || (await view.swap([{ key, expected, next, listed: true }]))) return answers;
      await view.reread([key]);
      isCertain = true;
    }
    throw contended();
  }
}
