/** Compares the upgrade notes with the migrations, the package and the changelog. */
import { readFileSync } from "node:fs";
import { expect } from "chai";
import { MIGRATIONS } from "../../facilitator/src/db/migrations";

const notes = readFileSync("docs/operators/upgrade.md", "utf8");
const changelog = readFileSync("CHANGELOG.md", "utf8");

describe("agreement > docs/operators/upgrade.md", () => {
  it("names each migration that breaks with the release before, once and in order, and no other as such", () => {
    const table = notes.split("\n").filter((line) => line.startsWith("| "));
    const named = [...table.join("\n").matchAll(/`(\d{3}-[a-z-]+)`/g)].map(([, id]) => id);
    expect(named).to.deep.equal(MIGRATIONS.filter(({ isBreaking }) => isBreaking).map(({ id }) => id));
  });

  it("names only migrations that exist", () => {
    const known = new Set(MIGRATIONS.map(({ id }) => id));
    for (const [, id = ""] of notes.matchAll(/`(\d{3}-[a-z-]+)`/g)) expect(known.has(id), id).to.equal(true);
  });

  it("has a section for the packages' version and for each release of the changelog", () => {
    const { version } = JSON.parse(readFileSync("facilitator/package.json", "utf8")) as { version: string };
    const released = [...changelog.matchAll(/^## \[?(\d+\.\d+\.\d+)/gm)].map(([, one]) => one);
    const sections = [...notes.matchAll(/^## (\d+\.\d+\.\d+)$/gm)].map(([, one]) => one);
    expect(sections).to.include.members([version, ...released]);
  });

  it("leaves what only the owner knows as marked blanks", () => {
    expect([...notes.matchAll(/\*\*\[OWNER: [A-Z ]+\]\*\*/g)].length).to.be.greaterThan(3);
  });
});
