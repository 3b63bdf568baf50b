import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect } from "chai";
import { SETTINGS } from "../../facilitator/src/config";

interface Row {
  readonly env: string;
  readonly about: string;
  readonly fallback?: string;
  readonly optional?: true;
  readonly danger?: string;
}

const page = readFileSync("docs/reference/settings.md", "utf8");
const section = (title: string): string => page.split(/^## /m).find((text) => text.startsWith(title)) ?? "";
const variablesOf = (text: string): string[] => [
  ...new Set(
    text
      .split("\n")
      .filter((line) => line.startsWith("| `"))
      .flatMap((line) => [...(line.split("|")[1] ?? "").matchAll(/`([A-Z_]+)`/g)].map(([, name]) => name ?? "")),
  ),
];
const cell = (text: string): string => text.replaceAll("|", "\\|");

const sources = (folder: string): string[] =>
  readdirSync(folder, { withFileTypes: true }).flatMap((entry) => {
    const path = join(folder, entry.name);
    if (entry.isDirectory()) return entry.name === "generated" ? [] : sources(path);
    return path.endsWith(".ts") ? [readFileSync(path, "utf8")] : [];
  });

describe("agreement > configuration", () => {
  it("lists every setting of the Facilitator as its table has it", () => {
    const expected = (Object.values(SETTINGS) as Row[]).map(({ env, about, fallback, optional, danger }) => {
      const without = optional ? "none" : "required";
      const unset = fallback === undefined ? without : `\`${fallback}\``;
      return `| \`${env}\` | ${cell(about)} | ${unset} | ${cell(danger ?? "")} |`;
    });
    const listed = section("The Facilitator")
      .split("\n")
      .filter((line) => line.startsWith("| `"));
    expect(listed).to.deep.equal(expected);
  });

  it("lists every variable of the gate, and no other", () => {
    const read = sources("sdk/src/gate").flatMap((text) =>
      [...text.matchAll(/(?:text|list|oneOf)\("(TURNPIKE_[A-Z_]+)"/g)].map(([, name]) => name ?? ""),
    );
    expect(variablesOf(section("A provider's gate")).sort()).to.deep.equal([...new Set(read)].sort());
  });

  it("lists every variable of the scripts, and no other", () => {
    // A line that begins with a name sets it for another program.
    const read = sources("scripts").flatMap((text) =>
      [...text.matchAll(/(?<!^ +)\b(TURNPIKE_[A-Z_]+)\b/gm)].map(([, name]) => name ?? ""),
    );
    expect(variablesOf(section("Scripts")).sort()).to.deep.equal([...new Set(read)].sort());
  });
});
