import { expect } from "chai";
import { ConfigError, type Hex, Unavailable } from "turnpike/protocol";
import { Collection, type CollectionFault } from "../../../../sdk/src/gate/metering/collection";
import type { MeterEvent } from "../../../../sdk/src/gate/metering/store";

const [PLAN, OTHER]: readonly [Hex, Hex] = [`0x${"11".repeat(32)}`, `0x${"22".repeat(32)}`];
const FAULT: CollectionFault = { reason: "NotOperator", message: "operatorKey is no operator" };

describe("whether debits can be collected", () => {
  let nowMs: number;
  let faults: Map<Hex, CollectionFault>;
  let isDown: boolean;
  let asked: (readonly Hex[])[];
  let during: () => void;
  let events: MeterEvent[];
  let warnings: string[];
  let collection: Collection;

  beforeEach(() => {
    [nowMs, isDown, faults] = [0, false, new Map()];
    [asked, events, warnings] = [[], [], []];
    during = () => undefined;
    collection = new Collection({
      right: {
        async check(planIds) {
          asked.push(planIds);
          const answer = planIds.map((planId) => faults.get(planId));
          during();
          await Promise.resolve();
          if (isDown) throw new Unavailable("down");
          return answer;
        },
        checkKey: async () => faults.get(PLAN),
        isTouched: (planId, topics) => topics.has(planId),
      },
      report: (event) => void events.push(event),
      warn: (message) => void warnings.push(message),
      monotonicMs: () => nowMs,
    });
  });
  afterEach(() => collection.close());

  const codeOf = (work: Promise<void>): Promise<string> =>
    work.then(
      () => "proved",
      (error) => error.code,
    );

  it("HA4 asks once for all waiting requests, and serves nothing before the answer", async () => {
    expect(collection.isProved(PLAN)).to.equal(false);
    await Promise.all(Array.from({ length: 100 }, () => collection.prove([PLAN])));
    expect(asked).to.deep.equal([[PLAN]]);
    expect(collection.isProved(PLAN)).to.equal(true);
    expect(collection.isProved(OTHER)).to.equal(false);
    expect(events).to.deep.equal([]);
  });

  it("HA4 keeps a proved right through an outage of the peer, and loses it only by an answer", async () => {
    await collection.prove([PLAN]);
    [nowMs, isDown] = [60_000, true];
    expect(collection.isProved(PLAN)).to.equal(true);
    await new Promise((resolve) => setImmediate(resolve));
    expect(asked).to.have.length(2);
    expect(collection.isProved(PLAN)).to.equal(true);
    [nowMs, isDown] = [120_000, false];
    faults.set(PLAN, FAULT);
    expect(collection.isProved(PLAN), "the answer is under way").to.equal(true);
    await new Promise((resolve) => setImmediate(resolve));
    expect(collection.isProved(PLAN)).to.equal(false);
    expect(events).to.deep.equal([{ kind: "uncollectable", planId: PLAN, ...FAULT }]);
    expect(warnings).to.have.length(1);
  });

  it("HA4 checks a lost right once a second for any number of requests, and uses it again once restored", async () => {
    faults.set(PLAN, FAULT);
    for (let i = 0; i < 50; i++) expect(await codeOf(collection.prove([PLAN]))).to.equal("ConfigError");
    expect(asked).to.have.length(1);
    nowMs += 1_000;
    faults.clear();
    expect(await codeOf(collection.prove([PLAN]))).to.equal("proved");
    expect(events.map(({ kind }) => kind)).to.deep.equal(["uncollectable", "collectable"]);
    expect(warnings, "ready() has reported it").to.deep.equal([]);
  });

  it("HA4 waits for a new answer after a doubt, and uses no earlier one", async () => {
    await collection.prove([PLAN, OTHER]);
    faults.set(PLAN, FAULT);
    collection.onBlocks(new Set([PLAN]));
    expect(collection.isProved(PLAN)).to.equal(false);
    expect(collection.isProved(OTHER), "no block touched it").to.equal(true);
    expect(await codeOf(collection.prove([PLAN]))).to.equal("ConfigError");

    // The right is revoked between the request and the response.
    faults.clear();
    nowMs += 1_000;
    during = () => {
      during = () => undefined;
      faults.set(PLAN, FAULT);
      collection.doubt();
    };
    expect(await codeOf(collection.prove([PLAN]))).to.equal("ConfigError");
  });

  it("HA4 throws Unavailable, not ConfigError, when the right cannot be checked", async () => {
    isDown = true;
    expect(await codeOf(collection.prove([PLAN]))).to.equal("Unavailable");
    expect(await codeOf(collection.proveAny([PLAN]))).to.equal("Unavailable");
  });

  it("HA4 accepts a key that may debit one of the plans, and refuses one that may debit none", async () => {
    faults.set(PLAN, FAULT);
    expect(await codeOf(collection.proveAny([PLAN, OTHER]))).to.equal("proved");
    faults.set(OTHER, FAULT);
    const error = await collection.proveAny([OTHER]).catch((reason) => reason);
    expect(error).to.be.instanceOf(ConfigError);
    expect(await codeOf(collection.proveAny([])), "the key itself").to.equal("ConfigError");
    expect(events).to.deep.equal([]);
  });
});
