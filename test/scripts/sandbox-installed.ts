import { mkdirSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { expect } from "chai";
import { installed } from "../../scripts/sandbox/installed";

describe("what the package's sandbox finds installed", () => {
  const home = realpathSync(mkdtempSync(path.join(tmpdir(), "turnpike installed ")));
  const own = path.join(home, "node_modules/of-the-project");

  before(() => {
    mkdirSync(own, { recursive: true });
    writeFileSync(path.join(own, "index.js"), "");
  });
  after(() => rmSync(home, { recursive: true }));

  it("is in the project, also where npx has the program elsewhere", () => {
    expect(installed("of-the-project", home)).to.deep.equal([path.join(own, "index.js")]);
    expect(installed("of-the-project", path.join(home, "src"))).to.deep.equal([path.join(own, "index.js")]);
  });

  it("is beside the program first", () => {
    const [first, ...others] = installed("ethers", home);
    expect([first, others]).to.deep.equal([require.resolve("ethers"), []]);
  });

  it("is nothing where neither has it", () => {
    expect(installed("of-the-project", tmpdir())).to.deep.equal([]);
  });
});
