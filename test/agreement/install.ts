import { readFileSync } from "node:fs";
import { expect } from "chai";

interface Locked {
  readonly name?: string;
  readonly version?: string;
  readonly deprecated?: string;
  readonly hasInstallScript?: boolean;
  readonly engines?: { readonly node?: string };
}

const { packages }: { packages: Record<string, Locked> } = JSON.parse(readFileSync("package-lock.json", "utf8"));
const root = JSON.parse(readFileSync("package.json", "utf8"));
const installed = Object.entries(packages).filter(([place]) => place.includes("node_modules/"));
const nameOf = (place: string): string => place.slice(place.lastIndexOf("node_modules/") + "node_modules/".length);

describe("agreement > npm ci prints no warning of ours", () => {
  it("HB3 every locked package runs on the oldest Node that this project names", () => {
    const oldest = /^>=(\d+\.\d+)$/.exec(root.engines.node)?.[1] ?? "";
    const strange = installed.filter(([, { engines }]) => engines?.node && !admits(engines.node, oldest));
    expect(strange.map(([place, { version }]) => `${place}@${version}`)).to.deep.equal([]);
  });

  it("HB3 no locked package is deprecated", () => {
    const deprecated = installed.filter(([, one]) => one.deprecated !== undefined);
    expect(deprecated.map(([place]) => place)).to.deep.equal([]);
  });

  it("HB3 allowScripts decides on every package with an install script, and on no other", () => {
    const scripted = installed.filter(([, one]) => one.hasInstallScript).map(([place]) => nameOf(place));
    expect(Object.keys(root.allowScripts ?? {}).sort()).to.deep.equal([...new Set(scripted)].sort());
  });
});

/** Whether a range of the forms that npm's packages use admits `version`, a major and a minor. */
function admits(range: string, version: string): boolean {
  const [major = 0, minor = 0] = version.split(".").map(Number);
  return range
    .replaceAll(/([<>=^~])\s+/g, "$1")
    .split("||")
    .some((part) =>
      part
        .trim()
        .split(/\s+(?=[<>=^~\d])/)
        .every((bound) => {
          const [, sign = "", low = "*", least = "0"] = /^([<>=^~]*)\s*v?(\d+|\*|x)(?:\.(\d+|x|\*))?/.exec(bound) ?? [];
          if (!/\d/.test(low)) return true;
          const [wantedMajor, wantedMinor] = [Number(low), Number(least) || 0];
          const isAtLeast = major > wantedMajor || (major === wantedMajor && minor >= wantedMinor);
          if (sign === "<") return !isAtLeast;
          if (sign === "<=") return !isAtLeast || (major === wantedMajor && minor === wantedMinor);
          return sign.startsWith(">") ? isAtLeast : isAtLeast && major === wantedMajor;
        }),
    );
}
