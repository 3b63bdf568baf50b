import { resolve } from "node:path";
import { expect } from "chai";

interface Fault {
  readonly line: number;
  readonly message: string;
}

const { faultsOfPage }: { faultsOfPage(file: string, text: string): Fault[] } = require("../../tools/prose.cjs");

const page = resolve("docs", "sample.md");
const faultsIn = (text: string, file = page): string[] =>
  faultsOfPage(file, text).map(({ line, message }) => `${line}: ${message}`);

describe("agreement > prose check", () => {
  it("refuses a retired word, with its line and what to write instead", () => {
    expect(faultsIn("# Gate\n\nThe outage is told as 503.\n")).to.deep.equal([
      '3: "told": return, send, report, show, state',
    ]);
  });

  it("accepts a retired word in code, and where the page copies it from code", () => {
    expect(faultsIn('The field `door` is a wire word.\n\n```json\n{ "door": "authorize" }\n```\n')).to.deep.equal([]);
    expect(faultsIn("Subscribe anew.", resolve("docs", "reference", "errors.md"))).to.deep.equal([]);
  });

  it("refuses a retired word in a source, and accepts the field that has its name", () => {
    const source = resolve("test", "sample.ts");
    expect(faultsIn("// The caller is told.\n", source)).to.deep.equal([
      '1: "told": return, send, report, show, state',
    ]);
    expect(faultsIn("const { door } = claim;\nclaim.door === row.door;\n", source)).to.deep.equal([
      '1: "door": channel, entry point',
    ]);
    expect(faultsIn("claim.door === row.door;\n", source)).to.deep.equal([]);
  });

  it("refuses a retired word within a name", () => {
    const instead = "name it in the field's words";
    expect(faultsIn("const isToldAbove = tellAll;\n", resolve("test", "sample.ts"))).to.deep.equal([
      `1: "Told": ${instead}`,
      `1: "tell": ${instead}`,
    ]);
    expect(faultsIn("const storytelling = roommate;\n", resolve("test", "sample.ts"))).to.deep.equal([]);
  });

  it("refuses a sentence of more than 40 words, and accepts one of 40", () => {
    const words = (count: number) => `${Array.from({ length: count }, () => "word").join(" ")}.`;
    expect(faultsIn(`${words(40)} ${words(40)}`)).to.deep.equal([]);
    expect(faultsIn(words(41))[0]).to.match(/^1: 41 words in one sentence/);
    expect(faultsIn(`| cell | ${words(41)} |`)[0]).to.match(/^1: 41 words in one sentence/);
    expect(faultsIn(`- ${words(30)}\n- ${words(30)}\n`)).to.deep.equal([]);
  });

  it("refuses a link to a file or a heading that does not exist", () => {
    expect(faultsIn("[a](missing.md)")).to.deep.equal(["1: link to missing.md: no such file"]);
    expect(faultsIn("[a](README.md#missing)")).to.deep.equal(["1: link to README.md#missing: no such heading"]);
    expect(faultsIn("# A heading, here\n\n[a](#a-heading-here) and [b](README.md#guides)\n")).to.deep.equal([]);
  });
});
