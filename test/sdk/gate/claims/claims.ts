import { spawn } from "node:child_process";
import { appendFileSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { expect } from "chai";
import { type ClaimStore, ConfigError, fileClaims, memoryClaims } from "turnpike/gate";
import { openNewest, writeNext } from "../../../../sdk/src/gate/cells/log/generations";
import { endLine } from "../../../../sdk/src/gate/cells/log/line";
import { RUN_TYPESCRIPT } from "../../../support/typescript";
import { attempt, idOf, LEASE_MS, NOW_MS, NOW_SEC, testClaimStore } from "../support/claim-store";
import { testOneGrant } from "../support/one-grant";

describe("claims", () => {
  let folder: string;
  let open: ClaimStore[];

  beforeEach(() => {
    folder = mkdtempSync(path.join(tmpdir(), "turnpike-claims-"));
    open = [];
  });
  afterEach(async () => {
    for (const store of open) await store.close();
    rmSync(folder, { recursive: true, force: true });
  });

  const file = (rotateBytes?: number) => {
    const store = fileClaims({ folder, ...(rotateBytes === undefined ? {} : { rotateBytes }) });
    open.push(store);
    return store;
  };
  const STORES = { "in a file": () => file(), "in memory": () => memoryClaims({ warn: false }) };

  for (const [where, make] of Object.entries(STORES)) describe(where, () => testClaimStore(make));

  for (const [where, make] of Object.entries(STORES)) {
    it(`HA6 give up an answer ${where} after its time, and keep its claim`, async () => {
      const store = make();
      for (const name of ["a", "b"]) {
        const { owner } = await attempt(store, idOf(name));
        const nowMs = name === "a" ? NOW_MS : NOW_MS + 700_000;
        const answer = { text: `1.k.${name}`, nowMs, keepSec: 600 };
        await store.apply(idOf(name), { act: "use", owner }, answer);
        expect(await store.served?.(idOf(name), nowMs + 599_999)).to.deep.equal({ answer: `1.k.${name}` });
        expect(await store.served?.(idOf(name), nowMs + 600_000)).to.deep.equal({ answer: undefined });
      }
      expect((await attempt(store, idOf("a"))).kind).to.equal("used");
    });
  }

  it("HA6 keep answers in a file through a restart and a rotation, and remove what has ended", async () => {
    const store = file(1);
    const answers = path.join(folder, "answers");
    const keep = async (name: string, nowMs: number) => {
      const { owner } = await attempt(store, idOf(name));
      await store.apply(idOf(name), { act: "use", owner }, { text: `1.k.${name}`, nowMs, keepSec: 600 });
      await new Promise(setImmediate);
    };
    for (let i = 0; i < 20; i++) await keep(`n${i}`, NOW_MS);
    const after = file();
    for (let i = 0; i < 20; i++)
      expect(await after.served?.(idOf(`n${i}`), NOW_MS)).to.deep.equal({ answer: `1.k.n${i}` });
    expect(readdirSync(answers)).to.have.length(1);
    await keep("later", NOW_MS + 1_000_000);
    expect(readdirSync(answers), "the older ones are gone").to.have.length(1);
    expect(await after.served?.(idOf("n1"), NOW_MS)).to.deep.equal({ answer: undefined });
  });

  it("HA6 keep no more answers in a slot of the file than fit there", async () => {
    const store = file();
    const ids = Array.from({ length: 6 }, (_, i) => `0x00${String(i).padStart(62, "0")}` as const);
    const kept: boolean[] = [];
    for (const id of ids) {
      const { owner } = await attempt(store, id);
      await store.apply(id, { act: "use", owner }, { text: "A".repeat(90_000), nowMs: NOW_MS, keepSec: 600 });
      kept.push((await store.served?.(id, NOW_MS))?.answer !== undefined);
    }
    expect(kept).to.deep.equal([true, true, true, false, false, false]);
  });

  it("HA6 keep no more answers in a file than answersBytes, and delete those that end first", async () => {
    const store = fileClaims({ folder, answersBytes: 200_000 });
    open.push(store);
    const isKept = async (name: string) => (await store.served?.(idOf(name), NOW_MS))?.answer !== undefined;
    const keep = async (name: string, minute: number) => {
      const { owner } = await attempt(store, idOf(name));
      const answer = { text: "A".repeat(60_000), nowMs: NOW_MS + minute * 60_000, keepSec: 600 };
      expect(await store.apply(idOf(name), { act: "use", owner }, answer)).to.equal(true);
    };
    for (const minute of [0, 1, 2, 3]) await keep(`m${minute}`, minute);
    expect(await Promise.all(["m0", "m1", "m2", "m3"].map(isKept))).to.deep.equal([false, true, true, true]);
    for (const more of ["a", "b", "c"]) await keep(more, 3);
    expect(await Promise.all(["m1", "m2", "m3", "a", "b", "c"].map(isKept))).to.deep.equal([
      false,
      false,
      true,
      true,
      true,
      false,
    ]);
    expect(() => fileClaims({ folder, answersBytes: -1 })).to.throw(ConfigError, /answersBytes/);
  });

  it("C18 survive a restart, running ones too", async () => {
    const before = file();
    const used = await attempt(before, idOf("used"));
    await before.apply(idOf("used"), { act: "use", owner: used.owner });
    await attempt(before, idOf("running"));
    await before.close();
    const after = file();
    expect((await attempt(after, idOf("used"))).kind).to.equal("used");
    expect((await attempt(after, idOf("running"))).kind).to.equal("running");
    expect((await attempt(after, idOf("running"), NOW_MS + LEASE_MS)).kind).to.equal("acquired");
  });

  it("are not confused by torn or foreign lines", async () => {
    const store = file();
    const { owner } = await attempt(store, idOf("a"));
    await store.apply(idOf("a"), { act: "use", owner });
    const [name] = readdirSync(folder).filter((entry) => entry.endsWith(".log"));
    const torn = `\nA ${idOf("a")} withdraw ${owner} 0 0 0`;
    appendFileSync(path.join(folder, name as string), `${torn}\nS ${idOf("a")} free\n;;\n{}\nA ${idOf("b")} cla`);
    expect((await attempt(store, idOf("a"))).kind).to.equal("used");
    expect((await attempt(store, idOf("b"))).kind).to.equal("acquired");
    expect((await attempt(file(), idOf("a"))).kind).to.equal("used");
    expect((await attempt(file(), idOf("b"))).kind).to.equal("running");
  });

  it("are carried over when the file is rotated, until nobody could present them any more", async () => {
    const one = file(4_000);
    const two = file(4_000);
    for (let i = 0; i < 200; i++) {
      const [first, second] = await Promise.all([attempt(one, idOf(i)), attempt(two, idOf(i))]);
      const [winner, store] = first.kind === "acquired" ? [first, one] : [second, two];
      expect([first.kind, second.kind].filter((kind) => kind === "acquired")).to.have.length(1);
      await store.apply(idOf(i), { act: "use", owner: winner.owner });
      await new Promise(setImmediate);
    }
    expect(readdirSync(folder).some((name) => /gate-[1-9]/.test(name))).to.equal(true);
    for (let i = 0; i < 200; i++) expect((await attempt(two, idOf(i))).kind).to.equal("used");

    const later = NOW_SEC + 2_000;
    const act = { act: "claim", owner: "late", nowMs: NOW_MS, leaseMs: LEASE_MS, keepUntilSec: later + 1 } as const;
    for (let i = 0; i < 400; i++) {
      await one.claim(idOf(`late ${i}`), { ...act, owner: `late${i}` }, later);
      await new Promise(setImmediate);
    }
    await one.close();
    const newest = readdirSync(folder)
      .filter((name) => name.endsWith(".log"))
      .sort((a, b) => Number(b.slice(5, -4)) - Number(a.slice(5, -4)))[0] as string;
    expect(readFileSync(path.join(folder, newest), "latin1")).to.not.include(idOf(0));
  });

  it("wait together while another process rotates the file, and no longer than it takes", async () => {
    const store = file();
    const place = { folder, name: "gate" };
    const [ended, writer] = [path.join(folder, "gate-0.log"), openNewest(place)];
    appendFileSync(ended, endLine(0));
    const startedMs = performance.now();
    const waiting = ["a", "b", "c"].map((name) => attempt(store, idOf(name)));
    await new Promise((resolve) => setTimeout(resolve, 50));
    const written = writeNext(place, writer, 0);
    for (const { kind } of await Promise.all(waiting)) expect(kind).to.equal("acquired");
    await written;
    expect(performance.now() - startedMs).to.be.lessThan(3_000);
    expect(readdirSync(folder).filter((name) => name.endsWith(".log"))).to.deep.equal(["gate-1.log"]);
  });

  it("are moved to the next file once, however many requests wait for it", async () => {
    const store = file();
    // Its writer died in the rotation.
    appendFileSync(path.join(folder, "gate-0.log"), endLine(0));
    const waiting = await Promise.all(Array.from({ length: 15 }, (_, i) => attempt(store, idOf(i))));
    expect(waiting.map(({ kind }) => kind)).to.deep.equal(Array(15).fill("acquired"));
    expect(readdirSync(folder).filter((name) => name.endsWith(".log"))).to.deep.equal(["gate-1.log"]);
  });

  it("C1 are granted once among processes that share the folder, also when one is killed", async function () {
    this.timeout(120_000);
    const script = path.join(__dirname, "../../../support/claim-process.ts");
    const workers = Array.from({ length: 3 }, (_, i) => {
      const args = [...RUN_TYPESCRIPT, script, folder, `w${i}`, "400"];
      const child = spawn(process.execPath, args, { stdio: ["ignore", "pipe", "inherit"] });
      const acquired: string[] = [];
      child.stdout.on("data", (chunk: Buffer) => {
        acquired.push(...chunk.toString().split("\n").filter(Boolean));
        if (i === 0 && acquired.length > 20) child.kill("SIGKILL");
      });
      return new Promise<string[]>((resolve) => child.on("close", () => resolve(acquired)));
    });
    const acquired = (await Promise.all(workers)).flat();
    expect(acquired.length).to.be.above(300);
    expect(new Set(acquired).size).to.equal(acquired.length);
  });

  testOneGrant("one folder", () => ({ kind: "file", folder }));

  it("say which folder cannot be used", () => {
    appendFileSync(path.join(folder, "file"), "");
    expect(() => fileClaims({ folder: path.join(folder, "file") })).to.throw(ConfigError, /claims/);
  });
});
