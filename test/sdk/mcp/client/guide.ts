import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import type { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { expect } from "chai";
import type { Agent } from "turnpike/agent";
import { Chain, testKey } from "../../agent/support/world";
import { serveOverHttp, specServer } from "../support/spec-server";

const USDC = { asset: "0x036CbD53842c5426634e7929541eC2318f3dCF7e", extra: { name: "USDC", version: "2" } };

describe("docs/guides/mcp-client.md", () => {
  it("shows a program that pays for a tool", async () => {
    const server = specServer(new Chain(), {
      tamper: ({ accepts, ...required }) => ({
        ...required,
        accepts: [{ ...(accepts as object[])[0], ...USDC, network: "eip155:84532" }],
      }),
      answer: (meta) => ("x402/payment" in meta ? { content: [{ type: "text", text: "sunny" }] } : undefined),
    });
    const http = await serveOverHttp(server);
    // Below the workspace, so that its packages are found.
    const folder = mkdtempSync(join("cache", "mcp-guide-"));
    const { AGENT_KEY } = process.env;
    process.env.AGENT_KEY = testKey("payer");
    try {
      const file = join(folder, "program.ts");
      writeFileSync(file, programOf({ url: http.url, ledger: join(folder, "ledger.jsonl") }));
      const { shown, client, agent } = await (require(resolve(file)) as { ran: Promise<Ran> }).ran;
      await client.close();
      await agent.close();
      expect(shown).to.deep.equal([[{ type: "text", text: "sunny" }], 10_000n]);
      expect(server.args).to.deep.equal([{ city: "Oslo" }, { city: "Oslo" }]);
    } finally {
      if (AGENT_KEY === undefined) delete process.env.AGENT_KEY;
      else process.env.AGENT_KEY = AGENT_KEY;
      rmSync(folder, { recursive: true });
      await http.close();
    }
  });
});

interface Ran {
  readonly shown: readonly unknown[];
  readonly client: Client;
  readonly agent: Agent;
}

/** Returns the page's first program as a module, with the addresses of this test. */
function programOf({ url, ledger }: { readonly url: string; readonly ledger: string }): string {
  const page = readFileSync("docs/guides/mcp-client.md", "utf8");
  const [, imports, statements] = /```ts\n((?:import .*\n)+)\n([\s\S]*?)```/.exec(page) ?? [];
  const ran = [
    ["https://tools.example/mcp", url],
    ["https://facilitator.example", "http://127.0.0.1:1"],
    ["agent-ledger.jsonl", ledger],
    [/console\.log\((.*)\);/, "return { shown: [$1], client, agent };"],
  ].reduce((text, [from = "", to]) => {
    const replaced = text.replace(from, String(to));
    expect(replaced, String(from)).to.not.equal(text);
    return replaced;
  }, String(statements));
  return `${imports}export const ran = (async () => {${ran}})();\n`;
}
