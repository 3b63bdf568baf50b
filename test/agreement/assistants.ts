import { chmodSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect } from "chai";
import { isErrorCode } from "turnpike/protocol";
import { createProgram } from "../../sdk/src/cli/program";
import { readWalletConfig } from "../../sdk/src/mcp/wallet/config";

const page = readFileSync("sdk/AGENTS.md", "utf8");
const blocks = [...page.matchAll(/```(\w+)\n([\s\S]*?)```/g)].map(([, kind = "", text = ""]) => ({ kind, text }));
const textsOf = (kind: string) => blocks.filter((block) => block.kind === kind).map(({ text }) => text);
const PROGRAMS = "test/package/support/app/assistant";

describe("agreement > sdk/AGENTS.md", () => {
  const { files, exports } = JSON.parse(readFileSync("sdk/package.json", "utf8"));

  it("shows exactly the programs that test/package checks against the package, and no other code", () => {
    const checked = readdirSync(PROGRAMS).map((file) => readFileSync(join(PROGRAMS, file), "utf8"));
    expect(textsOf("ts")).to.have.members(checked);
    expect([...new Set(blocks.map(({ kind }) => kind))].sort()).to.deep.equal(["json", "sh", "ts"]);
  });

  it("shows each job that an assistant is given: a gate by framework, an agent, a plan", () => {
    const code = textsOf("ts").join("");
    for (const entry of ["", "/gate/hono", "/gate/fastify", "/gate/next", "/gate/node", "/gate/fetch"])
      expect(code).to.match(new RegExp(`import \\{[^}]*\\bpaymentGate\\b[^}]*\\} from "turnpike${entry}"`));
    for (const job of ['createAgent, walletFromKey } from "turnpike/agent"', 'createPlan } from "turnpike/chain"'])
      expect(code).to.contain(job);
  });

  it("shows commands that the command line accepts", async () => {
    const named = [...page.matchAll(/npx turnpike ([a-z][^`\n]*)/g)].map(([, line = ""]) => line.trim().split(/\s+/));
    expect(named.length).to.be.greaterThan(5);
    for (const argv of named) {
      const ran: string[] = [];
      const accepting = createProgram({ write: () => undefined, run: async ({ name }) => void ran.push(name) });
      await accepting.parseAsync(argv, { from: "user" });
      expect(ran).to.deep.equal([argv[0]]);
    }
  });

  it("shows a wallet's file that the wallet accepts", async () => {
    const folder = mkdtempSync(join(tmpdir(), "turnpike-assistants-"));
    try {
      const [text = "", ...more] = textsOf("json");
      expect(more).to.deep.equal([]);
      for (const [file, content] of Object.entries({ "wallet.json": text, key: `0x${"11".repeat(32)}` })) {
        writeFileSync(join(folder, file), content);
        chmodSync(join(folder, file), 0o600);
      }
      const { agent } = await readWalletConfig(join(folder, "wallet.json"), {});
      expect(agent.policy).to.include({ perPayment: 500_000n, perDay: 5_000_000n, askAbove: 100_000n });
    } finally {
      rmSync(folder, { recursive: true });
    }
  });

  it("names only entry points, variables and errors that exist", () => {
    const entries = [
      ...page.matchAll(/`(?:turnpike)?(\/(?:gate|mcp|agent|facilitator|testing|protocol|chain)[a-z/-]*)`/g),
    ];
    expect(entries.length).to.be.greaterThan(10);
    for (const [, entry] of entries) expect(exports, entry).to.have.property(`.${entry}`);
    const settings = readFileSync("docs/reference/settings.md", "utf8");
    for (const [, name] of page.matchAll(/`(TURNPIKE_\w+)`/g)) expect(settings).to.contain(`\`${name}\``);
    const codes =
      page
        .split("## Errors")[1]
        ?.match(/^\| `\w+`.*?\|/gm)
        ?.join() ?? "";
    const named = [...codes.matchAll(/`(\w+)`/g)].map(([, code = ""]) => code);
    expect(named.length).to.be.greaterThan(7);
    expect(named.filter((code) => !isErrorCode(code))).to.deep.equal([]);
  });

  it("is in the package, and the indexes lead to it", () => {
    expect(files).to.include("AGENTS.md");
    for (const index of ["README.md", "llms.txt", "docs/README.md", "sdk/README.md"]) {
      expect(readFileSync(index, "utf8"), index).to.contain("AGENTS.md");
    }
  });
});
