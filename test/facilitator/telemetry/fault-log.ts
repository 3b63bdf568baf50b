import { expect } from "chai";
import pino from "pino";
import { Unavailable } from "turnpike/protocol";
import { createFaultLog } from "../../../facilitator/src/telemetry/fault-log";

describe("fault log", () => {
  let nowMs = 0;
  let lines: Record<string, unknown>[] = [];
  const log = pino({ level: "info" }, { write: (line: string) => void lines.push(JSON.parse(line)) });
  const faultLog = () => createFaultLog({ log, monotonicMs: () => nowMs });
  const said = () => lines.map(({ level, reason, repeated }) => [level, reason, repeated]);

  beforeEach(() => {
    nowMs = 0;
    lines = [];
  });

  it("HD6 says a fault at once, then every ten seconds how often it was met, also where two alternate", () => {
    const faults = faultLog();
    for (let time = 0; time < 40; time += 1) {
      nowMs = time * 250;
      faults.met("round", new Unavailable("away"), "it pauses");
      faults.met("round", new Unavailable("refused"), "it pauses");
    }
    nowMs = 10_000;
    faults.met("round", new Unavailable("away"), "it pauses");
    expect(said()).to.deep.equal([
      [40, "away", undefined],
      [40, "refused", undefined],
      [40, "away", 39],
    ]);
    expect(JSON.stringify(lines)).not.to.contain("stack");
  });

  it("HD6 says it at once again after the work has succeeded, and a fault of the program with its stack", () => {
    const faults = faultLog();
    faults.met("round", new Unavailable("away"), "it pauses");
    faults.recovered("round");
    faults.met("round", new Unavailable("away"), "it pauses");
    faults.met("round", new TypeError("x is undefined"), "it pauses");
    expect(said().map(([level]) => level)).to.deep.equal([40, 40, 50]);
    expect(lines[2]).to.have.property("error");
  });
});
