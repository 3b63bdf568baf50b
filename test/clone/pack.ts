import path from "node:path";
import { expect } from "chai";
import { emptyProject } from "../package/support/packed";
import { type FreshClone, freshClone } from "../support/fresh-clone";

describe("a fresh clone after npm ci", function () {
  this.timeout(1_200_000);
  let clone: FreshClone;
  before(async () => {
    clone = await freshClone();
  });
  after(() => clone?.remove());

  it("HB1 packs a built package from its folder and from the root, which an empty project imports as ESM and CommonJS", async () => {
    for (const [cwd, args] of [
      ["sdk", []],
      [".", ["-w", "sdk"]],
    ] as const) {
      const at = path.join(clone.folder, cwd);
      const { code, stdout, stderr } = await clone.run("npm", ["pack", "--json", ...args], {}, at);
      expect(code, stdout + stderr).to.equal(0);
      const [packed] = JSON.parse(stdout) as [{ filename: string; files: { path: string }[] }];
      const files = packed.files.map((file) => file.path);
      expect(files).to.include.members([
        "dist/index.js",
        "dist/index.mjs",
        "dist/index.d.ts",
        "dist/gate/next.mjs",
        "docs/index.html",
      ]);
      const project = await emptyProject({ file: path.join(at, packed.filename), files });
      try {
        expect(await project.run("plain.mjs")).to.equal("esm 0.50\n");
        expect(await project.run("plain.cjs")).to.match(/^cjs 0x[0-9a-fA-F]{40}\n$/);
      } finally {
        await project.remove();
      }
    }
  });
});
