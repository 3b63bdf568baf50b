/** Tests of every claim store, for memory, file, PostgreSQL and Redis. */
import { expect } from "chai";
import { type ClaimStore, ConfigError } from "turnpike/gate";
import { type Hex, keccakText } from "turnpike/protocol";
import { type AtomicStore, cellsOn } from "../../../../sdk/src/gate/cells/cells";
import { CLAIM_STORE, claimsOn } from "../../../../sdk/src/gate/purchases/store";

export const LEASE_MS = 60_000;
export const NOW_MS = 1_800_000_000_000;
export const NOW_SEC = 1_800_000_000;

export const idOf = (name: string | number): Hex => keccakText(`payment ${name}`);
let owners = 0;
export const attempt = (store: ClaimStore, id: Hex, nowMs = NOW_MS, owner = `owner${owners++}`) =>
  store
    .claim(id, { act: "claim", owner, nowMs, leaseMs: LEASE_MS, keepUntilSec: NOW_SEC + 1_000 }, NOW_SEC)
    .then((outcome) => ({ ...outcome, owner }));

/** Sets a shared store's clock to the time of each act. */
export function timedByActs(cells: AtomicStore): ClaimStore {
  let nowMs = NOW_MS;
  const untimed: AtomicStore = {
    ...cells,
    nowMs: async () => nowMs,
    compareAndSwap: (changes) => cells.compareAndSwap(changes, Number.MAX_SAFE_INTEGER),
  };
  const store = claimsOn(cellsOn(untimed, { what: CLAIM_STORE, clockAgeMs: -1 }));
  return {
    ...store,
    claim(id, act, nowSec) {
      nowMs = act.nowMs;
      return store.claim(id, act, nowSec);
    },
    apply(id, act, answer) {
      if (act.act === "renew") nowMs = act.nowMs;
      return store.apply(id, act, answer);
    },
  };
}

