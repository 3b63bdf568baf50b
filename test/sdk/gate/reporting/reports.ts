import { expect } from "chai";
import { TurnpikeError, Unavailable } from "turnpike/protocol";
import { createReporter, MAX_SUMS, type ReporterOptions } from "../../../../sdk/src/gate/reporting/reporter";
import { NOW } from "../../../support/gate";

type Sent = Parameters<ReporterOptions["send"]>;

/** The timer never fires: tests flush. */
const NEVER_MS = 3_600_000;

function reporterOf(send: (...sent: Sent) => Promise<void> | void, more: Partial<ReporterOptions> = {}) {
  const batches: { id: string; entries: Sent[1] }[] = [];
  const clock = { sec: NOW };
  const reporter = createReporter({
    async send(id, entries, signal) {
      batches.push({ id, entries });
      await send(id, entries, signal);
    },
    nowSec: () => clock.sec,
    everyMs: NEVER_MS,
    ...more,
  });
  return { reporter, batches, clock };
}

const asked = (resource: string) => ({ step: "asked" as const, resource, cause: "PaymentRequired", amount: 5n });
const totalOf = (entries: Sent[1], step: string) =>
  entries.filter((entry) => entry.step === step).reduce((sum, { count }) => sum + count, 0);

describe("gate > reports", () => {
  it("sum equal outcomes by route, cause and hour", async () => {
    const { reporter, batches, clock } = reporterOf(() => undefined);
    reporter.count(asked("/a"));
    reporter.count(asked("/a"));
    reporter.count({ ...asked("/a"), cause: "InvalidPaymentProof/expired" });
    clock.sec += 3_600;
    reporter.count(asked("/a"));
    await reporter.flush();
    expect(batches).to.have.length(1);
    const hour = NOW - (NOW % 3_600);
    expect(batches[0]?.entries).to.deep.equal([
      { hour, resource: "/a", step: "asked", cause: "PaymentRequired", count: 2, amount: "10" },
      { hour, resource: "/a", step: "asked", cause: "InvalidPaymentProof/expired", count: 1, amount: "5" },
      { hour: hour + 3_600, resource: "/a", step: "asked", cause: "PaymentRequired", count: 1, amount: "5" },
    ]);
  });

  it("are sent again under the same id when their arrival is unknown", async () => {
    let answers = [new Unavailable("away"), undefined];
    const { reporter, batches } = reporterOf(() => {
      const [answer] = answers;
      answers = answers.slice(1);
      if (answer) throw answer;
    });
    reporter.count(asked("/a"));
    await reporter.flush();
    reporter.count(asked("/b"));
    await reporter.flush();
    expect(batches.map(({ entries }) => entries.map(({ resource }) => resource))).to.deep.equal([
      ["/a"],
      ["/a"],
      ["/b"],
    ]);
    expect(batches[1]?.id).to.equal(batches[0]?.id);
    expect(batches[2]?.id).to.not.equal(batches[0]?.id);
  });

  it("are dropped and counted as lost when they are refused", async () => {
    let refused = 1;
    const { reporter, batches } = reporterOf(() => {
      if (refused-- > 0) throw new TurnpikeError("InvalidRequest");
    });
    for (let time = 0; time < 3; time++) reporter.count(asked("/a"));
    await reporter.flush();
    await reporter.flush();
    expect(batches).to.have.length(2);
    expect(batches[1]?.entries).to.have.length(1);
    expect(batches[1]?.entries[0]).to.include({ step: "lost", count: 3, resource: "*" });
  });

  it("HC29 lose nothing when the chain's time is advanced before they are sent", async () => {
    const { reporter, batches, clock } = reporterOf(() => undefined);
    reporter.count(asked("/a"));
    clock.sec += 30 * 86_400;
    reporter.count(asked("/b"));
    await reporter.flush();
    const entries = batches.flatMap((batch) => batch.entries);
    expect(totalOf(entries, "asked")).to.equal(2);
    expect(totalOf(entries, "lost")).to.equal(0);
    for (const { hour } of entries) expect(clock.sec - hour).to.be.at.most(21 * 3_600);
  });

  it("HC30 are sent again under another hour when the Facilitator's clock is ahead of the gate's", async () => {
    const aheadSec = 30 * 86_400;
    const { reporter, batches, clock } = reporterOf((_id, entries) => {
      if (entries.some(({ hour }) => hour < NOW + aheadSec - 86_400))
        throw new TurnpikeError("InvalidRequest", "entries.0.hour: too old", { details: { field: "entries.0.hour" } });
    });
    for (let time = 0; time < 3; time++) reporter.count(asked("/a"));
    await reporter.flush();
    clock.sec += aheadSec;
    await reporter.flush();
    expect(batches).to.have.length(2);
    expect(batches[1]?.id).to.not.equal(batches[0]?.id);
    expect(batches[1]?.entries.map(({ step, count, amount }) => ({ step, count, amount }))).to.deep.equal([
      { step: "asked", count: 3, amount: "15" },
    ]);
  });

  it("HC31 are dropped, and never counted twice, when they may have arrived and are now too old", async () => {
    let answers: unknown[] = [
      new Unavailable("away"),
      new TurnpikeError("InvalidRequest", "old", { details: { field: "entries.0.hour" } }),
    ];
    const { reporter, batches, clock } = reporterOf(() => {
      const [answer] = answers;
      answers = answers.slice(1);
      if (answer) throw answer;
    });
    reporter.count(asked("/a"));
    await reporter.flush();
    clock.sec += 30 * 86_400;
    await reporter.flush();
    await reporter.flush();
    expect(batches).to.have.length(3);
    expect(batches[2]?.entries.map(({ step, count }) => ({ step, count }))).to.deep.equal([{ step: "lost", count: 1 }]);
  });

  it("use memory for a bounded number of sums, for any paths, and lose no count", async () => {
    const { reporter, batches } = reporterOf(() => undefined);
    for (let path = 0; path < 20_000; path++) reporter.count(asked(`/${path}`));
    await reporter.flush();
    const entries = batches.flatMap((batch) => batch.entries);
    expect(entries.length).to.be.at.most(MAX_SUMS + 1);
    expect(totalOf(entries, "asked")).to.equal(20_000);
    expect(entries.find(({ resource }) => resource === "*")?.count).to.equal(20_000 - MAX_SUMS);
    expect(Math.max(...batches.map((batch) => batch.entries.length))).to.be.at.most(200);
  });

  it("continue counting in that memory while a Facilitator hangs, and report how much was lost", async () => {
    const { reporter, batches } = reporterOf(
      (_id, _entries, signal) =>
        batches.length > 1
          ? undefined
          : new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason))),
      { timeoutMs: 20 },
    );
    reporter.count(asked("/first"));
    const hanging = reporter.flush();
    for (let cause = 0; cause < 5_000; cause++) reporter.count({ ...asked("/a"), cause: `Cause${cause}` });
    await hanging;
    await reporter.flush();
    const entries = batches.slice(1).flatMap((batch) => batch.entries);
    expect(entries.length).to.be.at.most(1_202);
    // The last sums exceed the limit of names: only their number is reported.
    expect(totalOf(entries, "asked") + totalOf(entries, "lost")).to.equal(5_001);
    expect(totalOf(entries, "lost")).to.be.greaterThan(3_000);
  });

  it("delay a stop for at most the given time, and count nothing after it", async () => {
    const { reporter, batches } = reporterOf(
      (_id, _entries, signal) =>
        new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason))),
      { closeMs: 20 },
    );
    reporter.count(asked("/a"));
    await reporter.close();
    await reporter.close();
    expect(batches).to.have.length(1);
  });
});
