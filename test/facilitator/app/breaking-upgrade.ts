/** The documented way through a breaking migration (docs/operators/run.md), from the previous release and under load. */
import { execFileSync } from "node:child_process";
import { existsSync, mkdtempSync, rmSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { expect } from "chai";
import { addressOfKey, type Hex } from "turnpike/protocol";
import { testKey } from "../../support/chain";
import { type FacilitatorWorld, fund, startWorld } from "../../support/facilitator";
import { startPostgres, type TestPostgres } from "../../support/postgres";
import { record } from "../support/figures";
import { buildProgram, type Program, programAt, type ServiceProcess } from "../support/processes";
import { SteadyPayments } from "../support/steady-payments";

const ROOT = path.resolve(__dirname, "../../..");
const PREVIOUS = "8bc6d0a900646fbffda092bb88b899a237840619";
const ROLES = ["api", "api", "relayer,indexer", "renewals,webhooks"];
const BREAKING = `{ id: "999-breaking", statements: ["comment on table payments is 'broken'"], isBreaking: true }`;

const git = (args: readonly string[], cwd: string) => execFileSync("git", args, { cwd, stdio: "pipe" });

function isKnown(commit: string): boolean {
  try {
    git(["cat-file", "-e", `${commit}^{commit}`], ROOT);
    return true;
  } catch {
    return false;
  }
}

/** Builds that release from its sources, with the packages and the contracts' types of this one. */
function buildPrevious(): Program {
  const folder = mkdtempSync(path.join(tmpdir(), "turnpike-previous-"));
  git(["clone", "--quiet", "--shared", "--no-checkout", ROOT, folder], ROOT);
  git(["checkout", "--quiet", PREVIOUS], folder);
  for (const part of ["node_modules", "sdk/node_modules", "facilitator/node_modules", "sdk/src/chain/generated"])
    if (existsSync(path.join(ROOT, part))) symlinkSync(path.join(ROOT, part), path.join(folder, part));
  const tools: { build(): string } = require(path.join(folder, "facilitator/tools/build.cjs"));
  return programAt(tools.build(), () => rmSync(folder, { recursive: true, force: true }));
}

describe("Facilitator: a breaking migration from the previous release", function () {
  this.timeout(600_000);
  let postgres: TestPostgres;
  let world: FacilitatorWorld;
  let previous: Program;
  let next: Program;
  const running: ServiceProcess[] = [];

  before(async function () {
    // A clone without history has no previous release.
    if (!isKnown(PREVIOUS)) this.skip();
    postgres = await startPostgres();
    world = await startWorld({ postgres });
    previous = buildPrevious();
    next = buildProgram((text) => text.replace(/(var MIGRATIONS = \[[^\]]*?),?\s*\];/, `$1, ${BREAKING}];`));
  });
  after(async () => {
    for (const one of running) await one.kill();
    previous?.remove();
    next?.remove();
    await world?.stop();
    await postgres?.stop();
  });

  it("HD10 is refused while that release runs, which serves on; after its stop it is applied, and no payment is lost", async () => {
    const key = testKey("upgraded lane") as Hex;
    await fund(world.chain, addressOfKey(key));
    // Of both releases.
    const env = world.env({ RELAYER_KEYS: key, DATABASE_URL: await postgres.database(), METRICS_PORT: "0" });
    const startAll = async (program: Program) => {
      for (const roles of ROLES) running.push(await program.start(env, roles));
    };
    const first = await previous.run(["migrate"], env);
    expect(first.status, first.stderr).to.equal(0);
    await startAll(previous);
    const payTo = addressOfKey(testKey("payee of the upgrade") as Hex);
    const payments = new SteadyPayments({
      world,
      payTo,
      payers: 4,
      clients: () => running.slice(0, 2).map((one) => one.client),
    });
    await payments.begin();
    await payments.more();

    const refused = await next.run(["migrate"], env);
    expect(refused.status, refused.stdout + refused.stderr).to.equal(1);
    expect(refused.stderr).to.contain("999-breaking breaks with the release that runs on this database");
    const doctor = await next.run(["doctor"], env);
    expect(doctor.status).to.equal(1);
    expect(doctor.stdout).to.match(/^fail DATABASE_URL: .*999-breaking.*Remedy: stop every process/m);
    await payments.more();

    const stoppedMs = performance.now();
    for (const one of running.splice(0)) expect(await one.stop(), one.output()).to.equal(0);
    const applied = await next.run(["migrate"], env);
    expect(applied.status, applied.stderr).to.equal(0);
    expect(applied.stdout).to.match(/^applied .*999-breaking$/m);
    await startAll(next);
    const awaySec = Math.round((performance.now() - stoppedMs) / 1_000);
    await payments.more();
    await payments.end();
    await payments.requireOnce();
    await payments.requireProofs(3);
    const late = await previous.run(["migrate"], env);
    expect(late.stderr).to.contain("newer version (it has 999-breaking)");
    const reconciled = await next.run(["reconcile"], env);
    expect(reconciled.status, reconciled.stdout).to.equal(0);
    record("upgrade", { payments: payments.settled.length, awaySec });
  });
});
