import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { expect } from "chai";
import { createFacilitatorClient } from "turnpike/facilitator";
import { paymentToWire } from "../facilitator/support/payments";
import { freePort } from "../support/chain";
import { type FacilitatorWorld, startWorld, until } from "../support/facilitator";
import { startPostgres, type TestPostgres } from "../support/postgres";

interface Image {
  readonly folder: string;
  readonly env: Readonly<Record<string, string>>;
  readonly entrypoint: readonly string[];
  readonly cmd: readonly string[];
}

describe("image", function () {
  this.timeout(1_200_000);
  let home: string;
  let image: Image;
  let world: FacilitatorWorld;
  let postgres: TestPostgres;

  before(async () => {
    const tools: { buildImage(home: string): Image } = require("../../tools/image.cjs");
    // Outside the workspace: nothing is found there but what the image holds.
    home = mkdtempSync(path.join(tmpdir(), "turnpike-image-"));
    image = tools.buildImage(home);
    postgres = await startPostgres();
    world = await startWorld({ postgres });
  });
  after(async () => {
    await world?.stop();
    await postgres?.stop();
    rmSync(home, { recursive: true, force: true });
  });

  /** As `docker run --read-only` would: the image's environment and entry point, its command unless there are arguments. */
  function run(args: readonly string[] = image.cmd, env: Readonly<Record<string, string>> = {}) {
    const readOnly = ["-rm", "sh", "-c", 'mount -o remount,ro,bind / && exec "$@"', "sh"];
    const child = spawn("unshare", [...readOnly, ...image.entrypoint, ...args], {
      cwd: image.folder,
      env: { PATH: process.env.PATH, ...image.env, ...world.env(), LOG_LEVEL: "info", ...env },
      stdio: ["ignore", "pipe", "pipe"],
    });
    let said = "";
    for (const stream of [child.stdout, child.stderr]) {
      stream.on("data", (chunk: Buffer) => {
        said += chunk.toString();
      });
    }
    return { child, said: () => said, closed: once(child, "close") as Promise<[number | null]> };
  }

  it("migrates, finds nothing wrong, runs as its command says, settles, shows the dashboard, and stops", async () => {
    const migrate = run(["migrate"], { ROLES: "indexer" });
    expect((await migrate.closed)[0], migrate.said()).to.equal(0);
    expect(migrate.said()).to.contain("applied 001-initial");
    const doctor = run(["doctor"]);
    expect((await doctor.closed)[0], doctor.said()).to.equal(0);

    const port = await freePort();
    const service = run(undefined, { HOST: "127.0.0.1", PORT: String(port) });
    const url = `http://127.0.0.1:${port}`;
    try {
      await until(async () => service.said().includes("the Facilitator is up"), "it is up", 60_000);
      const client = createFacilitatorClient({ url });
      expect((await client.authorize(paymentToWire(await world.signPayment()))).kind).to.equal("settled");
      const page = await fetch(`${url}/`, { headers: { accept: "text/html" } });
      expect(page.status).to.equal(200);
      expect(await page.text()).to.match(/<script[^>]+src=/);
    } finally {
      service.child.kill("SIGTERM");
    }
    expect((await service.closed)[0]).to.equal(0);
  });
});
