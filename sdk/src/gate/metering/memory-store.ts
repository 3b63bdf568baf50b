/** A meter's books in memory: for tests, and for nothing that charges real money. */
import { Books } from "./books";
import { decideReservation } from "./reservation";
import type { MeterStore } from "./store";

export function createMemoryMeterStore(): MeterStore {
  const books = new Books();
  return {
    isShared: false,
    open: async () => undefined,
    async reserve(request) {
      const decision = decideReservation(books.find(request.idHash), request);
      if (decision.kind === "reserved") {
        const { idHash, facts } = request;
        books.apply({ kind: "reserved", idHash, amount: decision.charged, calls: 1, block: facts.blockNumber });
      }
      return decision;
    },
    async hold(request) {
      const decision = decideReservation(books.find(request.idHash), request);
      if (decision.kind === "reserved") books.account(request.idHash).held += decision.charged;
      return decision;
    },
    release(idHash, amount) {
      books.account(idHash).held -= amount;
    },
    async record(entry) {
      books.apply(entry);
    },
    account: (idHash) => books.find(idHash),
    accounts: () => books.accounts.values(),
    everyAccount: () => books.accounts.values(),
    reload: async () => undefined,
    hurried: () => [],
    hurry: async () => undefined,
    setSending: () => undefined,
    batches: () => [...books.batches.values()],
    recent: () => books.recent,
    nextBatch: () => books.nextBatch,
    totals: () => books.totals,
    close: async () => undefined,
  };
}