/** @param make a fresh, empty store */
export function testClaimStore(make: () => ClaimStore): void {
  it("are acquired by one request at a time, and used once", async () => {
    const store = make();
    const outcomes = await Promise.all(Array.from({ length: 10 }, () => attempt(store, idOf("a"))));
    const held = outcomes.filter(({ kind }) => kind === "acquired");
    expect(held).to.have.length(1);
    expect(outcomes.filter(({ kind }) => kind === "running")).to.have.length(9);
    await store.apply(idOf("a"), { act: "use", owner: held[0]?.owner ?? "" });
    expect((await attempt(store, idOf("a"))).kind).to.equal("used");
    expect((await attempt(store, idOf("b"))).kind).to.equal("acquired");
  });

  it("know facts of each purchase, the first of a kind, whatever becomes of the claim", async () => {
    const store = make();
    const [one, other] = [idOf("purchase 1"), idOf("purchase 2")];
    const until = { keepUntilSec: NOW_SEC + 1_000, nowSec: NOW_SEC };
    expect([...(await store.facts(idOf("a")))]).to.deep.equal([]);
    const noted = await Promise.all([5n, 6n, 7n].map((charged) => store.note(idOf("a"), one, { charged }, until)));
    const { charged } = noted[0] ?? {};
    expect(charged).to.be.oneOf([5n, 6n, 7n]);
    expect(noted, "one amount counts for everybody").to.deep.equal([{ charged }, { charged }, { charged }]);
    const both = { charged, unusedAtFirst: true };
    expect(await store.note(idOf("a"), one, { unusedAtFirst: true, charged: 9n }, until)).to.deep.equal(both);
    await store.note(idOf("a"), other, { charged: 0n }, until);
    for (const act of ["withdraw", "release", "use"] as const) {
      const { owner } = await attempt(store, idOf("a"));
      await store.apply(idOf("a"), { act, owner });
    }
    expect(Object.fromEntries(await store.facts(idOf("a")))).to.deep.equal({ [one]: both, [other]: { charged: 0n } });
    expect([...(await store.facts(idOf("b")))], "another payment").to.deep.equal([]);
    for (let i = 3; i <= 16; i++) await store.note(idOf("a"), idOf(`purchase ${i}`), { charged: 1n }, until);
    const many = await store.note(idOf("a"), idOf("purchase 17"), { charged: 1n }, until).catch((error) => error);
    expect(many).to.have.property("code", "Unavailable");
    expect(await store.note(idOf("a"), one, { charged: 9n }, until)).to.deep.equal(both);
  });

  it("keep the first text under a key, and the newest answer on a shelf until it expires", async () => {
    const store = make();
    const until = { keepUntilSec: NOW_SEC + 1_000, nowSec: NOW_SEC };
    const texts = await Promise.all(["x", "y", "z"].map((text) => store.first(idOf("nonce"), text, until)));
    expect(new Set(texts)).to.have.property("size", 1);
    expect(await store.first(idOf("nonce"), "later", until)).to.equal(texts[0]);
    const nowMs = Date.now();
    expect(await store.shelved(idOf("a"), nowMs)).to.equal(undefined);
    for (const text of ["1.k.first", "1.k.second"]) await store.shelve(idOf("a"), { text, nowMs, keepSec: 600 });
    expect(await store.shelved(idOf("a"), nowMs)).to.equal("1.k.second");
    expect((await attempt(store, idOf("a"))).kind, "no claim").to.equal("acquired");
  });

  it("pin the first text under a name, for good, and ask for no other", async () => {
    const store = make();
    // In memory nothing lasts.
    if (!store.pinned) return;
    const first = await Promise.all(
      ["a", "b", "c"].map((text) => store.pinned?.("signer of https://f.example/x@y", async () => text)),
    );
    expect(new Set(first).size).to.equal(1);
    const never = () => Promise.reject(new TypeError("asked again"));
    expect(await store.pinned("signer of https://f.example/x@y", never)).to.equal(first[0]);
    expect(await store.pinned("another name", async () => "d")).to.equal("d");
    const refused = store.pinned("a third", () => Promise.reject(new ConfigError("nobody answers")));
    expect(await refused.catch((error: Error) => error.message)).to.equal("nobody answers");
    expect(await store.pinned("a third", async () => "e")).to.equal("e");
  });

  it("HA1 have one grant key, the same at every read", async () => {
    const store = make();
    const keys = await Promise.all(Array.from({ length: 10 }, () => store.grantKey()));
    expect(new Set(keys).size).to.equal(1);
    expect(keys[0]).to.match(/^0x[0-9a-f]{64}$/);
  });

  it("C14 are released three times and no more", async () => {
    const store = make();
    for (let i = 0; i < 3; i++) {
      const { kind, owner } = await attempt(store, idOf("a"));
      expect(kind).to.equal("acquired");
      await store.apply(idOf("a"), { act: "release", owner });
    }
    const last = await attempt(store, idOf("a"));
    expect(last.kind).to.equal("acquired");
    await store.apply(idOf("a"), { act: "release", owner: last.owner });
    expect((await attempt(store, idOf("a"))).kind).to.equal("used");
  });

  it("expire with their lease, which counts as a release, and are kept by renewing it", async () => {
    const store = make();
    const first = await attempt(store, idOf("a"));
    expect((await attempt(store, idOf("a"), NOW_MS + LEASE_MS - 1)).kind).to.equal("running");
    await store.apply(idOf("a"), { act: "renew", owner: first.owner, nowMs: NOW_MS + 30_000, leaseMs: LEASE_MS });
    expect((await attempt(store, idOf("a"), NOW_MS + LEASE_MS)).kind).to.equal("running");
    let nowMs = NOW_MS + 30_000 + LEASE_MS;
    for (let i = 0; i < 3; i++) {
      expect((await attempt(store, idOf("a"), nowMs)).kind).to.equal("acquired");
      nowMs += LEASE_MS;
    }
    expect((await attempt(store, idOf("a"), nowMs)).kind).to.equal("used");
  });

  it("are not settled by an owner whose lease another has taken over", async () => {
    const store = make();
    const first = await attempt(store, idOf("a"));
    const second = await attempt(store, idOf("a"), NOW_MS + LEASE_MS);
    expect(second.kind).to.equal("acquired");
    await store.apply(idOf("a"), { act: "release", owner: first.owner });
    expect((await attempt(store, idOf("a"), NOW_MS + LEASE_MS + 1)).kind).to.equal("running");
    expect(await store.apply(idOf("a"), { act: "use", owner: first.owner }), "not to be served").to.equal(false);
    expect(await store.apply(idOf("a"), { act: "use", owner: second.owner })).to.equal(true);
    expect(await store.apply(idOf("a"), { act: "use", owner: second.owner }), "sent twice").to.equal(true);
  });

  it("HA25 are closed for a refund by their owner alone, and for good", async () => {
    const store = make();
    const first = await attempt(store, idOf("a"));
    const second = await attempt(store, idOf("a"), NOW_MS + LEASE_MS);
    expect(await store.apply(idOf("a"), { act: "refund", owner: first.owner }), "it was taken over").to.equal(false);
    expect((await attempt(store, idOf("a"), NOW_MS + LEASE_MS + 1)).kind).to.equal("running");
    expect(await store.apply(idOf("a"), { act: "refund", owner: second.owner })).to.equal(true);
    expect(await store.apply(idOf("a"), { act: "use", owner: second.owner }), "not to be served").to.equal(false);
    for (const act of ["release", "withdraw"] as const) await store.apply(idOf("a"), { act, owner: second.owner });
    const later = await attempt(store, idOf("a"), NOW_MS + 9 * LEASE_MS);
    expect(later).to.include({ kind: "used", isForRefund: true });
    expect(await store.served(idOf("a"), NOW_MS)).to.deep.equal({ answer: undefined, isForRefund: true });
    const used = await attempt(store, idOf("b"));
    await store.apply(idOf("b"), { act: "use", owner: used.owner });
    expect(await store.apply(idOf("b"), { act: "refund", owner: used.owner }), "it was served").to.equal(false);
    expect(await attempt(store, idOf("b"))).not.to.have.property("isForRefund");
  });

  it("are withdrawn without counting", async () => {
    const store = make();
    for (let i = 0; i < 10; i++) {
      const { kind, owner } = await attempt(store, idOf("a"));
      expect(kind).to.equal("acquired");
      await store.apply(idOf("a"), { act: "withdraw", owner });
    }
  });

  const stored = (text: string) => ({ text, nowMs: NOW_MS, keepSec: 600 });
  const answerTo = async (store: ClaimStore, id: Hex) => store.served(id, NOW_MS);

  it("HA6 store an answer with the claim that it uses, for any gate of the store", async () => {
    const store = make();
    const { owner } = await attempt(store, idOf("a"));
    expect(await answerTo(store, idOf("a")), "running").to.equal(undefined);
    await store.apply(idOf("a"), { act: "use", owner }, stored("1.k.sealed"));
    expect(await answerTo(store, idOf("a"))).to.deep.equal({ answer: "1.k.sealed" });
    const other = await attempt(store, idOf("b"));
    await store.apply(idOf("b"), { act: "use", owner: other.owner });
    expect(await answerTo(store, idOf("b"))).to.deep.equal({ answer: undefined });
    expect(await answerTo(store, idOf("c"))).to.equal(undefined);
  });

  it("HA6 store no answer of an owner that has lost its lease, nor of a released claim", async () => {
    const store = make();
    const first = await attempt(store, idOf("a"));
    const second = await attempt(store, idOf("a"), NOW_MS + LEASE_MS);
    expect(await store.apply(idOf("a"), { act: "use", owner: first.owner }, stored("1.k.first"))).to.equal(false);
    expect(await answerTo(store, idOf("a"))).to.equal(undefined);
    await store.apply(idOf("a"), { act: "release", owner: second.owner }, stored("1.k.released"));
    expect(await answerTo(store, idOf("a"))).to.equal(undefined);
    const third = await attempt(store, idOf("a"), NOW_MS + LEASE_MS);
    await store.apply(idOf("a"), { act: "use", owner: third.owner }, stored("1.k.third"));
    expect(await answerTo(store, idOf("a"))).to.deep.equal({ answer: "1.k.third" });
  });

  it("HA6 store the answer also where the lease is renewed at that moment", async () => {
    const store = make();
    const { owner } = await attempt(store, idOf("a"));
    const renewal = { act: "renew", owner, nowMs: NOW_MS + 1, leaseMs: LEASE_MS } as const;
    await Promise.all([
      store.apply(idOf("a"), renewal),
      store.apply(idOf("a"), { act: "use", owner }, stored("1.k.renewed")),
    ]);
    expect(await answerTo(store, idOf("a"))).to.deep.equal({ answer: "1.k.renewed" });
  });

  it("HA6 store answers of 64 KiB unchanged", async () => {
    const store = make();
    const text = `1.k.${"A".repeat(90_000)}`;
    const { owner } = await attempt(store, idOf("a"));
    await store.apply(idOf("a"), { act: "use", owner }, stored(text));
    expect(await answerTo(store, idOf("a"))).to.deep.equal({ answer: text });
  });
}
