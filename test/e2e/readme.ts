import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import path from "node:path";
import { expect } from "chai";
import { freePort, testKey } from "../support/chain";
import { startSandbox, until, type World } from "../support/sandbox";

const ROOT = path.resolve(__dirname, "../..");

describe("end to end > the code of the README", function () {
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
    let code = [...section.matchAll(/```ts\n([\s\S]*?)```/g)].map(([, block]) => block).join("");
    for (const [from, to] of fill) {
      expect(code, `the README has ${from}`).to.contain(from);
      code = code.replaceAll(from, to);
    }
    const [imports, body] = [/^import .*$/gm, /^(?!import ).*$/gm].map((lines) => (code.match(lines) ?? []).join("\n"));
    const file = path.join(folder, `${heading.slice(0, 3)}.ts`);
    writeFileSync(file, `${imports}\n(async () => {\n${body}\n${tail}\n})();\n`);
    const child = spawn(process.execPath, ["-r", path.join(ROOT, "tools/typescript.cjs"), file], {
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
        'payTo: "0x..."',
        `payTo: "${providerAccount.address}", network: "${contracts.network}", claims: "memory", token: { address: "${contracts.token}", decimals: 6, currency: "USD" }, rpcUrl: "${chain.rpcUrl}"`,
      ],
      // By http nothing is pinned on first use: test/sdk/gate/provider/first-use.ts does so.
      ['url: "https://facilitator.example"', `url: "${facilitator.url}", signers: ["${facilitator.signer}"]`],
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
          "facilitators:",
          `deployments: [{ chainId: ${contracts.chainId}, turnpike: "${contracts.turnpike}" }], facilitators:`,
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
});
