import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { expect } from "chai";
import { fileLedger } from "turnpike/agent/file-ledger";
import { type Hex, parseMemo } from "turnpike/protocol";
import { budgetAgent, type Job, type JobOutcome, runJobs, summary } from "../../examples/budget-agent";
import { buyProof, oneTimeOption, present, quoteOf } from "../../scripts/sandbox/by-hand";
import { bundled } from "../support/bundled";
import { DAY_SEC, spentBy, startSandbox, type TestAgent, UNIT, until, type World } from "../support/sandbox";

describe("end to end > agents", function () {
  this.timeout(120_000);
  let world: World;

  before(async () => {
    world = await startSandbox();
  });
  after(() => world.stop());

  describe("an agent that sells to agents", () => {
    let ada: TestAgent;
    before(async () => {
      ada = await world.agent("ada");
    });

    it("buys what it needs with what it earns", async () => {
      const account = world.specialistAccount.address;
      const before = await world.contracts.balanceOf(account);
      const spent = await spentBy(world, ada.address, async () => {
        const response = await ada.agent.pay(`${world.specialist.url}/advice?symbol=ETH`);
        expect(response.status).to.equal(200);
        const { advice, boughtIn } = (await response.json()) as { advice: string; boughtIn: string };
        expect(advice).to.contain("ETH");
        expect(await world.chain.provider.getTransactionReceipt(boughtIn)).to.include({ status: 1 });
      });
      expect(spent).to.equal((3n * UNIT) / 4n);
      expect((await world.contracts.balanceOf(account)) - before).to.equal(UNIT / 4n);
    });

    it("C14 gives a payment back when it could not deliver, and the same proof works later", async () => {
      const url = `${world.specialist.url}/advice?symbol=BTC`;
      const hand = { wallet: ada.wallet, chainId: world.contracts.chainId, facilitator: world.facilitator.url };
      const proof = await buyProof(hand, url);
      await world.provider.stop();
      expect((await present(url, proof)).status).to.be.within(500, 599);
      await world.provider.start();
      expect((await present(url, proof)).status).to.equal(200);
    });
  });

  describe("an agent that runs a day on a budget", () => {
    let folder = "";
    let offsetSec = 0;
    let count = 0;
    beforeEach(() => {
      // Below the workspace, so that a program in it finds its packages.
      folder = mkdtempSync(join("cache", "budget-agent-"));
    });
    afterEach(() => rmSync(folder, { recursive: true }));

    const quote = (name: string): Job => ({ name, url: `${world.provider.url}/quote?symbol=B${++count}` });
    const newWallet = () => world.agent(`on a budget ${++count}`);
    const optionsOf = ({ wallet }: TestAgent, perDay: bigint) => ({
      key: wallet.privateKey as Hex,
      perDay,
      facilitator: world.facilitator.url,
      chainId: world.contracts.chainId,
      turnpike: world.contracts.turnpike,
      token: world.contracts.token,
    });

    /** Moves the chain and the agents' clock, and waits until the provider and the Facilitator both follow the chain. */
    async function nextDay(): Promise<void> {
      const endSec = ((await world.chain.provider.getBlock("latest"))?.timestamp ?? 0) + DAY_SEC;
      offsetSec += DAY_SEC + 1;
      await world.chain.advance(DAY_SEC + 1);
      const { agent } = await newWallet();
      await until("a payment of the next day", async () => {
        const { url } = quote("probe");
        const { memo = "" } = oneTimeOption(await quoteOf(url));
        if ((parseMemo(memo)?.expiresAtSec ?? 0) < endSec) return false;
        return agent.pay(url).then(
          ({ ok }) => ok,
          () => false,
        );
      });
    }

    /** One run, as of a program that starts, works and ends. */
    async function run(one: TestAgent, perDay: bigint, jobs: readonly Job[]) {
      const agent = budgetAgent({
        ...optionsOf(one, perDay),
        ledger: fileLedger(join(folder, "ledger"), { staleMs: 2_000 }),
        clock: { nowSec: () => Math.floor(Date.now() / 1_000) + offsetSec },
      });
      try {
        const outcomes = await runJobs(agent, jobs, join(folder, "results"));
        return { states: outcomes.map(({ state }: JobOutcome) => state), text: await summary(agent, outcomes) };
      } finally {
        await agent.close();
      }
    }

    it("stops at the budget in the middle of the day, pays nothing more, and goes on the next day", async () => {
      const one = await newWallet();
      const report = { name: "report", url: `${world.provider.url}/report`, plan: true };
      const jobs = [quote("first"), report, quote("second"), quote("third"), quote("fourth")];
      const perDay = 11n * UNIT;
      const spent = await spentBy(world, one.address, async () => {
        const { states, text } = await run(one, perDay, jobs);
        expect(states, text).to.deep.equal(["done", "done", "done", "waiting", "waiting"]);
        expect(text).to.match(/^waiting third: .*\nwaiting fourth\nspent 11\.00 of 11\.00 in 24 hours$/m);
      });
      expect(spent).to.equal(perDay);
      const again = await spentBy(world, one.address, async () => {
        expect((await run(one, perDay, jobs)).states).to.deep.equal(["done", "done", "done", "waiting", "waiting"]);
      });
      expect(again).to.equal(0n);
      await nextDay();
      const later = await spentBy(world, one.address, async () => {
        const { states, text } = await run(one, perDay, jobs);
        expect(states, text).to.deep.equal(["done", "done", "done", "done", "done"]);
        expect(text).to.match(/spent 1\.00 of 11\.00 in 24 hours$/);
      });
      expect(later).to.equal(UNIT);
      expect(readFileSync(join(folder, "results", "fourth"), "utf8")).to.contain('"price":"1234.56"');
    });

    it("pays once when it is killed between a payment and its answer, and has the answer after a restart", async () => {
      const one = await newWallet();
      const jobs = [quote("first"), quote("second")];
      writeFileSync(join(folder, "jobs.json"), JSON.stringify(jobs));
      const { key, perDay, facilitator, chainId, turnpike, token } = optionsOf(one, UNIT);
      const spent = await spentBy(world, one.address, async () => {
        const child = spawn(
          process.execPath,
          ["-r", resolve(__dirname, "support/kill-when-served.cjs"), bundled("examples/budget-agent.ts", folder)],
          {
            stdio: "inherit",
            env: {
              PATH: process.env.PATH,
              AGENT_KEY: key,
              FACILITATOR_URL: facilitator,
              CHAIN_ID: String(chainId),
              TURNPIKE: turnpike,
              TOKEN: token,
              PER_DAY: String(perDay),
              JOBS: join(folder, "jobs.json"),
              LEDGER: join(folder, "ledger"),
              RESULTS: join(folder, "results"),
            },
          },
        );
        const [, signal] = (await once(child, "exit")) as [number | null, string | null];
        expect(signal).to.equal("SIGKILL");
      });
      expect(spent, "the first job is paid for").to.equal(UNIT / 2n);
      const after = await spentBy(world, one.address, async () => {
        expect((await run(one, UNIT, jobs)).states).to.deep.equal(["done", "done"]);
      });
      expect(after, "the second job alone").to.equal(UNIT / 2n);
      for (const { name } of jobs) expect(readFileSync(join(folder, "results", name), "utf8")).to.contain("1234.56");
    });

    it("fails a job that fits no day's budget, and runs the others", async () => {
      const one = await newWallet();
      const report = { name: "report", url: `${world.provider.url}/report`, plan: true };
      const spent = await spentBy(world, one.address, async () => {
        expect((await run(one, UNIT, [report, quote("first")])).states).to.deep.equal(["failed", "done"]);
      });
      expect(spent).to.equal(UNIT / 2n);
    });
  });
});
