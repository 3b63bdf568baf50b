import { readdirSync } from "node:fs";
import path from "node:path";
import { expect } from "chai";
import { FILES, FOLDERS, filesOfNoPart, OF_CALLERS, type Profile, splitOf, workOfFile } from "../../bench/settle/split";

const SOURCES = "facilitator/src";

const filesIn = (folder: string): string[] =>
  readdirSync(folder, { withFileTypes: true }).flatMap((entry) => {
    const file = path.posix.join(folder, entry.name);
    if (entry.isDirectory()) return filesIn(file);
    return file.endsWith(".ts") ? [file] : [];
  });

/** One sample of 1 ms in each file, called one by the other. */
function profileOf(urls: readonly string[]): Profile {
  return {
    nodes: urls.map((url, id) => ({
      id,
      callFrame: { functionName: "work", url },
      ...(id + 1 < urls.length && { children: [id + 1] }),
    })),
    samples: urls.map((_, id) => id),
    timeDeltas: urls.map(() => 1_000),
  };
}

describe("agreement > the parts of the profile of bench:settle", () => {
  it("have every file of the service once, but for those whose callers decide", () => {
    const files = filesIn(SOURCES).filter(
      (file) => !OF_CALLERS.includes(path.basename(file.split("/")[2] ?? "", ".ts")),
    );
    expect(files.filter((file) => workOfFile(`file:///turnpike/${file}`) === undefined)).to.deep.equal([]);
    for (const [folder, kinds] of Object.entries(FILES)) {
      const names = Object.values(kinds).flat();
      const there = readdirSync(path.join(SOURCES, folder)).flatMap((name) => /^(.+)\.ts$/.exec(name)?.[1] ?? []);
      expect(names.sort(), folder).to.deep.equal(there.sort());
    }
  });

  it("name only folders that exist", () => {
    const there = readdirSync(SOURCES).map((name) => path.basename(name, ".ts"));
    expect([...Object.keys(FILES), ...Object.keys(FOLDERS), ...OF_CALLERS].sort()).to.deep.equal(there.sort());
  });

  it("count a file of no part for its caller, and name it", () => {
    const profile = profileOf(
      ["payments/judge", "lib/loop", "payments/a-new-file"].map((name) => `/${SOURCES}/${name}.ts`),
    );
    expect(splitOf(profile).judging).to.equal(3);
    expect(filesOfNoPart(profile)).to.deep.equal([`/${SOURCES}/payments/a-new-file.ts`]);
  });
});
