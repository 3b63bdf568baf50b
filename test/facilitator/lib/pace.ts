import { expect } from "chai";
import { Pace } from "../../../facilitator/src/lib/pace";

describe("Facilitator: the pace of a queue", () => {
  let nowMs: number;
  let pace: Pace;

  beforeEach(() => {
    nowMs = 0;
    pace = new Pace(() => nowMs);
  });

  /** One payment in ten milliseconds leaves, for so long. */
  function workOff(ms: number): void {
    for (const endMs = nowMs + ms; nowMs < endMs; ) {
      nowMs += 10;
      pace.left(1, 100);
    }
  }

  it("B14 expects the wait of the last place from what has left lately, however young the oldest is", () => {
    pace.arrived();
    workOff(1_000);
    expect(pace.expectedWaitMs(300)).to.equal(3_000);
    workOff(60_000);
    expect(pace.expectedWaitMs(300)).to.be.closeTo(3_000, 10);
  });

  it("expects nothing before there is a pace, and after the queue was empty", () => {
    expect(pace.expectedWaitMs(300)).to.equal(0);
    pace.arrived();
    workOff(900);
    expect(pace.expectedWaitMs(300)).to.equal(0);
    workOff(500);
    pace.left(1, 0);
    pace.arrived();
    expect(pace.expectedWaitMs(300)).to.equal(0);
  });

  it("takes a few that left first for no pace: of fifty that come at once the rest may leave together", () => {
    pace.arrived();
    nowMs += 1_100;
    pace.left(1, 49);
    expect(pace.expectedWaitMs(49)).to.equal(0);
    nowMs += 3_900;
    expect(pace.expectedWaitMs(49)).to.equal(245_000);
  });

  it("expects nothing while nothing leaves: then the age of the oldest counts", () => {
    pace.arrived();
    workOff(2_000);
    nowMs += 6_000;
    expect(pace.expectedWaitMs(300)).to.equal(0);
  });
});
