import { expect } from "chai";
import { Observation, type Seen } from "../../../bench/overload/observation";
import { until } from "../../support/facilitator";

describe("bench:overload: delays of the generator and of the service", () => {
  let nowMs: number;
  let observation: Observation;
  let seen: Seen;

  beforeEach(() => {
    nowMs = 0;
    observation = new Observation(() => nowMs);
    seen = observation.begin();
  });
  afterEach(() => observation.end());

  /** The generator's event loop runs while this time passes. */
  async function pass(ms: number): Promise<void> {
    const beforeMs = seen.atLeastMs();
    nowMs += ms;
    await until(async () => seen.atLeastMs() === beforeMs + ms, "the loop has seen the time");
  }
  /** The generator has no processor while this time passes. */
  const stall = (ms: number): void => {
    nowMs += ms;
  };

  it("charges the service with the time in which the generator would have read its answer", async () => {
    seen.connected();
    await pass(1_000);
    expect(seen.end()).to.deep.equal({ atLeastMs: 1_000, atMostMs: 1_000 });
  });

  it("does not charge the service with a stall of the generator before it reads the answer", async () => {
    seen.connected();
    await pass(1_000);
    stall(3_000);
    expect(seen.end()).to.deep.equal({ atLeastMs: 1_000, atMostMs: 4_000 });
  });

  it("does not charge the service with a stall of the generator before it sends the request", async () => {
    stall(3_000);
    seen.connected();
    expect(seen.sentAfterMs()).to.equal(3_000);
    await pass(1_000);
    expect(seen.end().atLeastMs).to.equal(1_000);
  });

  it("charges the service with a connection that it accepts late", async () => {
    await pass(3_000);
    seen.connected();
    expect(seen.sentAfterMs()).to.equal(0);
    await pass(1_000);
    expect(seen.end().atLeastMs).to.equal(4_000);
  });
});
