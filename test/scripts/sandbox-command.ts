import { expect } from "chai";
import { readCommand } from "../../scripts/sandbox/command";
import { WrongOption } from "../../scripts/sandbox/options";

const read = (...args: readonly string[]) => readCommand(args, ["happy-year", "closed-plan"]);

describe("the sandbox's commands", () => {
  it("HB2 reads a command, its argument, and which sandbox and chain it is for", () => {
    expect(read("advance", "30d")).to.deep.equal({ kind: "advance", seconds: 2_592_000 });
    expect(read("scenario", "closed-plan", "--network", "local-31338")).to.deep.equal({
      kind: "scenario",
      scenario: "closed-plan",
      network: "local-31338",
    });
    expect(read("inbox", "--folder", "elsewhere")).to.deep.equal({ kind: "inbox", folder: "elsewhere" });
    for (const args of [[], ["--help"], ["help"], ["advance", "-h"]]) expect(read(...args).kind).to.equal("help");
  });

  it("HB2 options of npm start without a command start a sandbox", () => {
    for (const args of [["--chains", "2"], ["--exit"], ["--prot", "1"]]) expect(read(...args).kind).to.equal("start");
  });

  for (const [args, sentence] of [
    [["advence", "30d"], /^There is no command "advence"\. Run npm run sandbox -- --help/],
    [["toString"], /^There is no command "toString"\./],
    [["advance"], /^advance takes a time such as 30d, 12h, 90m or 45s\.$/],
    [["advance", "30"], /^advance takes a time .*, not "30"\.$/],
    [["advance", "30d", "10d"], /^Unexpected argument "10d" of advance\. Run npm run sandbox -- --help/],
    [["scenario"], /^scenario takes one of happy-year, closed-plan\.$/],
    [["scenario", "toString"], /^scenario takes one of happy-year, closed-plan, not "toString"\.$/],
    [["inbox", "payments"], /^Unexpected argument "payments" of inbox\./],
    [["advance", "1d", "--nope"], /^Unknown option '--nope'\. Run npm run sandbox -- --help/],
    [["advance", "1d", "--folder"], /^Option '--folder <value>' argument missing\. Run npm run sandbox/],
  ] as const) {
    it(`HB2 refuses ${args.join(" ")} with a sentence`, () => {
      expect(() => read(...args)).to.throw(WrongOption, sentence);
    });
  }
});
