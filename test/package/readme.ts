import { readFileSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { expect } from "chai";
import { createProvider } from "turnpike/gate";
import { paymentGate } from "turnpike/gate/node";
import { createTestProvider } from "turnpike/testing";
import { emptyProject, type Project } from "./support/packed";

const readme = readFileSync("sdk/README.md", "utf8");

function codeUnder(heading: string, text = readme): string {
  const section = text.split(/^## /m).find((part) => part.startsWith(heading)) ?? "";
  return /```(?:ts|js)\n([\s\S]*?)```/.exec(section)?.[1] ?? "";
}

describe("the package's README", function () {
  this.timeout(240_000);
  let project: Project;
  let server: Server;
  before(async () => {
    project = await emptyProject();
  });
  after(async () => {
    server?.close();
    await project?.remove();
  });

  it("sells and buys with the very lines that the repository's README is tested with", () => {
    const root = readFileSync("README.md", "utf8");
    for (const heading of ["Sell", "Buy"]) {
      expect(codeUnder(heading), heading).to.equal(codeUnder(heading, root));
      expect(codeUnder(heading).trim().split("\n").length, `${heading}: about ten lines`).to.be.lessThan(13);
    }
  });

  it("lists exactly the entry points of the package", () => {
    const section = readme.split(/^## /m).find((part) => part.startsWith("Entry points")) ?? "";
    const listed = [...section.matchAll(/^\| `(turnpike[^`]*)` \|/gm)].map(([, entry = ""]) => entry);
    const entryPoints = Object.keys(project.manifest.exports)
      .filter((entry) => entry !== "./package.json")
      .map((entry) => entry.replace(/^\./, "turnpike"));
    expect(listed.sort()).to.deep.equal(entryPoints.sort());
  });

  it("tests an application as it says", async () => {
    await writeFile(join(project.folder, "testing.mjs"), codeUnder("Test your own"));
    expect(await project.run("testing.mjs")).to.equal("200 paid\n");
  });

  it("tests an application in CI as docs/guides/testing-in-ci.md says", async () => {
    const guide = readFileSync("docs/guides/testing-in-ci.md", "utf8");
    await writeFile(join(project.folder, "app.mjs"), codeUnder("The application", guide));
    await writeFile(join(project.folder, "gate.test.mjs"), codeUnder("The test", guide));
    expect(await project.run("--test", "gate.test.mjs")).to.match(/^# pass 6$/m);
  });

  it("asks what a URL costs as it says", async () => {
    const { provider } = createTestProvider();
    void createProvider;
    const plan = `0x${"5a".repeat(32)}` as const;
    const gate = paymentGate({
      provider,
      pricing: [
        { type: "one-time", amount: 500_000 },
        { type: "subscription", plan },
      ],
    });
    server = createServer((req, res) => gate(req, res, () => res.end()));
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    const code = codeUnder("Ask what")
      .replaceAll("https://api.example", `http://127.0.0.1:${(server.address() as AddressInfo).port}`)
      .replace("process.env.AGENT_KEY", `"0x${"11".repeat(32)}"`);
    await writeFile(join(project.folder, "quote.mjs"), code);
    expect(await project.run("quote.mjs")).to.match(/^one-time 500000n\nsubscription \d+n\n/);
  });
});
