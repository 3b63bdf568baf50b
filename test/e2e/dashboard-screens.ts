import path from "node:path";
import { expect } from "chai";
import { buyQuote } from "../../examples/agent";
import { recordOf, until, type World } from "../support/sandbox";
import { variants } from "../support/variants";
import { failuresOf } from "./support/axe";
import { figure, PAGES, SHOTS, titled, tooWide, useDashboard, visit } from "./support/dashboard";

const RENEWALS = 12;
/** more than the service keeps for taking back */
const FINAL_AFTER = 160;
const GARBLED = "x402-that-is-none";

/**
 * A subscription and its twelve renewals, payments now and then, prices that nobody paid, a proof that is none, and a
 * metered subscription whose cap is nearly used up.
 * @returns the subscription's public name
 */
async function happyYear(world: World): Promise<string> {
  const { agent } = await world.agent("a reader for a year");
  const origins = [world.provider.url];
  const { idHash } = await agent.subscribe({ planId: world.plans.reader, origins, periods: RENEWALS + 1 });
  const asked = async (credential?: string): Promise<void> => {
    await fetch(`${world.provider.url}/quote`, credential ? { headers: { "X-PAYMENT": credential } } : {});
  };
  await buyQuote(agent, world.provider.url, "ABC");
  for (let month = 1; month <= RENEWALS; month++) {
    if (month % 3 === 0) await buyQuote(agent, world.provider.url, "ABC");
    if (month % 4 === 0) for (const credential of [undefined, undefined, GARBLED]) await asked(credential);
    // Time that is moved by hand waits for no report.
    await world.provider.flush();
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
      body: JSON.stringify({ words: 1_001 }),
    });
    await answer.arrayBuffer();
  }
  expect(id).to.be.a("string");
  const { agent: late } = await world.agent("who comes at the end");
  await buyQuote(late, world.provider.url, "XYZ");
  await world.provider.flush();
  // Transaction costs are shown once they are final, so many blocks later.
  await world.chain.provider.send("hardhat_mine", [`0x${FINAL_AFTER.toString(16)}`]);
  return idHash;
}

