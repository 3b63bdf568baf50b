import { readFileSync } from "node:fs";
import { expect } from "chai";

const PACKAGES = {
  Root: "package.json",
  "`turnpike`": "sdk/package.json",
  "`turnpike-facilitator`": "facilitator/package.json",
};

interface Manifest {
  readonly [kind: string]: Record<string, string> | undefined;
}

function declaredIn(file: string): Record<string, string> {
  const manifest = JSON.parse(readFileSync(file, "utf8")) as Manifest;
  return {
    ...manifest.dependencies,
    ...manifest.devDependencies,
    ...manifest.optionalDependencies,
    ...manifest.peerDependencies,
  };
}

describe("agreement > dependencies", () => {
  const sections = readFileSync("docs/engineering/dependencies.md", "utf8").split("\n## ").slice(1);

  for (const [heading, file] of Object.entries(PACKAGES)) {
    it(`docs/engineering/dependencies.md says why each dependency of ${file} is there, and of no other`, () => {
      const section = sections.find((text) => text.startsWith(`${heading}:`) || text.startsWith(`${heading},`)) ?? "";
      const explained = [...section.matchAll(/^\| `([^`]+)` \| \S/gm)].map((match) => match[1]);
      expect(explained.sort()).to.deep.equal(Object.keys(declaredIn(file)).sort());
    });
  }

  it("every version is exact, peers aside", () => {
    for (const file of Object.values(PACKAGES)) {
      const manifest = JSON.parse(readFileSync(file, "utf8")) as Manifest;
      for (const kind of ["dependencies", "devDependencies", "optionalDependencies"]) {
        for (const [name, version] of Object.entries(manifest[kind] ?? {})) {
          expect(version, `${name} in ${file}`).to.match(/^(npm:\w+@)?\d+\.\d+\.\d+(-[\w.]+)?$/);
        }
      }
    }
  });
});
