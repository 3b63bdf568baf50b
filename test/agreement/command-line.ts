import { readFileSync } from "node:fs";
import { expect } from "chai";
import { COMMANDS } from "../../sdk/src/cli/commands";
import { helpOf } from "../../sdk/src/cli/program";
import { PROBLEMS } from "../../sdk/src/cli/validate/problem";
import { VERSION } from "../../sdk/src/cli/version";

const { withHelp } = require("../../tools/cli-reference.cjs") as { withHelp(page: string): string };

const page = withHelp(readFileSync("docs/reference/cli.md", "utf8"));
const blocks = [...page.matchAll(/```text\n([\s\S]*?)```/g)].map(([, text]) => text);

describe("agreement > command line", () => {
  it("the page of the site shows the help of the program and of each command, and no other", () => {
    expect(blocks).to.deep.equal([helpOf(), ...COMMANDS.map(({ name }) => helpOf(name))]);
  });

  it("the page of the site lists every problem that validate names, and no other", () => {
    const listed = page.split("\n").filter((line) => /^\| `\w+` \| (error|warning) \|/.test(line));
    const expected = Object.entries(PROBLEMS).map(
      ([code, { level, about }]) => `| \`${code}\` | ${level} | ${about} |`,
    );
    expect(listed).to.deep.equal(expected);
  });

  it("the version that the program prints is the package's, and the package has the program", () => {
    const { version, bin } = JSON.parse(readFileSync("sdk/package.json", "utf8"));
    expect([VERSION, bin]).to.deep.equal([version, { turnpike: "dist/cli.js" }]);
  });
});
