/** What an operator does with the dashboard when something is wrong, in a real browser. */
import { expect } from "chai";
import { toBeHex } from "ethers";
import type { Page } from "playwright-core";
import type { System } from "turnpike/facilitator";
import { buyQuote } from "../../examples/agent";
import { loadConfig } from "../../facilitator/src/config";
import { openStore } from "../../facilitator/src/db/open";
import { buildProgram, type Program } from "../facilitator/support/processes";
import { type TestAgent, until } from "../support/sandbox";
import { check, useDashboard, visit, wide } from "./support/dashboard";
import { tabTo } from "./support/keyboard";

const WIDTHS = [390, 1440] as const;
/** A payment is stuck after a minute. */
const PATIENCE_MS = 120_000;

describe("dashboard: jobs of an operator", function () {
  this.timeout(600_000);
  let buyer: TestAgent;
  let program: Program;

  const at = useDashboard(async (world) => {
    buyer = await world.agent("a buyer");
    await buyQuote(buyer.agent, world.provider.url, "ABC");
    program = buildProgram();
  });
  after(() => program?.remove());

  const matter = (page: Page, text: string | RegExp) => page.locator(".matters li").filter({ hasText: text });

  async function system(): Promise<System> {
    const headers = { authorization: `Bearer ${at.world.providerKey}` };
    return (await (await fetch(`${at.world.facilitator.url}/operator/system`, { headers })).json()) as System;
  }

  it("job 13: goes from Attention to why a payment is stuck, and what helps, by keyboard alone", async () => {
    const { page, world } = at;
    await visit(page, "/");
    await world.chain.mineEvery(0);
    const bought = buyQuote(buyer.agent, world.provider.url, "STUCK").catch(() => undefined);
    const stuck = matter(page, `by ${buyer.address.slice(0, 6)}`);
    await stuck.waitFor({ timeout: PATIENCE_MS });
    for (const width of WIDTHS) {
      await wide(page, width);
      await visit(page, "/");
      await stuck.filter({ hasText: /A payment of \$0\.50\d* waits/ }).waitFor();
      await stuck.filter({ hasText: "not mined yet" }).waitFor();
      await check(page, `a stuck payment on Overview, ${width} wide`);
      await page.locator("body").focus();
      await tabTo(page, /^See why, and what helps$/);
      await page.keyboard.press("Enter");
      const why = page.getByRole("region", { name: "Why it is not settled" });
      await why.filter({ hasText: /no block has it yet|not ready/ }).waitFor();
      await why.filter({ hasText: /Wait for a block|sees every check on System/ }).waitFor();
      await check(page, `why a payment is stuck, ${width} wide`);
    }
    await world.chain.mineEvery(200);
    await bought;
    await page.getByRole("region", { name: "Why it is not settled" }).waitFor({ state: "detached" });
    await visit(page, "/");
    await stuck.waitFor({ state: "detached" });
  });

  it("job 14: says which key runs dry and when, on Overview and System, until coins are sent to it", async () => {
    const { page, world } = at;
    const { relayer } = world.facilitator;
    let spent = 0;
    await until("the costs of the day", async () => {
      spent = (await system()).costs.reduce((sum, { wei }) => sum + wei, 0);
      return spent > 0;
    });
    await world.chain.provider.send("hardhat_setBalance", [relayer, toBeHex(BigInt(Math.round(spent * 3.5)))]);
    const dry = matter(page, "Gas for 3 days").filter({ hasText: relayer.slice(0, 6) });
    const lane = page.getByRole("table", { name: "Relayer keys" }).getByRole("row").filter({ hasText: "3 days" });
    for (const width of WIDTHS) {
      await wide(page, width);
      await visit(page, "/");
      await dry.filter({ hasText: "Send coins to this address" }).waitFor();
      await check(page, `a key that runs dry on Overview, ${width} wide`);
      await visit(page, "/system");
      await lane.filter({ hasText: relayer.slice(0, 6) }).waitFor();
      await check(page, `a key that runs dry on System, ${width} wide`);
    }
    const donor = await world.chain.wallet("donor");
    await (await donor.sendTransaction({ to: relayer, value: 10n ** 19n })).wait();
    await lane.waitFor({ state: "detached" });
    await visit(page, "/");
    await dry.waitFor({ state: "detached" });
    await until("the lane is well again", async () => (await system()).lanes.every(({ isWell }) => isWell));
  });

  it("job 15: shows what differs from the chain and what settles it, until reconcile finds nothing", async () => {
    const { page, world } = at;
    const { facilitator } = world;
    const found = matter(page, "between database and chain");
    const reconcile = () => program.run(["reconcile"], facilitator.settings);
    await facilitator.stop();
    const store = await openStore(loadConfig(facilitator.settings).database);
    await store.db.updateTable("rollup_payers").set({ count: 99 }).where("payer", "=", buyer.address).execute();
    await store.close();
    const { status, stdout } = await reconcile();
    expect([status, stdout.split("\n")[0]?.slice(0, 12)], stdout).to.deep.equal([1, "difference: "]);
    await facilitator.start();
    for (const width of WIDTHS) {
      await wide(page, width);
      await visit(page, "/");
      await found.filter({ hasText: "1 difference" }).filter({ hasText: "rollup_payers" }).waitFor();
      await found.filter({ hasText: buyer.address }).filter({ hasText: "99" }).waitFor();
      await found.filter({ hasText: "reindex --wipe" }).waitFor();
      await check(page, `a difference on Overview, ${width} wide`);
    }
    await facilitator.stop();
    const rebuilt = await program.run(["reindex", "--wipe"], facilitator.settings);
    expect(rebuilt.status, rebuilt.stderr).to.equal(0);
    const settled = await reconcile();
    expect([settled.status, settled.stdout]).to.deep.equal([0, "database and chain agree\n"]);
    await facilitator.start();
    await visit(page, "/");
    await found.waitFor({ state: "detached" });
    expect(at.errors).to.deep.equal([]);
  });
});
