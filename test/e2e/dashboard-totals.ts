import { expect } from "chai";
import type { FunnelWire } from "turnpike/facilitator";
import { buyQuote, readReport } from "../../examples/agent";
import { moveClock } from "../../scripts/sandbox/move-clock";
import { DAY_SEC, INTERVAL_SEC, recordOf, until } from "../support/sandbox";
import { figure, PAGES, useDashboard, visit } from "./support/dashboard";

/** Reads `$1,234.50` as hundredths, and a count unchanged. */
const worthOf = (text: string): number =>
  text.includes("$") ? Math.round(Number(text.replace(/[^\d.-]/g, "")) * 100) : Number(text.replaceAll(",", ""));

describe("dashboard totals", function () {
  this.timeout(300_000);
  let idHash: string;
  let subscriber: string;
  const at = useDashboard(async (world) => {
    const { provider, plans, chain } = world;
    const { agent, address } = await world.agent("who pays in every way");
    subscriber = address;
    await buyQuote(agent, provider.url, "ABC");
    await readReport(agent, provider.url, plans.reader);
    idHash = (await agent.list())[0]?.idHash ?? "";
    // Quotes without payment: one-time, for a plan alone, and for a choice of both.
    for (const route of ["/quote", "/quote", "/report", "/report", "/choice"]) await fetch(provider.url + route);
    const { agent: other } = await world.agent("who presents a payment again");
    const seen: string[] = [];
    const { agent: noted } = await world.agent("who is overheard", {
      fetch: async (input, init) => {
        const sent = new Request(input, init).headers.get("X-PAYMENT");
        if (sent) seen.push(sent);
        return fetch(input, init);
      },
    });
    await buyQuote(noted, provider.url, "OVER");
    // At its own URL its answer is replayed, which costs nobody anything; at another one it is refused.
    for (const proof of seen) await fetch(`${provider.url}/quote?symbol=MORE`, { headers: { "X-PAYMENT": proof } });
    await buyQuote(other, provider.url, "XYZ");
    // Gates are not notified: their counts are of another month by the time that they report them.
    const before = await recordOf(world, idHash);
    await chain.advance(INTERVAL_SEC + DAY_SEC);
    await until("the renewal", async () => (await recordOf(world, idHash)).paidThroughSec > before.paidThroughSec);
    await world.provider.flush();
  });

  it("HC6 keeps what gates counted before the clock was moved, and the settlement time", async () => {
    const { page, world } = at;
    const answer = await fetch(`${world.facilitator.url}/analytics/funnel?days=90`, {
      headers: { authorization: `Bearer ${world.providerKey}` },
    });
    const { steps, lostReports } = (await answer.json()) as FunnelWire;
    expect(lostReports).to.equal(0);
    expect(steps.find(({ step }) => step === "paid")?.count).to.equal(3);
    await moveClock({ facilitatorUrl: world.facilitator.url, apiKey: world.providerKey ?? "" }, 10 * DAY_SEC);
    await visit(page, "/?days=90");
    await page.getByText("Half within").waitFor();
    await page
      .getByRole("row", { name: /^\d.* to \d/ })
      .first()
      .waitFor();
    await visit(page, "/funnel?days=90");
    expect(await page.getByText("dropped by a busy gate").count()).to.equal(0);
    await figure(page, "Served, paid at once").locator("strong", { hasText: "3" }).waitFor();
  });

  it("HC7 shows under every table the sum of its rows, and the same sum everywhere on a page", async () => {
    const { page } = at;
    let tables = 0;
    for (const address of Object.keys(PAGES)) {
      await visit(page, `${address}?days=90`);
      const found = await page.locator("main table:has(tfoot)").evaluateAll((all) =>
        all.map((table) => {
          const cells = (row: Element): string[] =>
            [...row.querySelectorAll("td, th")].map((cell) => cell.textContent ?? "");
          return {
            name: table.querySelector("caption")?.textContent ?? "",
            rows: [...table.querySelectorAll("tbody tr")].map(cells),
            total: [...table.querySelectorAll("tfoot tr")].map(cells)[0] ?? [],
          };
        }),
      );
      for (const { name, rows, total } of found) {
        tables += 1;
        for (const [column, text] of total.entries()) {
          if (!/\d/.test(text)) continue;
          const sum = rows.reduce((all, row) => all + worthOf(row[column] ?? ""), 0);
          expect(sum, `${name}, column ${column}`).to.equal(worthOf(text));
        }
      }
    }
    expect(tables).to.be.at.least(4);
  });

  it("HC8 splits what was quoted into paid and lost, by cause, by resource and in its figures", async () => {
    const { page } = at;
    await visit(page, "/funnel?days=90");
    // A figure has no amount until it is loaded.
    const money = async (label: string) =>
      worthOf((await figure(page, label).locator("strong").filter({ hasText: "$" }).textContent()) ?? "");
    const [asked, paid, lost] = [await money("Asked for"), await money("Followed by access"), await money("Lost")];
    expect(asked).to.equal(paid + lost);
    // Two quotes, a choice and a report that nobody took: the one subscription answers the other report.
    expect(lost).to.equal(50 + 50 + 50 + 1_000);
    for (const name of ["Lost revenue by cause", "Conversion by resource"]) {
      const total = page.getByRole("table", { name }).locator("tfoot tr");
      for (const value of [asked, paid, lost])
        await total.filter({ hasText: `$${(value / 100).toFixed(2)}` }).waitFor();
    }
    // What moved is what the volume is, whatever was asked for.
    const received = await money("Received");
    await page.getByRole("row", { name: /^Accepted/ }).waitFor();
    // The payment that was presented again is shown, and is not a loss.
    await page.getByText(/presented again:.*resource/).waitFor();
    await visit(page, "/?days=90");
    expect(await money("Lost")).to.equal(lost);
    expect(await money("Gross")).to.equal(received);
  });

  it("HC9 shows no growth against a period without figures", async () => {
    const { page } = at;
    await visit(page, "/?days=30");
    await figure(page, "Gross").waitFor();
    const text = (await figure(page, "Gross").textContent()) ?? "";
    expect(text).not.to.include("%");
    expect(await page.getByText("Previous period").count()).to.equal(0);
  });

  it("HC10 shows all of a payer's payments, and their sum", async () => {
    const { page } = at;
    await visit(page, "/payers");
    await page.locator(`a[href='#/payers/${subscriber}']`).click();
    await page.getByRole("heading", { level: 1, name: /^Payer 0x/ }).waitFor();
    await page.getByRole("table", { name: /^Charges/ }).waitFor();
    await page.getByRole("table", { name: /^One-time/ }).waitFor();
    const amounts = await page.getByRole("cell", { name: /^\$[\d.,]+$/ }).allTextContents();
    const total = (await figure(page, "Total paid").locator("strong").textContent()) ?? "";
    expect(amounts.length).to.equal(3);
    expect(amounts.reduce((sum, text) => sum + worthOf(text), 0)).to.equal(worthOf(total));
  });

  it("HC11 does not count a subscriber who returned as churned", async () => {
    const { page, world } = at;
    const { agent } = await world.agent("who leaves and comes back");
    const { idHash: first } = await agent.subscribe({ planId: world.plans.reader });
    await moveClock({ facilitatorUrl: world.facilitator.url, apiKey: world.providerKey ?? "" }, 3 * DAY_SEC);
    await agent.cancel(first);
    await agent.subscribe({ planId: world.plans.reader });
    await until("both are reported", async () => {
      const answer = await fetch(`${world.facilitator.url}/analytics/overview?days=1`, {
        headers: { authorization: `Bearer ${world.providerKey}` },
      });
      const { subscriptions } = (await answer.json()) as { subscriptions: { created: number; cancelled: number } };
      return subscriptions.created === 1 && subscriptions.cancelled === 1;
    });
    await visit(page, "/?days=1");
    await page.getByText(/of 2 subscriptions active at the start of the range, 0 ended/i).waitFor();
    await figure(page, "Subscriptions").getByText("1 new, 1 ended").waitFor();
  });
});
