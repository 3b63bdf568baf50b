import { execFile } from "node:child_process";
import { appendFileSync, mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { promisify } from "node:util";
import { expect } from "chai";
import fc from "fast-check";
import { type KeptReceipt, memoryReceipts } from "turnpike/agent";
import { fileReceipts } from "turnpike/agent/file-ledger";
import { type Address, addressOfKey, type Hex, keccakText, type UsageReceipt } from "turnpike/protocol";
import { type Bill, type BilledDebit, type HeldReceipt, judgeBill } from "../../../sdk/src/agent/receipts/bill";

const ID = keccakText("subscription");
const PLAN = keccakText("plan");
const SIGNER = addressOfKey(keccakText("receipts"));
const SECOND = addressOfKey(keccakText("receipts of another gate"));
const STRANGER = addressOfKey(keccakText("stranger"));

const held = (receipt: UsageReceipt, signer: Address | undefined = SIGNER): HeldReceipt => ({
  receipt,
  signer,
  signature: "0x",
});

const receiptOf = (more: Partial<UsageReceipt>): UsageReceipt => ({
  planId: PLAN,
  idHash: ID,
  version: 0,
  paidThrough: 1_000,
  sequence: 1,
  requestHash: keccakText("request"),
  unit: "token",
  units: 10n,
  unitPrice: "1/1",
  amount: 10n,
  total: 10n,
  ...more,
});

const debitOf = (more: Partial<BilledDebit>): BilledDebit => ({
  idHash: ID,
  version: 0,
  paidThrough: 1_000,
  index: 0,
  amount: 10n,
  refunded: 0n,
  transaction: ID,
  ...more,
});

const billOf = (more: Partial<Bill>): Bill => ({
  idHashes: [ID],
  debits: [],
  receipts: [],
  maySign: ({ planId }, signer) => planId === PLAN && signer === SIGNER,
  ...more,
});

const kindsOf = (bill: Bill): string[] => judgeBill(bill).findings.map(({ kind }) => kind);

/** Charges of an honest provider by cycle, and its debits: each merges some charges, and may come a cycle late. */
const timelines = fc.array(
  fc.record({
    charges: fc.array(fc.tuple(fc.integer({ min: 1, max: 50 }), fc.integer({ min: 1, max: 40 })), {
      minLength: 1,
      maxLength: 8,
    }),
    /** after how many charges the gate debits */
    every: fc.integer({ min: 1, max: 4 }),
    isLate: fc.boolean(),
    raisesCap: fc.boolean(),
  }),
  { minLength: 1, maxLength: 5 },
);

type Timeline = typeof timelines extends fc.Arbitrary<infer T> ? T : never;

function honest(timeline: Timeline): { receipts: UsageReceipt[]; debits: BilledDebit[] } {
  const receipts: UsageReceipt[] = [];
  const debits: BilledDebit[] = [];
  let [version, owed] = [0, 0n];
  timeline.forEach(({ charges, every, isLate, raisesCap }, i) => {
    if (raisesCap) version += 1;
    const cycle = { version, paidThrough: 1_000 * (i + 1) };
    const debit = () => {
      if (owed > 0n) debits.push(debitOf({ ...cycle, index: debits.length, amount: owed }));
      owed = 0n;
    };
    let total = 0n;
    charges.forEach(([units, price], at) => {
      const amount = BigInt(units) * BigInt(price);
      total += amount;
      owed += amount;
      const unitPrice = `${price}/1`;
      receipts.push(receiptOf({ ...cycle, sequence: at + 1, units: BigInt(units), unitPrice, amount, total }));
      if ((at + 1) % every === 0 && !isLate) debit();
    });
    if (!isLate || i === timeline.length - 1) debit();
  });
  return { receipts, debits };
}

const RUNS = { numRuns: 300 };

describe("A metered bill", () => {
  it("UR5 is clean where every debit has its receipts, in any order and any number of copies", () => {
    fc.assert(
      fc.property(timelines, fc.infiniteStream(fc.nat()), (timeline, picks) => {
        const { receipts, debits } = honest(timeline);
        const shuffled = [...receipts].sort(() => ((picks.next().value ?? 0) % 2 === 0 ? 1 : -1));
        const copies = shuffled.filter((_, i) => i % 3 === 0).map((one) => ({ ...one }));
        const judged = judgeBill(billOf({ debits, receipts: [...copies, ...shuffled].map((one) => held(one)) }));
        expect(judged.findings).to.deep.equal([]);
        expect(judged.cycles.at(-1)?.open).to.equal(0n);
      }),
      RUNS,
    );
  });

  /** What an overcharging provider may do to a bill that was honest. */
  const INJECTIONS: Readonly<Record<string, (bill: ReturnType<typeof honest>, at: number, extra: bigint) => void>> = {
    "a debit is raised": ({ debits }, at, extra) => {
      const debit = debits[at % debits.length] as BilledDebit;
      debits[at % debits.length] = { ...debit, amount: debit.amount + extra };
    },
    "a debit is added": ({ debits }, at, extra) => {
      const { version, paidThrough } = debits[at % debits.length] as BilledDebit;
      debits.push(debitOf({ version, paidThrough, index: debits.length, amount: extra }));
    },
    "a sum jumps, and the jump is debited": ({ receipts, debits }, at, extra) => {
      const first = at % receipts.length;
      const { version, paidThrough, sequence } = receipts[first] as UsageReceipt;
      receipts.forEach((one, i) => {
        const isLater = one.paidThrough === paidThrough && one.sequence >= sequence;
        if (isLater) receipts[i] = { ...one, total: one.total + extra };
      });
      debits.push(debitOf({ version, paidThrough, index: debits.length, amount: extra }));
    },
    "a charge is above its price, and debited": ({ receipts, debits }, at, extra) => {
      const first = at % receipts.length;
      const { version, paidThrough, sequence } = receipts[first] as UsageReceipt;
      receipts.forEach((one, i) => {
        if (one.paidThrough !== paidThrough || one.sequence < sequence) return;
        const amount = one.sequence === sequence ? one.amount + extra : one.amount;
        receipts[i] = { ...one, amount, total: one.total + extra };
      });
      debits.push(debitOf({ version, paidThrough, index: debits.length, amount: extra }));
    },
    "a number is left out, and its charge debited": ({ receipts, debits }, at, extra) => {
      const first = at % receipts.length;
      const { version, paidThrough, sequence } = receipts[first] as UsageReceipt;
      receipts.forEach((one, i) => {
        if (one.paidThrough !== paidThrough || one.sequence < sequence) return;
        receipts[i] = { ...one, sequence: one.sequence + 1, total: one.total + extra };
      });
      debits.push(debitOf({ version, paidThrough, index: debits.length, amount: extra }));
    },
    "a second receipt has a number that was used": ({ receipts, debits }, at, extra) => {
      const one = receipts[at % receipts.length] as UsageReceipt;
      receipts.push({ ...one, units: one.units + extra, amount: one.amount + extra, total: one.total + extra });
      const { version, paidThrough } = one;
      debits.push(debitOf({ version, paidThrough, index: debits.length, amount: extra }));
    },
  };

  for (const [name, inject] of Object.entries(INJECTIONS)) {
    it(`UR5 names an overcharge, however small: ${name}`, () => {
      fc.assert(
        fc.property(timelines, fc.nat(1_000), fc.integer({ min: 1, max: 1_000 }), (timeline, at, extra) => {
          const bill = honest(timeline);
          inject(bill, at, BigInt(extra));
          const kinds = kindsOf(billOf({ debits: bill.debits, receipts: bill.receipts.map((one) => held(one)) }));
          expect(kinds).not.to.deep.equal([]);
        }),
        RUNS,
      );
    });
  }

  it("states how much was debited above the receipts", () => {
    const { findings } = judgeBill(billOf({ debits: [debitOf({ amount: 25n })], receipts: [held(receiptOf({}))] }));
    expect(findings).to.deep.equal([{ kind: "excess", idHash: ID, version: 0, paidThrough: 1_000, amount: 15n }]);
  });

  it("counts a refund of a debit", () => {
    const debits = [debitOf({ amount: 25n, refunded: 15n })];
    expect(kindsOf(billOf({ debits, receipts: [held(receiptOf({}))] }))).to.deep.equal([]);
  });

  it("lets a later cycle collect what an earlier one has not, and never an earlier one what is used later", () => {
    const receipts = [held(receiptOf({})), held(receiptOf({ paidThrough: 2_000, amount: 7n, total: 7n }))];
    const late = [debitOf({ paidThrough: 2_000, amount: 17n })];
    expect(kindsOf(billOf({ debits: late, receipts }))).to.deep.equal([]);
    expect(kindsOf(billOf({ debits: [debitOf({ amount: 17n })], receipts }))).to.deep.equal(["excess"]);
  });

  it("UR11 counts the receipts of each signer apart: gates without a common store number theirs apart", () => {
    const all = [1n, 2n, 3n].flatMap((n) => {
      const receipt = receiptOf({ sequence: Number(n), total: 10n * n });
      return [held(receipt), held({ ...receipt, requestHash: ID }, SECOND)];
    });
    const maySign: Bill["maySign"] = (_receipt, signer) => signer === SIGNER || signer === SECOND;
    const judged = judgeBill(billOf({ debits: [debitOf({ amount: 60n })], receipts: all, maySign }));
    expect(judged.findings).to.deep.equal([]);
    expect(judged.cycles[0]).to.include({ receipted: 60n, receipts: 6, open: 0n });
    const { findings } = judgeBill(billOf({ debits: [debitOf({ amount: 60n })], receipts: all.slice(0, -1), maySign }));
    expect(findings, "and covers nothing that was not signed").to.deep.equal([
      { kind: "excess", idHash: ID, version: 0, paidThrough: 1_000, amount: 10n },
    ]);
  });

  it("UR6 names what a lost receipt had charged, and still counts it by the next one's sum", () => {
    const receipts = [held(receiptOf({})), held(receiptOf({ sequence: 4, total: 45n }))];
    const { cycles, findings } = judgeBill(billOf({ debits: [debitOf({ amount: 45n })], receipts }));
    expect(findings).to.deep.equal([
      { kind: "gap", idHash: ID, version: 0, paidThrough: 1_000, signer: SIGNER, from: 2, to: 3, amount: 25n },
    ]);
    expect(cycles[0]).to.include({ receipted: 45n, receipts: 2, open: 0n });
  });

  it("UR1 counts no receipt of a signer without the right, of another plan's, or of another subscription", () => {
    const debits = [debitOf({})];
    const forged = { kind: "forged", idHash: ID, version: 0, paidThrough: 1_000, sequence: 1 };
    const excess = { kind: "excess", idHash: ID, version: 0, paidThrough: 1_000, amount: 10n };
    const findings = (receipt: HeldReceipt) => judgeBill(billOf({ debits, receipts: [receipt] })).findings;
    expect(findings(held(receiptOf({}), STRANGER))).to.deep.equal([{ ...forged, signer: STRANGER }, excess]);
    expect(findings({ ...held(receiptOf({})), signer: undefined })).to.deep.equal([
      { ...forged, signer: undefined },
      excess,
    ]);
    const other = held(receiptOf({ planId: keccakText("another plan") }));
    expect(findings(other)).to.deep.equal([{ ...forged, signer: SIGNER }, excess]);
    const foreign = findings(held(receiptOf({ idHash: PLAN })));
    expect(foreign).to.deep.equal([{ kind: "foreign", idHash: PLAN, reason: "subscription" }, excess]);
  });
});

describe("A store of usage receipts", () => {
  let folder: string;

  beforeEach(() => {
    folder = mkdtempSync(path.join(tmpdir(), "turnpike-kept-"));
  });
  afterEach(() => rmSync(folder, { recursive: true, force: true }));

  const where = { chainId: 31_337, turnpike: SIGNER, idHash: ID };
  const kept = (text: string, more: Partial<KeptReceipt> = {}): KeptReceipt => ({ ...where, text, ...more });
  const textsOf = (receipts: readonly KeptReceipt[]) => receipts.map(({ text }) => text);

  for (const name of ["memory", "file"]) {
    it(`keeps each receipt once, by subscription, with what is wrong with it (${name})`, async () => {
      const store = name === "memory" ? memoryReceipts() : fileReceipts(path.join(folder, "receipts"));
      await store.add([kept("one"), kept("two", { fault: "request" }), kept("one")]);
      await store.add([kept("one"), kept("three"), kept("other", { idHash: PLAN as Hex })]);
      const found = await store.list(where);
      expect(textsOf(found)).to.deep.equal(["one", "two", "three"]);
      expect(found.map(({ fault }) => fault)).to.deep.equal([undefined, "request", undefined]);
      expect(textsOf(await store.list({ ...where, idHash: PLAN }))).to.deep.equal(["other"]);
      expect(await store.list({ ...where, chainId: 1 })).to.deep.equal([]);
    });
  }

  it("UR7 loses one line at most where a process was killed while it wrote", async () => {
    const store = fileReceipts(folder);
    await store.add([kept("one")]);
    const [file] = readdirSync(folder);
    appendFileSync(path.join(folder, file as string), "\ntor");
    await fileReceipts(folder).add([kept("two")]);
    expect(textsOf(await store.list(where))).to.include.members(["one", "two"]);
  });

  it("UR7 keeps everything that several processes write at once", async () => {
    const program = `
      const { fileReceipts } = require("turnpike/agent/file-ledger");
      const [folder, name] = process.argv.slice(1);
      const store = fileReceipts(folder);
      (async () => {
        for (let i = 0; i < 200; i++) {
          await store.add([{ chainId: 31337, turnpike: "${SIGNER}", idHash: "${ID}", text: name + "-" + i + "-" + "x".repeat(400) }]);
        }
      })();`;
    const run = (name: string) =>
      promisify(execFile)(process.execPath, ["-r", "hardhat/register", "-e", program, folder, name]);
    await Promise.all([run("a"), run("b"), run("c")]);
    const texts = textsOf(await fileReceipts(folder).list(where));
    expect(new Set(texts).size).to.equal(600);
    for (const text of texts) expect(text).to.match(/^[abc]-\d+-x{400}$/);
  }).timeout(120_000);
});
