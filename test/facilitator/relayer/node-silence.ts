import { expect } from "chai";
import type { NodeHealth } from "../../../facilitator/src/chain/node-health";
import { NodeSilence } from "../../../facilitator/src/relayer/node-silence";

/** The lease's life is the limit, which is shorter than the silence that is normal for a slow chain. */
const LEASE_MS = 20_000;
const LIMIT_MS = LEASE_MS;

describe("node silence of a lane", () => {
  function setUp() {
    const state = { nowMs: 1_000, answeredSec: 0 };
    const node = (): NodeHealth => ({ position: 1, host: "node", status: "well", answeredSec: state.answeredSec });
    const silence = new NodeSilence({
      config: { blockTimeMs: 12_000, pollMs: 1_000, laneLeaseMs: LEASE_MS },
      nodes: { nodes: () => [node()] },
      monotonicMs: () => state.nowMs,
    });
    return { state, silence };
  }

  it("is reported at the second check in a row, since the first may be caused by a pause of this process", () => {
    const { state, silence } = setUp();
    state.nowMs += LIMIT_MS;
    state.answeredSec = LIMIT_MS / 1_000;
    expect(silence.check()).to.equal(false);
    expect(silence.check()).to.equal(true);
    expect(silence.check()).to.equal(true);
  });

  it("begins with the last round that succeeded, one millisecond before the limit is none", () => {
    const { state, silence } = setUp();
    state.nowMs += LIMIT_MS;
    state.answeredSec = LIMIT_MS / 1_000;
    silence.check();
    silence.succeeded();
    state.nowMs += LIMIT_MS - 1;
    expect([silence.check(), silence.check()]).to.deep.equal([false, false]);
    state.nowMs += 1;
    expect([silence.check(), silence.check()]).to.deep.equal([false, true]);
  });

  it("ends when a node answers, and is counted from the first check again", () => {
    const { state, silence } = setUp();
    state.nowMs += LIMIT_MS;
    state.answeredSec = LIMIT_MS / 1_000;
    expect([silence.check(), silence.check()]).to.deep.equal([false, true]);
    state.answeredSec = 0;
    expect(silence.check()).to.equal(false);
    state.answeredSec = LIMIT_MS / 1_000;
    expect([silence.check(), silence.check()]).to.deep.equal([false, true]);
  });
});
