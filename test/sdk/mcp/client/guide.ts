import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import type { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { expect } from "chai";
import type { Agent } from "turnpike/agent";
import { Chain, testKey } from "../../agent/support/world";
import { serveOverHttp, specServer } from "../support/spec-server";

const USDC = { asset: "0x036CbD53842c5426634e7929541eC2318f3dCF7e", extra: { name: "USDC", version: "2" } };

describe("sdk/AGENTS.md, tools of an MCP server", () => {
  it("shows a program that pays for a tool", async () => {
    const server = specServer(new Chain(), {
      tamper: ({ accepts, ...required }) => ({
        ...required,
        accepts: [{ ...(accepts as object[])[0], ...USDC, network: "eip155:84532" }],
      }),
      answer: (meta) => ("x402/payment" in meta ? { content: [{ type: "text", text: "97000" }] } : undefined),
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
      expect(shown).to.deep.equal([[{ type: "text", text: "97000" }], 10_000n]);
      expect(server.args).to.deep.equal([{ symbol: "BTC" }, { symbol: "BTC" }]);
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

/** Returns the page's program as a module, with the addresses of this test. */
function programOf({ url, ledger }: { readonly url: string; readonly ledger: string }): string {
  const [, section = ""] = readFileSync("sdk/AGENTS.md", "utf8").split("## Buy: tools of an MCP server");
  const [, imports, statements] = /```ts\n((?:import .*\n)+)\n([\s\S]*?)```/.exec(section) ?? [];
  const ran = [
    ["https://tools.example/mcp", url],
    ['process.env.TURNPIKE_FACILITATOR_URL ?? ""', '"http://127.0.0.1:1"'],
    ["./agent.ledger", ledger],
    [/console\.log\((.*)\);/, "return { shown: [$1], client, agent };"],
  ].reduce((text, [from = "", to]) => {
    const replaced = text.replace(from, String(to));
    expect(replaced, String(from)).to.not.equal(text);
    return replaced;
  }, String(statements));
  return `${imports}export const ran = (async () => {${ran}})();\n`;
}
