import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { expect } from "chai";
import { Pool } from "pg";
import { type ClaimStore, type MeterPort, memoryClaims, type Provider } from "turnpike/gate";
import { postgresClaims } from "turnpike/gate/postgres";
import { Unavailable } from "turnpike/protocol";
import { createFileMeterStore } from "../../../../sdk/src/gate/provider/create-meter";
import {
  FRAMEWORKS,
  type Framework,
  ONE_TIME,
  paidHeaders,
  type SmallFacilitator,
  send,
  startSmallFacilitator,
  type TestServer,
  testProvider,
} from "../../../support/gate";

/** A real store whose disk can be full. */
function fillable(): { readonly store: ClaimStore; isFull: boolean } {
  const claims = memoryClaims({ warn: false });
  const disk = {
    isFull: false,
    store: {
      ...claims,
      async ready() {
        if (disk.isFull) throw new Unavailable("The claim file cannot be written: is the disk full?");
      },
    },
  };
  return disk;
}

describe("a gate that cannot record payments", () => {
  let facilitator: SmallFacilitator;
  let folder: string;
  const made: { stop(): Promise<void> }[] = [];

  beforeEach(async () => {
    facilitator = await startSmallFacilitator();
    folder = mkdtempSync(path.join(tmpdir(), "turnpike-bookkeeping-"));
  });
  afterEach(async () => {
    for (const one of made.splice(0)) await one.stop();
    await facilitator.stop();
    rmSync(folder, { recursive: true, force: true });
  });

  /** Below a regular file nobody can make a folder, whatever rights the process has. */
  function unusable(): string {
    writeFileSync(path.join(folder, "file"), "");
    return path.join(folder, "file", "claims");
  }
  async function serve(framework: Framework, claims: string | ClaimStore): Promise<[Provider, TestServer]> {
    const provider = testProvider(facilitator, { claims });
    const server = await FRAMEWORKS[framework](provider, [{ path: "/report", gate: { pricing: ONE_TIME } }]);
    made.push({ stop: async () => void (await Promise.all([server.stop(), provider.close()])) });
    return [provider, server];
  }

  for (const framework of Object.keys(FRAMEWORKS) as Framework[]) {
    it(`HD6 asks for no money through ${framework}: 503 with Retry-After, and ready() names the folder`, async () => {
      const [provider, server] = await serve(framework, unusable());
      const failure = await provider.ready().then(
        () => undefined,
        (error: Error & { code?: string }) => error,
      );
      expect(failure).to.include({ code: "ConfigError" });
      expect(failure?.message).to.match(/claims: the folder .* cannot be written; name another, or a shared store/);
      for (let ask = 0; ask < 2; ask += 1) {
        const answer = await send(`${server.url}/report`);
        expect(answer.status).to.equal(503);
        expect(Number(answer.headers["retry-after"])).to.be.greaterThan(0);
        expect(answer.text, "no path is shown to a client").not.to.contain(folder);
        expect(answer.json).not.to.have.property("accepts");
      }
    });
  }

  it("HD6 asks for money again as soon as the store takes writes", async () => {
    const disk = fillable();
    const [provider, server] = await serve("express", disk.store);
    disk.isFull = true;
    await provider.ready().then(
      () => expect.fail("it is not ready"),
      (error: Error & { code?: string }) => expect(error.code).to.equal("Unavailable"),
    );
    expect((await send(`${server.url}/report`)).status).to.equal(503);
    disk.isFull = false;
    expect((await send(`${server.url}/report`)).status).to.equal(402);
    const headers = await paidHeaders(`${server.url}/report`);
    expect((await send(`${server.url}/report`, { headers })).status).to.equal(200);
  });

  it("HD6 a meter whose journal cannot be opened asks for nothing on its routes", async () => {
    const store = createFileMeterStore({ path: path.join(unusable(), "meter.log") });
    const meter = {
      start: () => store.open(),
      stop: async () => undefined,
      flush: async () => undefined,
      unsettled: () => ({ accounts: [], batches: [] }),
    } as unknown as MeterPort;
    const provider = testProvider(facilitator, { meter });
    const server = await FRAMEWORKS.express(provider, [
      { path: "/report", gate: { pricing: ONE_TIME, metered: true } },
      { path: "/single", gate: { pricing: ONE_TIME } },
    ]);
    made.push({ stop: async () => void (await Promise.all([server.stop(), provider.close()])) });
    expect((await send(`${server.url}/report`)).status).to.equal(503);
    expect((await send(`${server.url}/single`)).status, "no other route is concerned").to.equal(402);
    expect(await provider.ready().catch(() => "rejected")).to.equal("rejected");
  });

  it("HD6 a shared store that is down: ready() rejects, requests get 503", async () => {
    const pool = new Pool({ connectionString: "postgres://user:hidden@127.0.0.1:1/none" });
    const [provider, server] = await serve("hono", postgresClaims(pool));
    const failure = await provider.ready().catch((error: Error & { code?: string }) => error);
    expect(failure).to.include({ code: "Unavailable" });
    const answer = await send(`${server.url}/report`);
    expect(answer.status).to.equal(503);
    expect(answer.text).not.to.match(/hidden|127\.0\.0\.1:1/);
    await pool.end();
  });
});
