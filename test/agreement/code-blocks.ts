/**
 * Every block of code in guides and quickstarts is run or compiled by a test, or says why not in its first line, after
 * the language: `not run: <reason>`.
 */
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { expect } from "chai";
import { stepsOf } from "../package/support/follow";
import { snippetsOfPages } from "./support/snippets";

const FOLDERS = ["docs/guides", "docs/quickstart"];

/** Pages whose blocks a test follows unchanged, all of them in their order. */
const FOLLOWED = ["buyer", "get-paid", "mcp"].map((name) => `docs/quickstart/${name}.md`);

/** Blocks that a test runs, by page and language: how many, and the test. */
const RUN: Readonly<Record<string, readonly [count: number, test: string]>> = {
  "docs/guides/assistant-wallet.md json": [2, "test/agreement/assistant-wallet.ts"],
  "docs/guides/prices.md js": [1, "test/sdk/gate/core/upto-guide.ts"],
  "docs/guides/stock-x402.md ts": [4, "test/agreement/docs.ts"],
  "docs/guides/streaming.md js": [1, "test/sdk/gate/metering/llm-proxy.ts"],
  "docs/guides/testing-in-ci.md js": [2, "test/package/readme.ts"],
};

interface Block {
  readonly page: string;
  readonly line: number;
  readonly language: string;
  /** absent: a test runs it */
  readonly reason: string | undefined;
}

function blocksOf(page: string): Block[] {
  const text = readFileSync(page, "utf8");
  return [...text.matchAll(/^( *)(```+|~~~+)(.*)\n[\s\S]*?^\1\2 *$/gm)].map(({ index, 3: info = "" }) => ({
    page,
    line: text.slice(0, index).split("\n").length,
    language: /^\w*/.exec(info)?.[0] ?? "",
    reason: / not run: (\S.{9,})$/.exec(info)?.[1],
  }));
}

describe("agreement > code blocks of guides and quickstarts", () => {
  const pages = FOLDERS.flatMap((folder) => readdirSync(folder).map((name) => `${folder}/${name}`));
  const blocks = pages.flatMap(blocksOf);
  const unmarked = blocks.filter(({ reason }) => reason === undefined);

  it("are run or compiled by a test, or say why not", () => {
    const compiled = new Set(snippetsOfPages().map(({ page, line }) => `${page}:${line - 1}`));
    const places = unmarked
      .filter(({ page, language }) => !FOLLOWED.includes(page) && !(`${page} ${language}` in RUN))
      .map(({ page, line }) => `${page}:${line}`);
    expect(blocks.length).to.be.greaterThan(60);
    expect(places.filter((place) => !compiled.has(place))).to.deep.equal([]);
  });

  it("are as many as the tests that run them know", () => {
    for (const page of FOLLOWED)
      expect(unmarked.filter((block) => block.page === page).length, page).to.equal(stepsOf(page).length);
    for (const [name, [count, test]] of Object.entries(RUN)) {
      const there = unmarked.filter(({ page, language }) => `${page} ${language}` === name);
      expect(there.length, name).to.equal(count);
      expect(existsSync(test) && readFileSync(test, "utf8"), test).to.contain(name.split(" ")[0]);
    }
  });
});
