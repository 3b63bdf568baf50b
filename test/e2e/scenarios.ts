import { expect } from "chai";
import { play, type ScenarioName } from "../../scripts/sandbox/scenarios";
import { stateOf } from "../../scripts/sandbox/state";
import { startSandbox, type World } from "../support/sandbox";

/** `SCENARIOS=all` runs the long ones too, which step through months by hours. */
const isAll = process.env.SCENARIOS === "all";

describe("sandbox scenarios", function () {
  this.timeout(1_200_000);
  let world: World;

  before(async () => {
    world = await startSandbox({ withInbox: true });
    // The account that mints a scenario's tokens: the program funds it, and a test does not run the program.
    await world.chain.wallet("visitor 1");
  });
  after(() => world?.stop());

  async function linesOf(name: ScenarioName): Promise<string[]> {
    const lines: string[] = [];
    await play(name, stateOf(world), (line) => lines.push(line));
    return lines;
  }

  it("closed-plan: a deprecated plan refuses, its successor takes", async () => {
    expect(await linesOf("closed-plan")).to.deep.equal([
      "The plan of last year is closed: PlanDeprecated.",
      "Its successor is open: the report answers 200.",
    ]);
  });

  it("exhausted-allowance: served to the cap, then 402; raised; reset a month later", async () => {
    expect(await linesOf("exhausted-allowance")).to.deep.equal([
      "4 calls were served; the next one is answered 402: the cap of this cycle is reached.",
      "The cap is raised: 200.",
      "A month later the cap is reset: 200.",
    ]);
  });

  if (!isAll) return;

  it("failing-card: served in its grace, PAST_DUE, EXPIRED, and resumed with money", async () => {
    expect(await linesOf("failing-card")).to.deep.equal([
      "Subscribed: ACTIVE.",
      "The account is empty now.",
      "An hour after the renewal was due, in its grace: ACTIVE.",
      "Three days later, its grace over: PAST_DUE.",
      "A period later: EXPIRED.",
      "Money is back and the subscriber resumed: ACTIVE.",
    ]);
  });

  it("happy-year: twelve renewals without the agent", async () => {
    const lines = await linesOf("happy-year");
    expect(lines).to.have.length(14);
    for (const line of lines.slice(1, 13)) expect(line).to.match(/^Month \d+ over: ACTIVE, paid through/);
    expect(new Set(lines.slice(1, 13).map((line) => line.split(" ").at(-1))).size).to.equal(12);
    expect(lines.at(-1)).to.equal("The report answers 200.");
  });
});
