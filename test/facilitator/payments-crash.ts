import { spawn } from "node:child_process";
import { once } from "node:events";
import { cpSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { expect } from "chai";
import type { SignedPayment } from "turnpike/protocol";
import { STEPS } from "../../facilitator/src/steps";
import { testKey } from "../support/chain";
import { emptyDatabase, type FacilitatorWorld, fund, startWorld, until, walletOf } from "../support/facilitator";

const ROOT = path.resolve(__dirname, "../..");

describe("payments of a process that is killed", function () {
  this.timeout(120_000);
  let world: FacilitatorWorld;
  let home: string;

  before(async () => {
    world = await startWorld();
    home = mkdtempSync(path.join(tmpdir(), "turnpike-crash-"));
  });
  after(async () => {
    await world.stop();
    rmSync(home, { recursive: true, force: true });
  });

  for (const step of STEPS) {
    it(`B6 S1 killed after "${step}": one transfer, and the payment completes`, async () => {
      const dir = path.join(home, step);
      cpSync(await emptyDatabase(), dir, { recursive: true });
      const key = testKey(`crash relayer ${step}`) as `0x${string}`;
      await fund(world.chain, walletOf(world.chain, key).address as `0x${string}`);
      const settings = { PGLITE_DIR: dir, RELAYER_KEYS: key, PGLITE_LOCK_MS: "2000" };
      const signed = await world.signPayment();
      expect(await runUntilKilled(signed, { ...world.env(settings), KILL_AFTER: step })).to.equal("SIGKILL");

      const core = await world.core(settings);
      const id = world.idOf(signed);
      if (step !== "received") {
        // Accepted is accepted: it completes without anybody asking again.
        await until(async () => (await core.payments.status(id)).status === "settled", "the payment has completed");
      }
      const outcome = await core.payments.authorize(signed);
      if (outcome.kind !== "settled") expect.fail(`it is ${outcome.kind}`);
      const mine = (await world.transfers()).filter(({ from }) => from === signed.authorization.from);
      expect(mine.map(({ transaction }) => transaction)).to.deep.equal([outcome.proof.transaction]);
      await core.stop();
    });
  }
});

async function runUntilKilled(signed: SignedPayment, env: Record<string, string>): Promise<string | number | null> {
  const { authorization } = signed;
  const wire = {
    ...signed,
    authorization: {
      ...authorization,
      value: authorization.value.toString(),
      validAfter: authorization.validAfter.toString(),
      validBefore: authorization.validBefore.toString(),
    },
  };
  const child = spawn(
    process.execPath,
    [
      "-r",
      "ts-node/register/transpile-only",
      "-r",
      "tsconfig-paths/register",
      path.join(__dirname, "support/killed.ts"),
    ],
    {
      cwd: ROOT,
      env: { PATH: process.env.PATH ?? "", ...env, SIGNED_PAYMENT: JSON.stringify(wire) },
      stdio: ["ignore", "ignore", "inherit"],
    },
  );
  const [code, signal] = await once(child, "exit");
  return signal ?? code;
}
