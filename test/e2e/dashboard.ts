import { readFileSync } from "node:fs";
import { expect } from "chai";
import { createPlan, stopPlan } from "turnpike/chain";
import { buyQuote, readReport } from "../../examples/agent";
import { until } from "../support/sandbox";
import { figure, PAGES, titled, useDashboard, visit } from "./support/dashboard";

const SCRIPT_NAME = `<img src=x onerror="document.title='owned'"><script>document.title='owned'</script>`;
/** Turned around, with what is not seen, and longer than any name has to be. */
const ODD_NAME = `Gold\u202e\u0007\u200b ${"very ".repeat(400)}long`;
const MAX_GZIP_BYTES = 140_000;
/** to be walked through by Tab, from any element: once around the page */
const STOPS = 60;
/** of a week: every six hours one */
const BARS = 28;

describe("dashboard, in a real browser", function () {
  this.timeout(300_000);
  const at = useDashboard(async (world) => {
    const { agent } = await world.agent("dashboard's reader");
    await buyQuote(agent, world.provider.url, "ABC");
    await readReport(agent, world.provider.url, world.plans.reader);
    for (const [name, amount] of [
      [SCRIPT_NAME, 1_000_000n],
      [ODD_NAME, 10n ** 24n],
    ] as const)
      await createPlan(world.providerAccount, world.contracts.turnpike, {
        token: world.contracts.token,
        amount,
        intervalSec: 86_400,
        graceSec: 3_600,
        metadata: JSON.stringify({ name }),
      });
  });

  it("opens a sandbox signed in, with nothing secret in the address", async () => {
    const { page } = at;
    await page.getByRole("heading", { level: 1, name: "Overview" }).waitFor();
    await page.getByText("live", { exact: true }).waitFor();
    expect(page.url()).not.to.include("tpk_");
  });

  it("shows the same figures as the API", async () => {
    const { page } = at;
    await visit(page, "/?days=30");
    // A quote at 0.50 and a month at 10.
    await figure(page, "Gross").locator("strong", { hasText: "$10.50" }).waitFor();
    // A plan, a gate, a webhook and payments: all of the first steps are done.
    expect(await page.getByRole("heading", { name: "First steps" }).count()).to.equal(0);
    await figure(page, "Subscriptions").locator("strong", { hasText: "1" }).waitFor();
    await figure(page, "Recurring").locator("strong", { hasText: "$10.00" }).waitFor();
    await page.getByText("Values as a table").first().click();
    const table = page.getByRole("table", { name: /^Volume/ });
    expect(await table.textContent())
      .to.include("$0.50 (1)")
      .and.include("$10.00 (1)");
  });

  it("shows every page, each with its own title and what it lists", async () => {
    const { page, world } = at;
    const listed: Readonly<Record<string, string>> = {
      "/payments": "/quote",
      "/subscriptions": "Reader",
      "/plans": "$10.00 / 30 days",
      "/payers": "$10.50",
      "/webhooks": "subscription.created",
      "/system": "running",
    };
    for (const [path, title] of Object.entries(PAGES)) {
      await visit(page, path);
      await titled(page, `${title} · Turnpike`);
      expect(await page.locator("main [role=alert]").allTextContents(), path).to.deep.equal([]);
      const text = listed[path];
      if (text) await page.getByRole("table").filter({ hasText: text }).first().waitFor();
    }
    expect(world.providerKey).to.be.a("string");
    await visit(page, "/nowhere");
    await page.getByText("There is no such page.").waitFor();
    expect(await page.getByRole("button", { name: "Try again" }).count()).to.equal(0);
    expect(await page.getByRole("alert").getByRole("link", { name: "Overview" }).getAttribute("href")).to.equal("#/");
    await visit(page, `/payments/0x${"0".repeat(64)}`);
    await page.getByRole("alert").filter({ hasText: "Not found" }).waitFor();
    expect(await page.getByRole("button", { name: "Try again" }).count()).to.equal(0);
  });

  it("describes a chart's bar under the pointer", async () => {
    const { page } = at;
    await visit(page, "/?days=7");
    const plot = page.locator(".plot .u-over").first();
    await plot.waitFor();
    const tip = page.locator(".tip").first();
    // The chart follows the pointer by the frame.
    const drawn = () =>
      page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))");
    // Whichever part of the week it is, one of the bars has it. The chart gets its width a moment after it is shown.
    await until("a bar with the payment", async () => {
      const width = (await plot.boundingBox())?.width ?? 0;
      for (let bar = 0; bar < BARS; bar++) {
        await plot.hover({ position: { x: ((bar + 0.5) / BARS) * width, y: 40 } });
        await drawn();
        if ((await tip.textContent())?.includes("One-time: $0.50 (1)")) return true;
      }
      return false;
    });
  });

  it("shows the history of one subscription", async () => {
    const { page } = at;
    await visit(page, "/subscriptions");
    await page.getByRole("table").getByRole("link").first().click();
    await page.getByRole("heading", { name: "Timeline" }).waitFor();
    await page.locator(".timeline li", { hasText: "created" }).filter({ hasText: "charged $10.00" }).waitFor();
    await figure(page, "Plan").filter({ hasText: "every 30 days" }).waitFor();
  });

  it("B22 shows a plan's name as text, whatever it says", async () => {
    const { page } = at;
    await visit(page, "/plans");
    await page.getByText("<img src=x", { exact: false }).first().waitFor();
    await titled(page, "Plans · Turnpike");
    expect(await page.locator("main img, main script").count()).to.equal(0);
    const odd = (await page.getByRole("link", { name: /^Gold/ }).textContent()) ?? "";
    expect(odd)
      .to.match(/^Gold very very/)
      .and.have.length.at.most(80);
    await page.setViewportSize({ width: 390, height: 844 });
    expect(await page.evaluate(() => document.documentElement.scrollWidth)).to.equal(390);
    await page.setViewportSize({ width: 1280, height: 800 });
    await visit(page, "/subscriptions");
    const plans = page.getByLabel("Plan");
    await plans.locator("option", { hasText: SCRIPT_NAME.slice(0, 40) }).waitFor({ state: "attached" });
    const names = (await plans.textContent()) ?? "";
    expect(names).to.include(SCRIPT_NAME.slice(0, 40));
    expect(names).not.to.match(/[\p{Cc}\u200b\u202e]/u);
  });

  it("shows which plans are open, deprecated and stopped, and a stop as it happens", async () => {
    const { page, world } = at;
    await visit(page, "/plans");
    const state = (name: string, is: string) =>
      page
        .getByRole("row")
        .filter({ has: page.getByRole("link", { name, exact: true }) })
        .locator(".status", { hasText: is })
        .waitFor();
    await state("Small", "open");
    await state("Reader of last year", "deprecated");
    await stopPlan(world.providerAccount, world.contracts.turnpike, world.plans.small);
    await state("Small", "stopped");
    await state("Reader of last year", "deprecated");
  });

  it("saves what each page lists as CSV, under a name that says what it is", async () => {
    const { page } = at;
    const files: readonly (readonly [address: string, name: string, header: RegExp, row: string])[] = [
      ["/", "turnpike-volume.csv", /^from,/, "one-time"],
      ["/payments", "turnpike-payments.csv", /^id,acceptedAt,settledAt,status,amount/, ",settled,"],
      ["/subscriptions", "turnpike-subscriptions.csv", /^idHash,/, "ACTIVE"],
      // Nobody allows overage here: the columns alone.
      ["/allowances", "turnpike-allowances.csv", /^idHash,/, "remaining"],
      ["/plans", "turnpike-plans.csv", /^planId,/, "Reader"],
      ["/payers", "turnpike-payers.csv", /^payer,/, "0x"],
      ["/funnel", "turnpike-lost-revenue.csv", /^cause,/, "PaymentRequired"],
    ];
    await at.world.provider.flush();
    for (const [address, name, header, row] of files) {
      await visit(page, address);
      const [download] = await Promise.all([
        page.waitForEvent("download"),
        page.getByRole("button", { name: "Save CSV" }).click(),
      ]);
      expect(download.suggestedFilename()).to.equal(name);
      const text = readFileSync(await download.path(), "utf8");
      expect(text.split("\r\n")[0], address).to.match(header);
      expect(text, address).to.include(row);
    }
  });

  it("can be walked by keyboard alone", async () => {
    const { page } = at;
    await visit(page, "/");
    await page.evaluate(() => (document.activeElement as HTMLElement | null)?.blur());
    const seen: string[] = [];
    for (let step = 0; step < STOPS; step++) {
      await page.keyboard.press("Tab");
      seen.push(await page.evaluate(() => document.activeElement?.textContent?.trim() ?? ""));
    }
    expect(seen).to.include.members(["Skip to content", ...Object.values(PAGES), "Sign out", "+30 days", "Save CSV"]);
    await page.getByRole("link", { name: "Payments", exact: true }).focus();
    await page.keyboard.press("Enter");
    await page.getByRole("heading", { level: 1, name: "Payments" }).waitFor();
  });

  it("allows itself nothing but its own files and answers, loads under 140 kB, and asks nobody else", async () => {
    const { page, world, asked, errors } = at;
    let bytes = 0;
    const html = await (await page.request.get(world.facilitator.url)).text();
    const files = [...html.matchAll(/(?:src|href)="([\w-]+\.(?:js|css))"/g)].map(([, name]) => `/${name}`);
    expect(files).to.include.members(["/dashboard.js", "/dashboard.css"]);
    for (const path of ["/", ...files]) {
      const answer = await page.request.get(world.facilitator.url + path, { headers: { "accept-encoding": "gzip" } });
      const policy = answer.headers()["content-security-policy"] ?? "";
      expect(policy).to.match(/^default-src 'none'; script-src 'self'; style-src 'self'; /);
      expect(policy)
        .to.match(/frame-ancestors 'none'/)
        .and.not.match(/unsafe|\*|https?:/);
      expect(answer.headers()["x-content-type-options"]).to.equal("nosniff");
      expect(answer.headers()["referrer-policy"]).to.equal("no-referrer");
      const raw = await fetch(world.facilitator.url + path, { headers: { "accept-encoding": "gzip" } });
      bytes += Number(raw.headers.get("content-length"));
    }
    expect(bytes).to.be.within(10_000, MAX_GZIP_BYTES);
    expect([...asked].filter((origin) => origin !== "null")).to.deep.equal([world.facilitator.url]);
    expect(errors).to.deep.equal([]);
  });
});
