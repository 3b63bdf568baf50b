import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import path from "node:path";
import { expect } from "chai";
import { writeState } from "../../scripts/sandbox/state";
import { freePort, testKey } from "../support/chain";
import { startSandbox, until, type World } from "../support/sandbox";

const ROOT = path.resolve(__dirname, "../..");

describe("end to end > the code of the README and the quickstarts", function () {
  this.timeout(180_000);
  let world: World;
  let folder: string;
  const children: ChildProcess[] = [];

  before(async () => {
    world = await startSandbox();
    folder = mkdtempSync(path.join(ROOT, ".readme-"));
  });
  after(async () => {
    for (const child of children) child.kill("SIGKILL");
    await world.stop();
    rmSync(folder, { recursive: true, force: true });
  });

  /** A section's TypeScript with its placeholders filled in, as a program that prints what `tail` does. */
  function run(heading: string, fill: readonly (readonly [string, string])[], tail = "", env = {}) {
    const section =
      readFileSync("README.md", "utf8")
        .split(/^## /m)
        .find((text) => text.startsWith(heading)) ?? "";
    let code = /```ts\n([\s\S]*?)```/.exec(section)?.[1] ?? "";
    for (const [from, to] of fill) {
      expect(code, `the README has ${from}`).to.contain(from);
      code = code.replaceAll(from, to);
    }
    return start(heading.slice(0, 3), code, { tail, env });
  }

  interface StartOptions {
    readonly tail?: string;
    readonly env?: NodeJS.ProcessEnv;
    readonly args?: readonly string[];
  }

  /** Writes a module as a program. @returns the arguments that make Node run it */
  function write(name: string, code: string, tail = ""): readonly string[] {
    const [imports, body] = [/^import .*$/gm, /^(?!import ).*$/gm].map((lines) => (code.match(lines) ?? []).join("\n"));
    const file = path.join(folder, `${name}.ts`);
    writeFileSync(file, `${imports}\n(async () => {\n${body}\n${tail}\n})();\n`);
    return ["-r", path.join(ROOT, "tools/typescript.cjs"), file];
  }

  function start(name: string, code: string, { tail, env = {}, args = [] }: StartOptions) {
    const child = spawn(process.execPath, [...write(name, code, tail), ...args], {
      cwd: ROOT,
      env: { ...process.env, ...env },
    });
    children.push(child);
    let output = "";
    for (const stream of [child.stdout, child.stderr]) stream?.on("data", (chunk) => (output += chunk));
    return { child, output: () => output };
  }

  it("is a provider that sells and an agent that buys", async () => {
    const port = await freePort();
    const { contracts, facilitator, chain, plans, providerAccount } = world;
    const { address } = await world.agent("reader of the README");
    const provider = run("Sell", [
      [
        'network: "base-mainnet"',
        `network: "${contracts.network}", claims: "memory", token: "${contracts.token}", rpcUrl: "${chain.rpcUrl}", turnpike: "${contracts.turnpike}"`,
      ],
      ['payTo: "0x..."', `payTo: "${providerAccount.address}"`],
      ["https://facilitator.example", facilitator.url],
      ['signers: ["0x..."]', `signers: ["${facilitator.signer}"]`],
      ["listen(3000)", `listen(${port})`],
    ]);
    const url = `http://127.0.0.1:${port}`;
    await until(
      "the README's provider",
      () =>
        fetch(url).then(
          () => true,
          () => false,
        ),
      60_000,
    );

    const agent = run(
      "Buy",
      [
        ["perDay: 20_000_000", `perDay: 20_000_000, tokens: ["${contracts.token}"]`],
        ["https://facilitator.example", facilitator.url],
        [
          `facilitators: [`,
          `deployments: [{ chainId: ${contracts.chainId}, turnpike: "${contracts.turnpike}" }],\n  facilitators: [`,
        ],
        ["https://api.example/quote", `${url}/quote`],
        ['planId: "0x..."', `planId: "${plans.reader}"`],
        ["https://api.example/report", `${world.provider.url}/report`],
        ["https://api.example", world.provider.url],
      ],
      `console.log(JSON.stringify([response.status, await response.json(), subscription.status, report.status]));`,
      { AGENT_KEY: testKey("reader of the README") },
    );
    const [code] = await once(agent.child, "exit");
    expect(code, agent.output() + provider.output()).to.equal(0);
    expect(agent.output()).to.contain('[200,{"price":7},"ACTIVE",200]');
    expect(await contracts.balanceOf(address)).to.equal(1_000_000_000n - 500_000n - 10_000_000n);
  });

  /** The code of a quickstart that follows a sentence. */
  function codeOf(page: string, sentence: string): string {
    const text = readFileSync(`docs/quickstart/${page}.md`, "utf8");
    return /```js\n([\s\S]*?)```/.exec(text.slice(text.indexOf(sentence)))?.[1] ?? "";
  }

  it("sells and buys as the quickstarts say", async () => {
    const env = { SANDBOX: await writeState(world, folder), TURNPIKE_CLAIMS: "memory" };
    const port = await freePort();
    const seller = start("seller", codeOf("seller", "Save this as `seller.mjs`").replaceAll("3000", String(port)), {
      env,
    });
    const url = `http://localhost:${port}/quote`;
    await until("the quickstart's seller", async () => seller.output().includes(url), 60_000);
    expect((await fetch(url)).status).to.equal(402);

    // A second one finds its port in use: it ends, and does not claim to serve.
    const code3000 = codeOf("seller", "Save this as `seller.mjs`").replaceAll("3000", String(port));
    const second = start("second-seller", code3000, { env });
    const [failed] = await once(second.child, "exit");
    expect(failed, second.output()).to.not.equal(0);
    expect(second.output()).to.include("EADDRINUSE").and.not.include(`${url}\n`);

    const end = "await agent.close();";
    const subscribe = codeOf("buyer", "Add these lines before");
    const buyer = codeOf("buyer", "Save this as `buyer.mjs`").replace(end, `${subscribe}\n${end}`);
    const ledger = path.join(folder, "ledger");
    expect(buyer).to.contain('fileLedger("ledger")');
    const code = buyer.replace('"ledger"', JSON.stringify(ledger));
    const agent = start("buyer", code, { env, args: [url] });
    const [status] = await once(agent.child, "exit");
    expect(status, agent.output() + seller.output()).to.equal(0);
    expect(agent.output())
      .to.match(/^200 \{"price":7\}$/m)
      .and.match(/^200 \{"title":"Daily report"/m);
    const { testKeys } = JSON.parse(readFileSync(env.SANDBOX, "utf8"));
    expect(await world.contracts.balanceOf(testKeys[2].address)).to.equal(1_000_000_000n + 500_000n);
  });

  it("sells a tool and pays for it as the MCP quickstart says", async () => {
    const env = { SANDBOX: await writeState(world, folder), TURNPIKE_CLAIMS: "memory" };
    const server = write("tool-server", codeOf("mcp", "Save this as `server.mjs`"));
    const code = codeOf("mcp", "Save this as `client.mjs`");
    const program = 'command: "node", args: ["server.mjs"], env: {';
    expect(code).to.contain(program).and.contain('fileLedger("tools-ledger")');
    const own = `command: process.execPath, args: ${JSON.stringify(server)}, env: { TURNPIKE_CLAIMS: "memory",`;
    const ledger = JSON.stringify(path.join(folder, "tools-ledger"));
    const client = start("tool-client", code.replace(program, own).replace('"tools-ledger"', ledger), { env });
    const [status] = await once(client.child, "exit");
    expect(status, client.output()).to.equal(0);
    expect(client.output()).to.match(/^BTC 97000 paid: 10000n$/m);
  });
});