describe("dashboard, on the data of a happy year", function () {
  this.timeout(600_000);
  let idHash = "";
  const at = useDashboard(async (world) => {
    idHash = await happyYear(world);
  });

  const screens = [
    [1280, "light"],
    [375, "dark"],
    [1280, "dark"],
    [768, "light"],
    [768, "dark"],
    [375, "light"],
  ] as const;
  for (const [width, colorScheme] of variants(screens, 2)) {
    it(`passes the accessibility rules on every page, ${width} wide, ${colorScheme}`, async () => {
      const { page } = at;
      await page.setViewportSize({ width, height: 844 });
      await page.emulateMedia({ colorScheme, reducedMotion: "reduce" });
      const look = async (title: string): Promise<void> => {
        const file = `${title.toLowerCase().replaceAll(" ", "-")}-${width}-${colorScheme}.png`;
        await page.screenshot({ path: path.join(SHOTS, file), fullPage: true });
        expect(await failuresOf(page), `${title} at ${width}, ${colorScheme}`).to.deep.equal([]);
        expect(await tooWide(page), `of ${title} at ${width}, to be scrolled sideways`).to.deep.equal([]);
      };
      // No event notifies a page of finality: it polls.
      await visit(page, "/?days=365");
      await figure(page, "Settlement cost").getByText("¢").waitFor();
      for (const [address, title] of Object.entries(PAGES)) {
        await visit(page, `${address}?days=365`);
        await look(title);
      }
      await visit(page, `/subscriptions/${idHash}`);
      await page.getByRole("heading", { name: "Timeline" }).waitFor();
      await look("Subscription");
      await visit(page, "/payers");
      await page.getByRole("table", { name: "Payers" }).getByRole("link").first().click();
      await page.getByRole("heading", { level: 1, name: /^Payer 0x/ }).waitFor();
      await page.getByRole("table", { name: /^Charges/ }).waitFor();
      await page.getByRole("table", { name: /^One-time/ }).waitFor();
      await look("Payer");
      await visit(page, "/?days=90");
      await page.getByText("Previous period").first().waitFor();
      await look("Overview of 90 days");
      await page.getByRole("button", { name: "Sign out" }).click();
      await page.getByText("Sign in as a provider").waitFor();
      await look("Sign in");
      await page.getByRole("button", { name: "Open the sandbox" }).click();
      await page.getByRole("heading", { level: 1 }).filter({ hasNotText: "Sign in" }).waitFor();
    });
  }

  it("shows lost revenue, and its causes", async () => {
    const { page } = at;
    await page.setViewportSize({ width: 1280, height: 844 });
    await visit(page, "/funnel?days=365");
    const row = (cause: string) => page.getByRole("row").filter({ hasText: cause });
    // Three times: two who saw the price and left, and one whose proof was none.
    await row("InvalidPaymentProof").filter({ hasText: "$1.50" }).waitFor();
    await row("PaymentRequired").filter({ hasText: "$3.00" }).waitFor();
    expect(await page.getByText("dropped by a busy gate").count()).to.equal(0);
    await visit(page, "/?days=365");
    await figure(page, "Lost").locator("strong", { hasText: "$4.50" }).waitFor();
  });

  it("shows on phones, in a second line of its row, what has a column on wide screens", async () => {
    const { page } = at;
    const lines = [
      ["/account?month=all", "Movements", "Overage Small"],
      ["/payers", "Payers", "1 payment"],
      ["/plans?days=365", "Plans", "$10.00 recurring"],
      ["/funnel?days=365", "Lost revenue by cause", "one-time, $1.50 asked"],
      ["/funnel?days=365", "Conversion by resource", "by subscription"],
      ["/system?days=365", "Relayer keys", "0 in flight, 0 queued"],
    ] as const;
    for (const [address, table, line] of lines) {
      for (const [width, isShown] of [
        [1280, false],
        [390, true],
        [320, true],
      ] as const) {
        await page.setViewportSize({ width, height: 844 });
        await visit(page, address);
        const found = page.getByRole("table", { name: table }).locator(".narrow").filter({ hasText: line }).first();
        await found.waitFor({ state: isShown ? "visible" : "hidden" });
        // Amounts of parts of a cent are long.
        expect(await tooWide(page), `${address} at ${width}`).to.deep.equal([]);
      }
    }
  });

  it("orders plans and payers by the head of a column, which says so, as does the address", async () => {
    const { page } = at;
    const lists = [
      ["/plans", "Plans", "Active", "active"],
      ["/payers", "Payers", "Payments", "payments"],
    ] as const;
    for (const [address, caption, title, name] of lists) {
      await page.setViewportSize({ width: 1280, height: 844 });
      await visit(page, address);
      const table = page.getByRole("table", { name: caption });
      const head = table.getByRole("columnheader", { name: title });
      const place = (await table.getByRole("columnheader").allTextContents()).findIndex((text) =>
        text.startsWith(title),
      );
      const counts = async () =>
        (await table.locator(`tbody td:nth-child(${place + 1})`).allTextContents()).map(Number);
      const ordered = [...(await counts())].sort((a, b) => a - b);
      // The page reads its order from its address, a moment after the click, and then the list.
      const isOrdered = async (order: string, wanted: readonly number[]) => {
        await head.and(page.locator(`[aria-sort="${order}"]`)).waitFor();
        await until("the order", async () => (await counts()).join() === wanted.join());
      };
      await head.getByRole("button").click();
      await isOrdered("descending", [...ordered].reverse());
      await head.getByRole("button").click();
      await isOrdered("ascending", ordered);
      expect(new Set(ordered).size, "a list that has an order").to.be.above(1);
      expect(new URL(page.url()).hash).to.equal(`#${address}?sort=-${name}`);
      for (const width of [320, 1920]) {
        await page.setViewportSize({ width, height: 844 });
        expect(await tooWide(page), `${address} at ${width}`).to.deep.equal([]);
      }
    }
  });

  it("names what each record's page is about, in its heading and its title", async () => {
    const { page } = at;
    await page.setViewportSize({ width: 1280, height: 844 });
    const records = [
      ["/payments", /^Payment of \$0\.50 Test USD by 0x\w{6}…\w{4}$/],
      ["/account", /^(Payment|Renewal|Signup|Overage) of \$[\d.]+ Test USD by 0x\w{6}…\w{4}$/],
      ["/subscriptions", /^(Reader|Small) of 0x\w{6}…\w{4}$/],
      ["/plans", /^(Reader|Small|[\w ]+), \$[\d.]+ every .+$/],
      ["/webhooks", /^Delivery of [a-z.]+, \d+ \w+ \d{4} \d\d:\d\d$/],
    ] as const;
    for (const [list, name] of records) {
      await visit(page, list);
      await page.locator("tbody").last().getByRole("link").first().click();
      await page.getByRole("heading", { level: 1, name }).waitFor();
      await titled(page, `${name.source.slice(1, -1)} · Turnpike`);
    }
  });

  it("draws the year: a bar for each renewal, none of them lost", async () => {
    const { page } = at;
    await page.setViewportSize({ width: 1280, height: 844 });
    await visit(page, "/?days=365");
    const renewed = page.locator(".figure", { hasText: "Renewals collected" });
    await renewed.filter({ hasText: `${RENEWALS} of ${RENEWALS}` }).waitFor();
    // `npm run picture` puts it into the documentation.
    await page.screenshot({ path: path.join(SHOTS, "readme.png") });
    await page.getByText("Values as a table").first().click();
    const cells = await page
      .getByRole("table", { name: /^Volume/ })
      .getByRole("cell", { name: "$10.00 (1)" })
      .count();
    // The signup and each renewal are in different weeks.
    expect(cells).to.be.within(RENEWALS, RENEWALS + 1);
    expect(at.errors).to.deep.equal([]);
  });
});
