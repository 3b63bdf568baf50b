import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { expect } from "chai";
import { AlreadyRunning, type FolderLock, lockFolder } from "../../scripts/sandbox/folder-lock";
import { freePort } from "../support/chain";

describe("a sandbox's folder", () => {
  let folder: string;
  const held: FolderLock[] = [];
  const lock = async (): Promise<FolderLock> => {
    const one = await lockFolder(folder);
    held.push(one);
    return one;
  };
  const codeOf = (promise: Promise<unknown>) =>
    promise.then(
      () => "acquired",
      (error: Error) => error,
    );

  beforeEach(() => {
    folder = mkdtempSync(path.join(tmpdir(), "turnpike-folder-"));
  });
  afterEach(() => {
    for (const one of held.splice(0)) one.release();
    rmSync(folder, { recursive: true, force: true });
  });

  it("HB2 has one sandbox at a time: the second is refused with a sentence and changes nothing", async () => {
    await lock();
    writeFileSync(path.join(folder, "state.json"), '{"facilitatorUrl":"first"}');
    const refused = await codeOf(lock());
    expect(refused).to.be.instanceOf(AlreadyRunning);
    expect(String(refused)).to.contain(folder).and.contain(`process ${process.pid}`).and.contain("--folder");
    expect(readFileSync(path.join(folder, "state.json"), "utf8")).to.contain("first");
  });

  it("HB2 of many that start at once, one acquires it", async () => {
    const outcomes = await Promise.all(Array.from({ length: 8 }, () => codeOf(lock())));
    expect(outcomes.filter((one) => one === "acquired")).to.have.length(1);
    expect(outcomes.filter((one) => one instanceof AlreadyRunning)).to.have.length(7);
  });

  it("HB2 is free again when the first has released it, and empty", async () => {
    const first = await lock();
    writeFileSync(path.join(folder, "state.json"), '{"facilitatorUrl":"first"}');
    first.release();
    expect(readdirSync(folder)).to.deep.equal([]);
    await lock();
  });

  it("HB2 recognises what a killed sandbox left, also when its process id is reused, and removes that alone", async () => {
    const holder = { id: "a sandbox that was killed", pid: process.pid, port: await freePort() };
    writeFileSync(path.join(folder, "lock.json"), JSON.stringify(holder));
    writeFileSync(path.join(folder, "state.json"), '{"facilitatorUrl":"killed"}');
    mkdirSync(path.join(folder, "turnpike-run-a1B2c3"));
    writeFileSync(path.join(folder, "run-tests.sh"), "the user's");
    await lock();
    expect(readdirSync(folder)).to.deep.equal(["lock.json", "run-tests.sh"]);
  });

  it("HB2 an empty or broken lock file holds nobody off", async () => {
    writeFileSync(path.join(folder, "lock.json"), "");
    await lock();
  });

  it("HB2 refuses a folder that cannot be used, and says which option names another one", async () => {
    const file = path.join(folder, "file");
    writeFileSync(file, "the user's");
    for (const unusable of [file, path.join(file, "below"), path.join(folder, "long".repeat(100))]) {
      const refused = await lockFolder(unusable).then(() => "acquired", String);
      expect(refused).to.match(/^WrongOption: The folder \S+ cannot be used \(E[A-Z]+\)\. .* --folder\.$/);
      expect(refused).to.contain(unusable);
    }
    expect(readdirSync(folder)).to.deep.equal(["file"]);
  });

  it("HB2 refuses a folder whose state.json is another program's", async () => {
    writeFileSync(path.join(folder, "state.json"), '{"mine":true}');
    expect(String(await codeOf(lock()))).to.contain("was not written by a sandbox");
    expect(readFileSync(path.join(folder, "state.json"), "utf8")).to.contain("mine");
  });
});
