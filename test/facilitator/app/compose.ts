import { execFile } from "node:child_process";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { promisify } from "node:util";
import { expect } from "chai";
import type { Readiness } from "turnpike/facilitator";
import { addressOfKey, type Hex, proofToWire } from "turnpike/protocol";
import { testKey } from "../../support/chain";
import { type FacilitatorWorld, fund, startWorld } from "../../support/facilitator";
import { startPostgres, type TestPostgres } from "../../support/postgres";
import { until } from "../../support/until";
import { variants } from "../../support/variants";
import { type Composition, compose } from "../support/compose";
import { paymentToWire } from "../support/payments";
import { buildProgram, type LaunchedProcess, type Program } from "../support/processes";

const RELAYER_KEY = testKey("compose relayer") as Hex;
const PROOF_KEY = testKey("compose proofs") as Hex;

describe("Facilitator: compose.yaml's own processes", function () {
  this.timeout(300_000);
  let postgres: TestPostgres;
  let world: FacilitatorWorld;
  let program: Program;
  let databaseUrl: string;
  let composition: Composition;
  const running = new Set<LaunchedProcess>();

  before(async () => {
    postgres = await startPostgres();
    world = await startWorld({ postgres });
    program = buildProgram();
    await fund(world.chain, addressOfKey(RELAYER_KEY));
    databaseUrl = await postgres.database();
    composition = composed();
  });
  afterEach(async () => {
    for (const one of running) await one.kill();
    running.clear();
  });
  after(async () => {
    composition?.remove();
    program?.remove();
    await world?.stop();
    await postgres?.stop();
  });

  function composed(more: Readonly<Record<string, string>> = {}): Composition {
    const { contracts, chain } = world;
    return compose({
      filledIn: {
        CHAIN_ID: String(chain.chainId),
        RPC_URLS: chain.rpcUrl,
        TURNPIKE: contracts.turnpike,
        BATCH_SETTLER: contracts.batchSettler,
        TOKENS: `'[{"address":"${contracts.token}","name":"${contracts.tokenName}","version":"${contracts.tokenVersion}"}]'`,
        ...more,
      },
      appended: { DATABASE_URL: databaseUrl },
      secrets: { relayer_key: RELAYER_KEY, proof_key: PROOF_KEY },
    });
  }

  async function launch(name: string, from = composition, more: Readonly<Record<string, string>> = {}) {
    const { args, env } = from.service(name);
    const launched = await program.launch(args, { ...env, METRICS_PORT: "0", ...more });
    running.add(launched);
    return launched;
  }

  it("HD1 migrate ends with 0; api, relayer and worker start, are healthy, settle a payment and stop with 0", async () => {
    expect([...composition.names].sort()).to.deep.equal(["api", "migrate", "relayer", "worker"]);
    const { args, env } = composition.service("migrate");
    const migrated = await program.run(args, env);
    expect(migrated.status, migrated.stdout + migrated.stderr).to.equal(0);

    const [api, relayer, worker] = await Promise.all([launch("api"), launch("relayer"), launch("worker")]);
    await Promise.all([api.untilUp(), relayer.untilUp(), worker.untilUp()]);
    for (const one of [api, relayer, worker]) {
      const shell = promisify(execFile);
      const asked = shell("sh", ["-c", composition.healthcheck], {
        env: { PATH: process.env.PATH, PORT: new URL(one.url).port },
      });
      await asked;
      // A process without the relayer knows its lanes by the next look into the database, and says so until then.
      await until(async () => {
        const readiness = await fetch(`${one.url}/readyz`);
        const { ready, checks } = (await readiness.json()) as Readiness;
        expect(ready, JSON.stringify(checks)).to.equal(checks.every(({ ok }) => ok));
        return readiness.status === 200;
      }, "it is ready");
    }
    const signed = await world.signPayment();
    const outcome = await api.client.authorize(paymentToWire(signed));
    expect(outcome.kind).to.equal("settled");
    if (outcome.kind === "settled")
      expect((await api.client.verifyProof(proofToWire(outcome.proof))).valid).to.equal(true);
    expect(await world.transfers()).to.have.length(1);

    // docs/operators/run.md: docker compose run --rm relayer doctor
    const doctor = await program.run(["doctor"], composition.service("relayer").env);
    expect(doctor.status, doctor.stdout).to.equal(0);

    for (const one of [api, relayer, worker]) {
      running.delete(one);
      expect(await one.stop(), one.output()).to.equal(0);
    }
  });

  it("HD1 no service is given a key that its roles do not use", () => {
    for (const name of composition.names) {
      const { env } = composition.service(name);
      const roles = env.ROLES?.split(",") ?? [];
      expect(env.RELAYER_KEYS !== undefined, name).to.equal(roles.includes("relayer"));
      expect(env.PROOF_KEY !== undefined, name).to.equal(roles.includes("api"));
    }
  });

  it("HD1 a key in the shared settings that a role does not use is not read", async () => {
    const worker = await launch("worker", composition, {
      RELAYER_KEYS: "file:/run/secrets/no_such_key",
      PROOF_KEY: "file:/run/secrets/no_such_key",
    });
    await worker.untilUp();
    running.delete(worker);
    expect(await worker.stop()).to.equal(0);
  });

  it("HD1 a start that fails stops what it began, says why once and ends with 1, whichever part fails", async () => {
    const taken = createServer();
    await new Promise<void>((resolve) => taken.listen(0, "127.0.0.1", resolve));
    const { port } = taken.address() as AddressInfo;
    const missing = new URL(databaseUrl);
    missing.pathname = "/no_such_database";
    const nowhere = `0x${"11".repeat(20)}`;
    const cases: Record<string, Readonly<Record<string, string>>> = {
      "a port that is taken": { PORT: String(port) },
      "no such database": { DATABASE_URL: missing.href },
      "no node": { RPC_URLS: "http://127.0.0.1:1", RPC_TIMEOUT_MS: "500" },
      "another chain": { CHAIN_ID: "31338" },
      "no contract": { TURNPIKE: nowhere },
      "a token that is none": { TOKENS: JSON.stringify([{ address: nowhere, name: "None", version: "1" }]) },
    };
    const all = Object.entries(cases);
    try {
      for (const name of ["api", "relayer", "worker"]) {
        for (const [what, wrong] of name === "api" ? all : variants(all)) {
          const { args, env } = composition.service(name);
          const ended = await program.run(args, { ...env, HOST: "127.0.0.1", PORT: "0", ...wrong });
          const output = ended.stdout + ended.stderr;
          expect(ended.status, `${name}, ${what}: ${output}`).to.equal(1);
          expect(output.split("\n").length, `${name}, ${what}: ${output}`).to.be.lessThan(30);
        }
        const key = { api: "PROOF_KEY", relayer: "RELAYER_KEYS" }[name];
        if (key === undefined) continue;
        const { args, env } = composition.service(name);
        const ended = await program.run(args, { ...env, [key]: "" });
        expect(ended.status).to.equal(1);
        expect(ended.stderr).to.contain(`${key} is missing`);
      }
    } finally {
      await new Promise((resolve) => taken.close(resolve));
    }
  });
});
