import { type ChildProcess, execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { chmodSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { promisify } from "node:util";
import { expect } from "chai";
import { createFacilitatorClient } from "turnpike/facilitator";
import { paymentToWire } from "../facilitator/support/payments";
import { freePort } from "../support/chain";
import { type FacilitatorWorld, startWorld, until } from "../support/facilitator";

const exec = promisify(execFile);
const ROOT = resolve(__dirname, "../..");

describe("the Facilitator's package in an empty folder", function () {
  this.timeout(240_000);
  let folder: string;
  let files: readonly string[];
  let world: FacilitatorWorld;

  before(async () => {
    // Outside the workspace: nothing is found there but what the package holds and names.
    folder = mkdtempSync(join(tmpdir(), "turnpike-facilitator-"));
    const pack = ["pack", "--json", "--workspace", "facilitator", "--pack-destination", folder];
    const { stdout } = await exec("npm", pack, { cwd: ROOT });
    const [packed] = JSON.parse(stdout) as [{ filename: string; files: { path: string }[] }];
    files = packed.files.map(({ path }) => path);
    const installed = join(folder, "node_modules/turnpike-facilitator");
    mkdirSync(installed, { recursive: true });
    await exec("tar", ["-xzf", join(folder, packed.filename), "--strip-components=1", "-C", installed]);
    const { dependencies } = JSON.parse(readFileSync(join(installed, "package.json"), "utf8"));
    for (const name of Object.keys(dependencies)) {
      const [from] = ["facilitator/node_modules", "node_modules"].map((at) => join(ROOT, at, name)).filter(existsSync);
      mkdirSync(dirname(join(folder, "node_modules", name)), { recursive: true });
      symlinkSync(from as string, join(folder, "node_modules", name));
    }
    // As npm does for a package's bin.
    chmodSync(join(installed, "dist/program/facilitator.cjs"), 0o755);
    mkdirSync(join(folder, "node_modules/.bin"));
    symlinkSync(
      "../turnpike-facilitator/dist/program/facilitator.cjs",
      join(folder, "node_modules/.bin/turnpike-facilitator"),
    );
    world = await startWorld();
  });
  after(async () => {
    await world?.stop();
    rmSync(folder, { recursive: true, force: true });
  });

  /** As `npx turnpike-facilitator` does: the linked file itself is executed. */
  function run(
    args: readonly string[],
    env: Readonly<Record<string, string>> = {},
  ): { child: ChildProcess; said(): string } {
    const child = spawn(join(folder, "node_modules/.bin/turnpike-facilitator"), args, {
      cwd: folder,
      env: { PATH: process.env.PATH, ...env },
    });
    let text = "";
    for (const stream of [child.stdout, child.stderr]) stream?.on("data", (chunk) => (text += chunk));
    return { child, said: () => text };
  }

  it("holds the program, the dashboard and the list of settings, and nothing else", () => {
    // Parts that are loaded later are named by their content.
    const named = [...files].filter((file) => !/dist\/[a-z]+-[A-Z0-9]{8}\.js$/.test(file));
    expect(named.sort()).to.deep.equal([
      "LICENSE",
      "README.md",
      "dashboard/dist/dashboard.css",
      "dashboard/dist/dashboard.js",
      "dashboard/dist/early.js",
      "dashboard/dist/index.html",
      "dashboard/dist/me.html",
      "dashboard/dist/me.js",
      "dist/program/facilitator.cjs",
      "package.json",
      "settings.env.example",
    ]);
    expect(readFileSync(join(ROOT, "facilitator/LICENSE"))).to.deep.equal(readFileSync(join(ROOT, "LICENSE")));
  });

  it("lists its commands, and names a missing setting", async () => {
    const help = run(["--help"]);
    expect(await once(help.child, "close")).to.deep.equal([0, null]);
    for (const command of ["start", "migrate", "doctor", "reindex", "reconcile"])
      expect(help.said()).to.contain(command);
    const start = run(["start"]);
    expect(await once(start.child, "close")).to.deep.equal([1, null]);
    expect(start.said()).to.contain("CHAIN_ID").and.not.contain("    at ");
  });

  it("starts, settles, shows the dashboard, and stops", async () => {
    const port = await freePort();
    const url = `http://127.0.0.1:${port}`;
    const service = run(["start"], { ...world.env(), LOG_LEVEL: "info", HOST: "127.0.0.1", PORT: String(port) });
    try {
      await until(async () => service.said().includes("the Facilitator is up"), "it is up", 60_000);
      const client = createFacilitatorClient({ url });
      expect((await client.authorize(paymentToWire(await world.signPayment()))).kind).to.equal("settled");
      const page = await fetch(`${url}/`, { headers: { accept: "text/html" } });
      expect(await page.text()).to.match(/<script[^>]+src=/);
      service.child.kill("SIGTERM");
      expect(await once(service.child, "close"), service.said()).to.deep.equal([0, null]);
    } finally {
      service.child.kill("SIGKILL");
    }
  });
});
