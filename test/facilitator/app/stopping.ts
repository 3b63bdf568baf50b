import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { expect } from "chai";
import { Client } from "pg";
import pino from "pino";
import { startFacilitator } from "../../../facilitator/src/app/start";
import type { Progress } from "../../../facilitator/src/lib/progress";
import { type FacilitatorWorld, startWorld, until } from "../../support/facilitator";
import { startPostgres, type TestPostgres } from "../../support/postgres";
import { paymentToWire, settleBody } from "../support/payments";
import { buildProgram } from "../support/processes";
import { startSilentNode } from "../support/silent-node";

const BLOCKS = 2_000;

describe("Facilitator: stopping and answering in time", function () {
  this.timeout(180_000);
  let postgres: TestPostgres;
  let world: FacilitatorWorld;

  before(async () => {
    postgres = await startPostgres();
    world = await startWorld({ postgres });
  });
  after(async () => {
    await world?.stop();
    await postgres?.stop();
  });

  async function numberIn(url: string, statement: string): Promise<number> {
    const client = new Client({ connectionString: url });
    await client.connect();
    const { rows } = await client.query<{ value: string }>(statement);
    await client.end();
    return Number(rows[0]?.value);
  }

  it("HD6 /authorize answers in AUTHORIZE_WAIT_MS also while its payment waits to be stored, and settles it once", async () => {
    const DATABASE_URL = await postgres.database();
    const core = await world.core({ DATABASE_URL });
    const payer = await world.payer();
    const signed = await world.signPayment({ payer });
    const blocker = new Client({ connectionString: DATABASE_URL });
    await blocker.connect();
    await blocker.query("begin");
    await blocker.query("lock table payments in access exclusive mode");
    const outcome = await core.payments.authorize(signed, { waitMs: 1_000 });
    await blocker.query("rollback");
    await blocker.end();
    expect(outcome.kind, outcome.kind === "refused" ? outcome.error.message : "unknown is pending").to.equal("pending");
    expect((await core.payments.authorize(signed, { waitMs: 30_000 })).kind).to.equal("settled");
    const transfers = (await world.transfers()).filter(({ from }) => from === payer.address);
    expect(transfers).to.have.length(1);
    await core.stop();
  });

  it("HD6 reconcile on a database that has read nothing finds no difference: it says what to do, with status 2", async () => {
    const program = buildProgram();
    try {
      const env = world.env({ DATABASE_URL: await postgres.database() });
      expect((await program.run(["migrate"], env)).status).to.equal(0);
      const { status, stdout } = await program.run(["reconcile"], env);
      expect(stdout).to.match(/^could not be checked: the database has read no block of this chain\. Remedy: start /m);
      expect(stdout).not.to.contain("difference");
      expect(status).to.equal(2);
    } finally {
      program.remove();
    }
  });

  it("HD6 a signal in the first reading of the chain ends it at the next block, and stops what had begun", async () => {
    // Hardhat does not link the blocks that it mines at once: no other test may meet them.
    const before = (await world.chain.provider.send("evm_snapshot", [])) as string;
    await world.chain.provider.send("hardhat_mine", [`0x${BLOCKS.toString(16)}`]);
    const DATABASE_URL = await postgres.database();
    const stopping = new AbortController();
    // Stops as soon as the bar moves for the first time.
    const progress: Progress = {
      begin: () => ({ advance: () => stopping.abort(), setTotal: () => undefined, end: () => undefined }),
    };
    // A node that does not return the logs of many blocks: they are read one by one.
    const oneByOne: typeof fetch = async (input, init) => {
      const body = String(init?.body ?? "");
      if (!body.includes("eth_getLogs") || !/"fromBlock"/.test(body)) return fetch(input, init);
      const { id } = JSON.parse(body) as { id: number };
      return Response.json({ jsonrpc: "2.0", id, error: { code: -32_602, message: "too many blocks" } });
    };
    const lines: string[] = [];
    const logger = pino({ level: "info" }, { write: (line: string) => void lines.push(line) });
    const config = world.config({ DATABASE_URL, PORT: "0" });
    const started = startFacilitator(config, { logger, progress, fetch: oneByOne, signal: stopping.signal });
    const reason = await started.then(
      () => "started",
      (error: unknown) => error,
    );
    expect(reason).to.equal(stopping.signal.reason);
    expect(await numberIn(DATABASE_URL, "select count(*) as value from blocks")).to.be.lessThan(BLOCKS / 2);
    expect(await numberIn(DATABASE_URL, "select count(*) as value from role_leases"), "its lease is released").to.equal(
      0,
    );
    const open =
      "select count(*) as value from pg_stat_activity where datname = current_database() and backend_type = 'client backend'";
    expect(await numberIn(DATABASE_URL, open), "no connection but this one").to.equal(1);
    expect(lines.join("")).to.contain("the Facilitator has stopped").and.not.contain("is up");
    await world.chain.provider.send("evm_revert", [before]);
  });

  it("HD6 every role ends by itself while no node answers, and answers who waits for it", async () => {
    const program = buildProgram();
    const nodes = await Promise.all([startSilentNode(world.chain.rpcUrl), startSilentNode(world.chain.rpcUrl)]);
    try {
      const env = world.env({
        DATABASE_URL: await postgres.database(),
        RPC_URLS: nodes.map(({ url }) => url).join(","),
        // Without an end from outside a request to a node would outlive the stop, whose limit ends it with status 1.
        RPC_TIMEOUT_MS: "120000",
        POLL_MS: "1000",
        LOG_LEVEL: "info",
      });
      const roles = ["relayer,indexer", "renewals,webhooks", "api"];
      const running = [];
      for (const each of roles) running.push(await program.start(env, each));
      const api = running[2] as (typeof running)[number];
      const exact = await world.signExact();
      const signed = await world.signPayment();
      for (const node of nodes) node.silence();
      const post = (path: string, body: unknown) =>
        fetch(`${api.url}${path}`, {
          method: "POST",
          headers: { "content-type": "application/json" },
          body: JSON.stringify(body),
        });
      const waiting = [
        post("/verify", settleBody(exact, 2, world.chain.chainId)),
        post("/settle", settleBody(exact, 2, world.chain.chainId)),
        post("/authorize", { signedPayment: paymentToWire(signed) }),
      ];
      await until(async () => nodes.some((node) => node.unanswered() >= running.length), "everybody waits for a node");
      const starting = await program.launch(["start"], env);
      await until(async () => starting.output().includes("the Facilitator starts"), "another one starts");
      const ended = await Promise.all([...running, starting].map((one) => one.stop()));
      expect(ended, [...running, starting].map((one) => one.output()).join("")).to.deep.equal([0, 0, 0, 0]);
      const [verified, settled, authorized] = await Promise.all(waiting);
      expect(verified?.status).to.equal(503);
      expect(Number(verified?.headers.get("retry-after"))).to.be.greaterThan(0);
      expect(await settled?.json()).to.include({ success: false, errorReason: "settlement_pending" });
      expect(authorized?.status).to.equal(202);
      expect(running.map((one) => one.output()).join("")).not.to.contain("did not stop cleanly");

      // What was accepted, if anything was, is settled once by the next start, and nothing else is.
      for (const node of nodes) node.speak();
      const next = await program.start(env, roles.join(","));
      // 503 until it knows the chain's time.
      await until(async (saw) => {
        const outcome = await next.client.authorize(paymentToWire(signed)).catch(saw);
        return outcome?.kind === "settled" || saw(outcome);
      }, "the next start settles it");
      const from = signed.authorization.from;
      expect((await world.transfers()).filter((transfer) => transfer.from === from)).to.have.length(1);
      expect(await next.stop()).to.equal(0);
    } finally {
      for (const node of nodes) await node.stop();
      program.remove();
    }
  });

  it("HG10 ends with one sentence, and no stack, when the embedded database's folder is lost", async () => {
    const program = buildProgram();
    const volume = mkdtempSync(path.join(tmpdir(), "turnpike-volume-"));
    const dir = path.join(volume, "db");
    try {
      const env = world.env({ DATABASE_URL: "", PGLITE_DIR: dir, PGLITE_LOCK_MS: "2000", LOG_LEVEL: "silent" });
      const service = await program.launch(["start"], env);
      await until(async () => (await fetch(`${service.url}/readyz`).catch(() => undefined))?.ok, "it is ready");
      rmSync(volume, { recursive: true });
      expect(await service.ended).to.equal(1);
      expect(service.output()).to.match(/^ConfigError: PGLITE_DIR \S+ was lost: .*Restore the folder.*\n$/);
    } finally {
      program.remove();
      rmSync(volume, { recursive: true, force: true });
    }
  });
});
