import { readFileSync } from "node:fs";
import path from "node:path";
import { expect } from "chai";
import { buyQuote } from "../../examples/agent";
import { recordOf, until, type World } from "../support/sandbox";
import { PAGES, SHOTS, useDashboard, visit } from "./support/dashboard";

const AXE = readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");
const RENEWALS = 12;

interface Found {
  readonly violations: readonly { readonly id: string; readonly nodes: readonly { readonly html: string }[] }[];
}

/** A subscription and its twelve renewals, a metered one whose cap is used up, and a payment at either end. */
async function happyYear(world: World): Promise<void> {
  const { agent } = await world.agent("a reader for a year");
  const origins = [world.provider.url];
  const { idHash } = await agent.subscribe({ planId: world.plans.reader, origins, periods: RENEWALS + 1 });
  await buyQuote(agent, world.provider.url, "ABC");
  for (let month = 1; month <= RENEWALS; month++) {
    const { paidThroughSec } = await recordOf(world, idHash);
    const { timestamp } = (await world.chain.provider.getBlock("latest")) ?? { timestamp: 0 };
    await world.chain.advance(Math.max(1, paidThroughSec + 60 - timestamp));
    await until(`renewal ${month}`, async () => (await recordOf(world, idHash)).paidThroughSec > paidThroughSec);
  }
  const other = await world.agent("a user of what is metered");
  const { id } = await other.agent.subscribe({
    planId: world.plans.small,
    maxOverage: 2_000_000,
    origins,
  });
  for (let call = 0; call < 3; call++) {
    const answer = await other.agent.fetch(`${world.provider.url}/complete`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ words: 1_000 }),
    });
    await answer.arrayBuffer();
  }
  expect(id).to.be.a("string");
  const { agent: late } = await world.agent("who comes at the end");
  await buyQuote(late, world.provider.url, "XYZ");
}

describe("dashboard, on the data of a happy year", function () {
  this.timeout(300_000);
  const at = useDashboard(happyYear);

  for (const [width, colorScheme] of [
    [1280, "light"],
    [1280, "dark"],
    [390, "light"],
    [390, "dark"],
  ] as const) {
    it(`passes the accessibility rules on every page, ${width} wide, ${colorScheme}`, async () => {
      const { page } = at;
      await page.setViewportSize({ width, height: 844 });
      await page.emulateMedia({ colorScheme, reducedMotion: "reduce" });
      for (const [address, title] of Object.entries(PAGES)) {
        await visit(page, `${address}?days=365`);
        // Through the debugger, whose scripts the page's own policy does not forbid.
        await page.evaluate(AXE);
        const { found, overflow } = await page.evaluate(async () => {
          const { violations } = await (window as unknown as { axe: { run(): Promise<Found> } }).axe.run();
          return {
            found: violations.map(({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html).join(" | ")}`),
            overflow: document.documentElement.scrollWidth - window.innerWidth,
          };
        });
        await page.screenshot({
          path: path.join(SHOTS, `${title.toLowerCase()}-${width}-${colorScheme}.png`),
          fullPage: true,
        });
        expect(found, `${address} at ${width}, ${colorScheme}`).to.deep.equal([]);
        expect(overflow, `${address} at ${width} scrolls sideways`).to.be.at.most(0);
      }
    });
  }

  it("draws the year: a bar for each renewal, none of them lost", async () => {
    const { page } = at;
    await page.setViewportSize({ width: 1280, height: 844 });
    await visit(page, "/?days=365");
    const renewed = page.locator(".figure", { hasText: "Renewals collected" });
    await renewed.filter({ hasText: `${RENEWALS} of ${RENEWALS}` }).waitFor();
    await page.getByText("Values as a table").first().click();
    const cells = await page
      .getByRole("table", { name: /^Volume/ })
      .getByRole("cell", { name: "$10.00 (1)" })
      .count();
    // The signup and each renewal stand in a week of their own.
    expect(cells).to.be.within(RENEWALS, RENEWALS + 1);
    expect(at.errors).to.deep.equal([]);
  });
});
