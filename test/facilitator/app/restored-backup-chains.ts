/** docs/operators/backup.md with two chains: each is restored, adopted and compared by its name. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { expect } from "chai";
import { type Address, type PaymentProof, proofToWire, type SignedPayment } from "turnpike/protocol";
import { until } from "../../support/facilitator";
import { startPostgres, type TestPostgres } from "../../support/postgres";
import { copyDatabase } from "../support/backup";
import { NETWORK_A, NETWORK_B, startTwoChains, type TwoChains } from "../support/chains";
import { paymentToWire } from "../support/payments";
import { buildProgram, type Program, type ServiceProcess } from "../support/processes";
import type { ServiceWorld } from "../support/service";

const PATIENCE_MS = 120_000;

describe("Facilitator: an old backup of two chains", function () {
  this.timeout(400_000);
  let folder: string;
  let postgres: TestPostgres;
  let chains: TwoChains;
  let program: Program;
  let url: string;
  let running: ServiceProcess | undefined;

  before(async () => {
    folder = mkdtempSync(path.join(tmpdir(), "turnpike-restored-"));
    postgres = await startPostgres();
    chains = await startTwoChains(postgres);
    program = buildProgram();
    url = await postgres.database();
  });
  after(async () => {
    await running?.kill();
    program?.remove();
    await chains?.stop();
    await postgres?.stop();
    rmSync(folder, { recursive: true, force: true });
  });

  const settings = (more: Readonly<Record<string, string>> = {}) => chains.env({ DATABASE_URL: url, ...more });
  const run = (...args: readonly string[]) => program.run(args, settings());
  async function start(more: Readonly<Record<string, string>> = {}): Promise<void> {
    running = await program.start(settings(more));
  }
  async function end(how: "kill" | "stop"): Promise<void> {
    await running?.[how]();
    running = undefined;
  }
  const settled = (signed: SignedPayment): Promise<PaymentProof> =>
    until(
      async (saw) => {
        const outcome = await running?.client.authorize(paymentToWire(signed)).catch(saw);
        return outcome?.kind === "settled" ? outcome.proof : saw(outcome);
      },
      "the payment is settled",
      PATIENCE_MS,
    );
  const isReady = async (network: string): Promise<boolean> =>
    (await fetch(`${running?.url}/readyz?network=${network}`)).status === 200;
  const transfersOf = async (world: ServiceWorld, { authorization }: SignedPayment): Promise<number> =>
    (await world.transfers(authorization.to as Address)).filter(({ from }) => from === authorization.from).length;

  it("B16 S5 restored: nothing is sent twice on either chain, and each is compared by its name", async () => {
    const proofs = new Map<SignedPayment, { world: ServiceWorld; proof: PaymentProof }>();
    const payOnBoth = async (): Promise<void> => {
      for (const world of [chains.a, chains.b]) {
        const signed = await world.signPayment({ validForSec: 3_600 });
        proofs.set(signed, { world, proof: await settled(signed) });
      }
    };
    await start();
    await payOnBoth();
    await end("stop");
    const backup = await copyDatabase(postgres, url);
    await start();
    await payOnBoth();
    await end("kill");

    url = backup;
    await start();
    for (const network of [NETWORK_A, NETWORK_B])
      await until(async () => !(await isReady(network)), `${network} stops by itself`, PATIENCE_MS);
    expect(running?.output()).to.contain("somebody else uses its key");
    await end("stop");
    const unnamed = await run("reindex", "--wipe");
    expect(unnamed).to.deep.include({
      status: 1,
      stderr: "ConfigError: CHAINS names several: name one with --chain\n",
    });
    for (const network of [NETWORK_A, NETWORK_B])
      expect((await run("reindex", "--wipe", "--chain", network)).status, network).to.equal(0);
    await start({ ADOPT_NONCE: "true" });
    for (const network of [NETWORK_A, NETWORK_B])
      await until(() => isReady(network), `${network} is ready`, PATIENCE_MS);
    for (const [signed, { world, proof }] of proofs) {
      expect(proofToWire(await settled(signed))).to.deep.equal(proofToWire(proof));
      expect(await transfersOf(world, signed)).to.equal(1);
    }
    await end("stop");
    await start();
    await payOnBoth();
    const agree = "database and chain agree";
    expect((await run("reconcile")).stdout).to.equal(`${NETWORK_A}: ${agree}\n${NETWORK_B}: ${agree}\n`);
    await compareTheDay();
  });

  /** As docs/operators/run.md says for each day. */
  async function compareTheDay(): Promise<void> {
    const cursorOf = (network: string): string => path.join(folder, network);
    const since = (network: string, cursor: string) =>
      run("reconcile", "--since", "24h", "--chain", network, "--cursor", cursor);
    for (const network of [NETWORK_A, NETWORK_B]) {
      const compared = await since(network, cursorOf(network));
      expect(compared.stdout).to.match(/^database and chain agree on \d+ payments in blocks \d+ to \d+\n$/);
      expect(compared.status).to.equal(0);
    }
    const other = await since(NETWORK_B, cursorOf(NETWORK_A));
    expect(other.status).to.equal(1);
    expect(other.stderr).to.match(/is of local-31337, and this is local-31338: name another file/);
  }
});
