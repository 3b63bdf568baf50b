import { type ChildProcess, execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdir, readFile, realpath, rename, stat, symlink, utimes, writeFile } from "node:fs/promises";
import { createServer, type Server } from "node:http";
import { join } from "node:path";
import { expect } from "chai";
import { paymentGate } from "turnpike/gate/node";
import { createTestProvider } from "turnpike/testing";
import { startMeteredSeller } from "../sdk/agent/support/metered-bill";
import { startRelay } from "../sdk/agent/support/relay";
import { closeAll, serve } from "../sdk/agent/support/servers";
import { addressOf, Chain, NETWORK, startFacilitator, startProvider, TOKEN, testKey } from "../sdk/agent/support/world";
import { closeServer, listen } from "../support/gate";
import { emptyProject, type Project } from "./support/packed";

interface Ended {
  readonly code: number;
  readonly out: string;
  readonly err: string;
}

describe("the command line of the package in an empty project", function () {
  this.timeout(240_000);
  let project: Project;
  const children: ChildProcess[] = [];
  const gates: Server[] = [];
  before(async () => {
    project = await emptyProject();
    // As npm installs the program of a package.
    await mkdir(join(project.folder, "node_modules/.bin"));
    await symlink("../turnpike/dist/cli.js", join(project.folder, "node_modules/.bin/turnpike"));
  });
  afterEach(async () => {
    for (const child of children.splice(0)) child.kill("SIGKILL");
    await Promise.all(gates.splice(0).map(closeServer));
    await closeAll();
  });
  after(() => project?.remove());

  const program = () => join(project.folder, "node_modules/turnpike/dist/cli.js");

  function npx(args: readonly string[], env: Record<string, string> = {}): Promise<Ended> {
    return ended("npx", ["--no-install", "turnpike", ...args], env);
  }

  /** As npx starts it, which takes as long as the command itself. */
  function turnpike(args: readonly string[], env: Record<string, string> = {}): Promise<Ended> {
    return ended(process.execPath, [program(), ...args], env);
  }

  function ended(file: string, args: readonly string[], env: Record<string, string>): Promise<Ended> {
    const home = join(project.folder, "home");
    const all = { ...process.env, TURNPIKE_HOME: home, ...env };
    return new Promise((resolve) => {
      execFile(file, args, { cwd: project.folder, env: all }, (error, out, err) => {
        resolve({ code: error ? Number(error.code) : 0, out, err });
      });
    });
  }

  function run(args: readonly string[], cwd: string): Promise<string> {
    return new Promise((resolve, reject) => {
      execFile(process.execPath, args, { cwd }, (error, out, err) => (error ? reject(new Error(err)) : resolve(out)));
    });
  }

  it("prints its help and version, quotes and validates a gate", async () => {
    expect((await stat(program())).mode & 0o100).to.equal(0o100);
    const help = await npx(["--help"]);
    expect(help.code, help.err).to.equal(0);
    expect(help.out).to.contain("Usage: npx turnpike COMMAND");
    const { version } = JSON.parse(await readFile(join(project.folder, "node_modules/turnpike/package.json"), "utf8"));
    expect((await turnpike(["--version"])).out).to.equal(`${version}\n`);

    const { provider } = createTestProvider();
    const gate = paymentGate({ provider, pricing: [{ type: "one-time", amount: 500_000 }] });
    const server = createServer((req, res) => gate(req, res, () => res.end()));
    gates.push(server);
    const url = `${await listen(server)}/quote`;
    const quote = await turnpike(["quote", url, "--json"]);
    expect(quote.code, quote.out + quote.err).to.equal(0);
    expect(JSON.parse(quote.out).options[0]).to.include({ kind: "one-time", amount: "500000" });
    const valid = await turnpike(["validate", url, "--require", "v1,v2"]);
    expect([valid.code, valid.out.split("\n")[0]]).to.deep.equal([
      0,
      `GET ${url}: HTTP 402, v1 valid, v2 valid, mpp absent`,
    ]);
  });

  it("validates an MCP server by its command, and names the package that this needs", async () => {
    await writeFile(
      join(project.folder, "tools.mjs"),
      `import { McpServer } from "@modelcontextprotocol/sdk/server/mcp.js";
      import { StdioServerTransport } from "@modelcontextprotocol/sdk/server/stdio.js";
      import { paidTool } from "turnpike/mcp/server";
      import { createTestProvider } from "turnpike/testing";
      const { provider } = createTestProvider();
      const server = new McpServer({ name: "prices", version: "1.0.0" });
      const serverId = "https://prices.example/mcp";
      const pricing = [{ type: "one-time", amount: 50_000 }];
      paidTool(server, "price", { provider, serverId, pricing }, () => ({ content: [] }));
      await server.connect(new StdioServerTransport());`,
    );
    const args = ["validate", "--stdio", "--require", "v2", "--", process.execPath, "tools.mjs"];
    const valid = await turnpike(args);
    expect([valid.code, valid.out.split("\n")[1]], valid.err).to.deep.equal([0, "tool price: paid (v2)"]);
    const sdk = join(project.folder, "node_modules/@modelcontextprotocol");
    await rename(sdk, `${sdk}-away`);
    const without = await turnpike(args).finally(() => rename(`${sdk}-away`, sdk));
    expect(without.code, without.out).to.equal(2);
    expect(without.err).to.contain("needs the package @modelcontextprotocol/client");
  });

  it("CL5 a command that is killed while it pays has paid once when it is repeated", async () => {
    const chain = new Chain();
    const facilitator = await startFacilitator(chain);
    const provider = await startProvider(chain, facilitator.url);
    const key = join(project.folder, "wallet.key");
    await writeFile(key, testKey("payer"), { mode: 0o600 });
    const env = {
      TURNPIKE_WALLET_KEY: `file:${key}`,
      TURNPIKE_TOKEN: TOKEN,
      TURNPIKE_FACILITATOR_URL: facilitator.url,
    };
    const home = join(project.folder, "killed");
    // Answers nothing to a paid request, so that the command waits with a settled payment.
    const silent = await serve(async (request) => {
      if (request.headers["x-payment"] === undefined) {
        const asked = await fetch(`${provider.url}${request.url}`);
        const text = (await asked.text()).replaceAll(provider.url, silent.url);
        return { status: asked.status, json: JSON.parse(text) };
      }
      if (killed) return { status: 200, json: { served: true } };
      child.kill("SIGKILL");
      return { status: 0, drop: true };
    });
    let killed = false;
    const args = ["pay", `${silent.url}/data`, "--max", "0.50"];
    const child = spawn(process.execPath, [program(), ...args], {
      cwd: project.folder,
      env: { ...process.env, ...env, TURNPIKE_HOME: home },
      stdio: "ignore",
    });
    children.push(child);
    await once(child, "exit");
    killed = true;
    expect(chain.transfers).to.have.length(1);
    // The lock that the killed command left is as old as after a coffee break.
    const old = new Date(Date.now() - 60_000);
    await utimes(join(home, "ledger.lock"), old, old);
    const again = await turnpike(args, { ...env, TURNPIKE_HOME: home });
    expect(again.code, again.out + again.err).to.equal(0);
    expect(again.err).to.contain("paid by an earlier command");
    expect([chain.transfers.length, facilitator.signatures.size]).to.deep.equal([1, 1]);
  });

  it("keeps the receipts of a metered plan, audits the bill and names an overcharge", async () => {
    const relay = await startRelay();
    const planId = await relay.createPlan();
    await relay.fund(addressOf("payer"));
    const seller = await startMeteredSeller(relay, planId);
    const key = join(project.folder, "subscriber.key");
    await writeFile(key, testKey("payer"), { mode: 0o600 });
    const env = {
      TURNPIKE_HOME: join(project.folder, "subscriber"),
      TURNPIKE_WALLET_KEY: `file:${key}`,
      TURNPIKE_NETWORK: NETWORK,
      TURNPIKE_RPC_URL: seller.rpc.url,
      TURNPIKE_FACILITATOR_URL: relay.url,
      TURNPIKE_ADDRESS: relay.addresses.turnpike,
      TURNPIKE_TOKEN: relay.addresses.token,
    };
    try {
      const page = `${seller.url}/page`;
      const made = await turnpike(["subscribe", page, "--max", "15.00", "--max-overage", "5.00", "--json"], env);
      expect(made.code, made.out + made.err).to.equal(0);
      expect((await turnpike(["pay", page, "--subscription"], env)).code).to.equal(0);
      await seller.provider.flush();
      const clean = await turnpike(["audit", "bill.json", "--write"], env);
      expect(clean.code, clean.out + clean.err).to.equal(0);
      expect(clean.out).to.contain("receipts: 1");
      await seller.overcharge(5n, JSON.parse(made.out).idHash);
      expect((await turnpike(["audit", "bill.json", "--write"], env)).code).to.equal(1);
      const flags = ["--rpc", seller.rpc.url, "--contract", relay.addresses.turnpike];
      const verified = await turnpike(["audit", "bill.json", ...flags]);
      expect(verified.code).to.equal(1);
      expect(verified.out).to.contain("excess: 5 base units");
    } finally {
      await seller.stop();
    }
  });

  it("starts the provider and the agent that init writes, and the one pays the other", async () => {
    const chain = new Chain();
    chain.nowSec = Math.floor(Date.now() / 1_000);
    const facilitator = await startFacilitator(chain);
    facilitator.announced.push(addressOf("facilitator"));
    const named = await serve(async ({ method, url, body }) => {
      const answer = await fetch(`${facilitator.url}${url}`, method === "GET" ? {} : { method, body });
      const json = (await answer.json()) as object;
      const tokens = [{ address: TOKEN, name: "Test USD", version: "1", decimals: 6 }];
      return { status: answer.status, json: url === "/supported" ? { ...json, tokens } : json };
    });
    const flags = ["--facilitator", named.url];
    const provider = await turnpike(["init", "provider", "shop", "--pay-to", addressOf("treasury"), ...flags]);
    expect(provider.code, provider.err).to.equal(0);
    const agent = await turnpike(["init", "agent", "buyer", ...flags]);
    expect(agent.code, agent.err).to.equal(0);

    for (const folder of ["shop", "buyer"]) {
      const { dependencies } = JSON.parse(await readFile(join(project.folder, folder, "package.json"), "utf8"));
      expect(dependencies.turnpike).to.equal(`file:${await realpath(join(project.folder, "node_modules/turnpike"))}`);
    }

    const shop = spawn(process.execPath, ["--env-file=.env", "server.mjs"], {
      cwd: join(project.folder, "shop"),
      // No proof is verified by a Facilitator here, and the port is a free one.
      env: { ...process.env, PORT: "0", TURNPIKE_VERIFY: "signature" },
    });
    children.push(shop);
    let said = "";
    shop.stderr.on("data", (chunk) => {
      said += chunk;
    });
    const [first] = (await Promise.race([
      once(shop.stdout, "data"),
      once(shop, "exit").then(() => Promise.reject(new Error(said))),
    ])) as [Buffer];
    const url = String(first).trim();
    expect(url).to.match(/^http:\/\/localhost:\d+\/quote$/);
    const valid = await turnpike(["validate", url, "--require", "v1,v2"]);
    expect(valid.code, valid.out).to.equal(0);
    const paid = await run(["--env-file=.env", "agent.mjs", url], join(project.folder, "buyer"));
    expect(paid).to.match(/^200 \{"price":7,"payer":"0x[0-9a-fA-F]{40}"\}\n$/);
    expect(chain.transfers.map(({ to, value }) => [to, value])).to.deep.equal([[addressOf("treasury"), 50_000n]]);
    const settings = await readFile(join(project.folder, "buyer/.env"), "utf8");
    expect(settings).to.contain(`TURNPIKE_NETWORK=${NETWORK}`);

    for (const [name, setting, said] of [
      ["TURNPIKE_WALLET_KEY", "", /^TURNPIKE_WALLET_KEY is not set/],
      ["TURNPIKE_WALLET_KEY", "0x12", /^ConfigError: .*key/],
      ["TURNPIKE_WALLET_KEY", "file:nowhere.key", /^ENOENT: .*nowhere\.key/],
      ["TURNPIKE_FACILITATOR_URL", "", /^ConfigError: facilitators/],
      ["TURNPIKE_NETWORK", "nowhere", /^ConfigError: .*nowhere/],
    ] as const) {
      const changed = settings.replace(new RegExp(`^${name}=.*`, "m"), `${name}=${setting}`);
      await writeFile(join(project.folder, "buyer/wrong.env"), changed);
      const wrong = run(["--env-file=wrong.env", "agent.mjs", url], join(project.folder, "buyer"));
      const shown = await wrong.then(String, ({ message }: Error) => message);
      expect(shown)
        .to.match(said)
        .and.not.match(/\n {4}at /);
    }
  });
});
