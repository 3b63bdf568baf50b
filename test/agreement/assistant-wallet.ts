/** The files that docs/guides/assistant-wallet.md shows, read by what they are written for. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { expect } from "chai";
import { createProgram } from "../../sdk/src/cli/program";
import { readWalletConfig } from "../../sdk/src/mcp/wallet/config";

describe("agreement > docs/guides/assistant-wallet.md", () => {
  const page = readFileSync("docs/guides/assistant-wallet.md", "utf8");
  const [wallet = "", host = "", ...more] = [...page.matchAll(/```json\n([\s\S]*?)```/g)].map(([, text]) => text);

  it("shows a wallet's file that the wallet accepts", async () => {
    expect(more).to.deep.equal([]);
    const folder = mkdtempSync(path.join(tmpdir(), "turnpike-assistant-wallet-"));
    try {
      const files = { "wallet.json": wallet, [JSON.parse(wallet).keyFile]: `0x${"11".repeat(32)}` };
      for (const [file, content] of Object.entries(files))
        writeFileSync(path.join(folder, file), content, { mode: 0o600 });
      const { agent, reach } = await readWalletConfig(path.join(folder, "wallet.json"), {});
      expect(agent.policy).to.include({ perPayment: 500_000n, perDay: 5_000_000n, askAbove: 100_000n });
      expect([...(reach.origins ?? [])]).to.deep.equal(["https://api.example.com"]);
    } finally {
      rmSync(folder, { recursive: true });
    }
  });

  it("shows hosts a program of the package, with arguments that it accepts", async () => {
    const { command, args } = JSON.parse(host).mcpServers.turnpike as { command: string; args: string[] };
    const [, shown = ""] = /claude mcp add .* -- (\S+ .*)$/m.exec(page) ?? [];
    const [inShell = "", ...inShellArgs] = shown.split(" ");
    for (const [program, argv] of [
      [command, args],
      [inShell, inShellArgs],
    ] as const) {
      expect(program).to.match(/\/turnpike-wallet\/node_modules\/\.bin\/turnpike$/);
      const ran: string[] = [];
      const accepting = createProgram({ write: () => undefined, run: async ({ name }) => void ran.push(name) });
      await accepting.parseAsync(argv, { from: "user" });
      expect(ran).to.deep.equal(["mcp"]);
      expect(argv.at(-1)).to.match(/\/turnpike-wallet\/wallet\.json$/);
    }
  });
});
