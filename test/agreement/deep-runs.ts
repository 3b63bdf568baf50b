import { existsSync, readFileSync } from "node:fs";
import { expect } from "chai";

interface Stage {
  readonly args: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
  readonly paths: readonly string[];
}

const { STAGES, subjectOf } = require("../../tools/deep.cjs") as {
  STAGES: Readonly<Record<string, Stage>>;
  subjectOf(stage: Stage): string | undefined;
};

describe("agreement > the deep run", () => {
  it("docs/engineering/deep-runs.md says what each stage runs", () => {
    const [rows = ""] = readFileSync("docs/engineering/deep-runs.md", "utf8").split("## Results");
    const named = [...rows.matchAll(/^\| (`.+?) \|/gm)].flatMap(([, names = ""]) => names.split(", "));
    expect(named.sort()).to.deep.equal(
      Object.keys(STAGES)
        .map((name) => `\`${name}\``)
        .sort(),
    );
  });

  it("keeps a stage's result by its command and by files that exist", function () {
    for (const [name, { paths }] of Object.entries(STAGES)) {
      for (const path of paths) expect(existsSync(path), `${name}: ${path}`).to.equal(true);
    }
    // A folder that no stage depends on is committed, and so has a subject where there is a repository.
    const [one, other] = ["1", "2"].map((depth) => subjectOf({ args: [], env: { DEPTH: depth }, paths: ["LICENSE"] }));
    if (one === undefined) return this.skip();
    expect(one).not.to.equal(other);
    expect(subjectOf({ args: [], env: { DEPTH: "1" }, paths: ["LICENSE"] })).to.equal(one);
    expect(subjectOf({ args: [], env: { DEPTH: "1" }, paths: ["LICENSE", "README.md"] })).not.to.equal(one);
  });
});
