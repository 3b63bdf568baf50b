/** The programs of the guide "From stock x402 to Turnpike": they compile, and each agent pays each provider. */
import { execFile, spawn } from "node:child_process";
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import path from "node:path";
import { promisify } from "node:util";
import { expect } from "chai";
import { buildSync } from "esbuild";
import { freePort } from "../../scripts/sandbox/chain";
import { until } from "../support/facilitator";
import { type InteropWorld, startInteropWorld } from "./support/world";

const FOLDER = path.join(__dirname, "migration");
const run = promisify(execFile);

describe("interop > the guide's migration", function () {
  this.timeout(240_000);
  let world: InteropWorld;
  let home: string;

  before(async () => {
    world = await startInteropWorld();
    // Within this folder, so that the programs find the stock packages.
    home = mkdtempSync(path.join(__dirname, ".migration-"));
  });
  after(async () => {
    await world?.stop();
    rmSync(home, { recursive: true, force: true });
  });

  it("compiles, before and after", async () => {
    const { stdout } = await run(process.execPath, [
      require.resolve("typescript/lib/tsc.js"),
      "--noEmit",
      "-p",
      FOLDER,
    ]).catch((error: { stdout: string }) => error);
    expect(stdout).to.equal("");
  });

  for (const provider of ["provider-before", "provider-after"]) {
    for (const agent of ["agent-before", "agent-after"]) {
      it(`${agent} pays ${provider}, once and exactly the price`, async () => {
        const port = await freePort();
        const url = `http://127.0.0.1:${port}/report`;
        const payer = await world.payer();
        const server = spawn(process.execPath, [bundle(provider)], { env: { ...settings(), PORT: String(port) } });
        try {
          await until(
            async () => (await fetch(url).catch(() => undefined))?.status === 402,
            `${provider} asks for payment`,
          );
          const env = { ...settings(), PRIVATE_KEY: payer.key, REPORT_URL: url };
          const { stdout } = await run(process.execPath, [bundle(agent)], { env });
          expect(stdout.trim()).to.equal('200 {"report":"sunny"}');
          expect(await world.transfers(payer.address)).to.deep.equal([10_000n]);
        } finally {
          server.kill();
        }
      });
    }
  }

  /** The settings that the guide names. */
  const settings = () => ({
    PAY_TO: world.payTo,
    FACILITATOR_URL: world.facilitatorUrl,
    TURNPIKE_NETWORK: "eip155:84532",
    TURNPIKE_RPC_URL: world.chain.rpcUrl,
    TURNPIKE_FACILITATOR_URL: world.facilitatorUrl,
    TURNPIKE_FACILITATOR_SIGNERS: world.facilitatorSigner,
    TURNPIKE_SECRET: "a secret of at least thirty-two characters",
    TURNPIKE_CLAIMS: path.join(home, "claims"),
  });

  /** The program as it is, with the workspace's own package. */
  function bundle(name: string): string {
    const outfile = path.join(home, `${name}.mjs`);
    if (existsSync(outfile)) return outfile;
    buildSync({
      entryPoints: [path.join(FOLDER, `${name}.mts`)],
      outfile,
      bundle: true,
      platform: "node",
      format: "esm",
      target: "node20",
      logLevel: "error",
      external: ["pg-native", "express", "viem", "@x402/*"],
      banner: {
        js: 'import { createRequire as requireOf } from "node:module"; const require = requireOf(import.meta.url);',
      },
    });
    return outfile;
  }
});
