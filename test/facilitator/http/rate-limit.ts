import { expect } from "chai";
import { createRateLimit } from "../../../facilitator/src/http/rate-limit";

describe("Facilitator: rate limit", () => {
  let nowMs = 0;
  beforeEach(() => {
    nowMs = 0;
  });
  const refusals = (act: () => void, times: number): number => {
    let refused = 0;
    for (let i = 0; i < times; i++) {
      try {
        act();
      } catch (error) {
        expect(error).to.include({ code: "RateLimited" });
        refused++;
      }
    }
    return refused;
  };

  it("lets a burst through, then as many as the minute has, each for itself", () => {
    const limit = createRateLimit(60, () => nowMs);
    expect(refusals(() => limit.take("a"), 70)).to.equal(10);
    expect(refusals(() => limit.take("b"), 60)).to.equal(0);
    nowMs = 999;
    expect(refusals(() => limit.take("a"), 1)).to.equal(1);
    nowMs = 1_000;
    expect(refusals(() => limit.take("a"), 2)).to.equal(1);
    nowMs = 3_600_000;
    expect(
      refusals(() => limit.take("a"), 61),
      "no more than a minute's worth is saved up",
    ).to.equal(1);
  });

  it("says when the next one is due", () => {
    const limit = createRateLimit(2, () => nowMs);
    limit.take("a");
    limit.take("a");
    try {
      limit.take("a");
      expect.fail("it is let through");
    } catch (error) {
      expect(error).to.include({ code: "RateLimited", retryAfterSec: 30 });
    }
  });

  it("S11 remembers a bounded number of askers, however many there are", () => {
    const limit = createRateLimit(1, () => nowMs);
    limit.take("first");
    global.gc?.();
    const before = process.memoryUsage().heapUsed;
    for (let i = 0; i < 60_000; i++) limit.take(`asker ${i}`);
    global.gc?.();
    expect(process.memoryUsage().heapUsed - before).to.be.lessThan(32 * 1_048_576);
    expect(
      refusals(() => limit.take("asker 59999"), 1),
      "the newest are remembered",
    ).to.equal(1);
    expect(
      refusals(() => limit.take("first"), 1),
      "the oldest is forgotten",
    ).to.equal(0);
  });
});
