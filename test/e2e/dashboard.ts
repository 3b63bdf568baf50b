import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { expect } from "chai";
import type { Browser, Page } from "playwright-core";
import { buyQuote, readReport } from "../../examples/agent";
import { createPlan } from "../../scripts/plan";
import type { World } from "../../scripts/sandbox/world";
import { launchBrowser, openPage } from "../support/browser";
import { startSandbox } from "../support/sandbox";

const PAGES = ["/", "/payments", "/subscriptions", "/plans", "/webhooks", "/system"];
const SCRIPT_NAME = `<img src=x onerror="document.title='owned'"><script>document.title='owned'</script>`;
const AXE = readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");

describe("dashboard, in a real browser", function () {
  this.timeout(180_000);
  let world: World;
  let browser: Browser;
  let page: Page;
  let errors: Error[];
  const asked = new Set<string>();

  before(async () => {
    execFileSync(process.execPath, ["facilitator/tools/build-dashboard.cjs", "--quiet"], { stdio: "inherit" });
    world = await startSandbox({ withInbox: true });
    const { agent } = await world.agent("dashboard's reader");
    await buyQuote(agent, world.provider.url, "ABC");
    await readReport(agent, world.provider.url, world.plans.reader);
    await createPlan(world.providerAccount, world.contracts.turnpike, {
      token: world.contracts.token,
      amount: 1_000_000n,
      intervalSec: 86_400,
      graceSec: 3_600,
      metadata: JSON.stringify({ name: SCRIPT_NAME }),
    });
    browser = await launchBrowser();
    ({ page, errors } = await openPage(browser));
    page.on("request", (request) => asked.add(new URL(request.url()).origin));
    await page.goto(`${world.facilitator.url}/`);
  });
  after(async () => {
    await browser?.close();
    await world?.stop();
  });

  const visit = async (path: string): Promise<void> => {
    await page.evaluate((to) => {
      location.hash = to;
    }, path);
    await page.locator("main .loading").first().waitFor({ state: "detached" });
    await page.locator("main h1").waitFor();
  };

  it("refuses a key that is none, and takes the provider's", async () => {
    await page.fill("input[name=key]", `tpk_${"0".repeat(48)}`);
    await page.keyboard.press("Enter");
    await page.getByRole("alert").waitFor();
    expect(await page.getByRole("alert").textContent()).to.match(/unknown, revoked or past its end/);
    await page.fill("input[name=key]", world.providerKey ?? "");
    await page.keyboard.press("Enter");
    await page.getByRole("heading", { name: "Overview" }).waitFor();
    await page.getByText("live", { exact: true }).waitFor();
    expect(page.url()).not.to.include("tpk_");
  });

  it("shows the same figures as the API", async () => {
    await visit("/");
    const volume = page.locator(".figure", { hasText: "Volume" }).locator("strong");
    // A quote at 0.50 and a month at 10.
    await volume.filter({ hasText: "10.50" }).waitFor();
    await page.getByText("Values as a table").click();
    const table = page.getByRole("table", { name: /Volume/ });
    expect(await table.textContent())
      .to.include("0.50 (1)")
      .and.include("10.00 (1)");
  });

  it("shows what happens while it is watched", async () => {
    await visit("/payments");
    const rows = page.getByRole("row");
    const before = await rows.count();
    const { agent } = await world.agent("dashboard's second reader");
    await buyQuote(agent, world.provider.url, "XYZ");
    await page.waitForFunction((count) => document.querySelectorAll("tr").length > count, before);
  });

  it("tells the story of one subscription", async () => {
    await visit("/subscriptions");
    await page.getByRole("table").getByRole("link").first().click();
    await page.getByRole("heading", { name: "Timeline" }).waitFor();
    await page.locator(".timeline li", { hasText: "created" }).filter({ hasText: "charged 10.00" }).waitFor();
  });

  it("B22 shows a plan's name as text, whatever it says", async () => {
    await visit("/plans");
    await page.getByText("<img src=x", { exact: false }).waitFor();
    expect(await page.title()).to.equal("Plans · Turnpike");
    expect(await page.locator("main img, main script").count()).to.equal(0);
  });

  it("adds an endpoint, sends it a test, and shows the delivery", async () => {
    await visit("/webhooks");
    await page
      .getByText(world.inbox?.url ?? "", { exact: false })
      .first()
      .waitFor();
    await page
      .getByRole("button", { name: /Send a test/ })
      .first()
      .click();
    const delivery = page.getByRole("table", { name: "Deliveries" }).getByRole("row", { name: /test/ });
    await delivery.filter({ hasText: "delivered" }).waitFor();
  });

  it("saves the payments as CSV", async () => {
    await visit("/payments");
    const [download] = await Promise.all([
      page.waitForEvent("download"),
      page.getByRole("button", { name: "CSV" }).click(),
    ]);
    const text = readFileSync(await download.path(), "utf8");
    expect(text.split("\r\n")[0]).to.match(/^id,acceptedAt,settledAt,status,amount/);
    expect(text).to.include(",settled,");
  });

  it("passes the accessibility rules on every page, wide and narrow, light and dark", async () => {
    for (const [width, colorScheme] of [
      [1280, "light"],
      [390, "dark"],
    ] as const) {
      await page.setViewportSize({ width, height: 844 });
      await page.emulateMedia({ colorScheme, reducedMotion: "reduce" });
      for (const path of PAGES) {
        await visit(path);
        // Through the debugger, whose scripts the page's own policy does not forbid.
        await page.evaluate(AXE);
        const { found, overflows } = await page.evaluate(async () => {
          const { violations } = await (
            window as unknown as { axe: { run(): Promise<{ violations: never[] }> } }
          ).axe.run();
          return {
            found: violations.map(
              ({ id, nodes }: { id: string; nodes: { html: string }[] }) => `${id}: ${nodes[0]?.html}`,
            ),
            overflows: document.documentElement.scrollWidth > window.innerWidth,
          };
        });
        expect(found, `${path} at ${width}, ${colorScheme}`).to.deep.equal([]);
        expect(overflows, `${path} at ${width} scrolls sideways`).to.equal(false);
      }
    }
    await page.setViewportSize({ width: 1280, height: 800 });
  });

  it("can be walked by keyboard alone", async () => {
    await visit("/");
    await page.evaluate(() => (document.activeElement as HTMLElement | null)?.blur());
    const seen: string[] = [];
    for (let step = 0; step < 14; step++) {
      await page.keyboard.press("Tab");
      seen.push(await page.evaluate(() => document.activeElement?.textContent ?? ""));
    }
    expect(seen).to.include.members(["Skip to content", "Overview", "Payments", "System", "Sign out"]);
  });

  it("asks nobody but the Facilitator, breaks no rule of its own, and throws nothing", () => {
    expect([...asked].filter((origin) => origin !== "null")).to.deep.equal([world.facilitator.url]);
    expect(errors).to.deep.equal([]);
  });

  it("keeps the old figures, and says so, while the Facilitator is away; and comes back by itself", async () => {
    await visit("/");
    await world.facilitator.stop();
    await page.getByText("reconnecting").waitFor();
    expect(await page.locator(".figure", { hasText: "Volume" }).locator("strong").textContent()).to.include("11.00");
    await world.facilitator.start();
    await page.getByText("live", { exact: true }).waitFor();
  });

  it("forgets the key when signed out", async () => {
    await page.getByRole("button", { name: "Sign out" }).click();
    await page.getByText("Sign in as a provider").waitFor();
    expect(await page.evaluate(() => sessionStorage.length)).to.equal(0);
  });
});
