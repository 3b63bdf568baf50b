import { expect } from "chai";
import type { Page } from "playwright-core";
import { buyQuote, readReport } from "../../examples/agent";
import { variants } from "../support/variants";
import { PAGES, useDashboard, visit } from "./support/dashboard";

/** WCAG 2.2, 1.4.3 */
const MIN_CONTRAST = 4.5;

/** Of the text of what is under the pointer against what is behind it, as the browser painted both. */
function contrastOf(page: Page, index: number): Promise<{ name: string; contrast: number }> {
  return page.evaluate((at) => {
    const element = [...document.querySelectorAll<HTMLElement>("button, a")][at];
    if (!element) throw new Error("it is gone");
    const canvas = new OffscreenCanvas(1, 1).getContext("2d");
    if (!canvas) throw new Error("no canvas");
    const painted = (colors: readonly string[]): number[] => {
      canvas.clearRect(0, 0, 1, 1);
      for (const color of colors) {
        canvas.fillStyle = color;
        canvas.fillRect(0, 0, 1, 1);
      }
      return [...canvas.getImageData(0, 0, 1, 1).data].slice(0, 3);
    };
    const behind: string[] = ["white"];
    const chain: string[] = [];
    for (let each: HTMLElement | null = element; each; each = each.parentElement)
      chain.unshift(getComputedStyle(each).backgroundColor);
    behind.push(...chain);
    const light = (rgb: number[]): number => {
      const [r = 0, g = 0, b = 0] = rgb.map((value) => {
        const share = value / 255;
        return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
      });
      return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    const [one, two] = [light(painted(behind)), light(painted([...behind, getComputedStyle(element).color]))];
    const contrast = (Math.max(one, two) + 0.05) / (Math.min(one, two) + 0.05);
    return { name: `${element.tagName} ${element.textContent}`, contrast };
  }, index);
}

describe("dashboard, under the hand", function () {
  this.timeout(600_000);
  const at = useDashboard(async (world) => {
    const { agent } = await world.agent("who pays at once and subscribes");
    await buyQuote(agent, world.provider.url, "ABC");
    await readReport(agent, world.provider.url, world.plans.reader);
    // One who never pays at once.
    const { agent: other } = await world.agent("who subscribes alone");
    await readReport(other, world.provider.url, world.plans.reader);
    await world.provider.flush();
  });
  const addresses = [...Object.keys(PAGES), "/nowhere"];

  for (const colorScheme of variants(["dark", "light"] as const)) {
    it(`HC1 keeps what every button and link says legible under the pointer, ${colorScheme}`, async () => {
      const { page } = at;
      await page.emulateMedia({ colorScheme, reducedMotion: "reduce" });
      const look = async (where: string): Promise<void> => {
        const all = page.locator("button, a");
        for (let index = 0; index < (await all.count()); index++) {
          const one = all.nth(index);
          if (!(await one.isVisible()) || !(await one.isEnabled())) continue;
          if ((await one.getAttribute("class")) === "skip") continue;
          await one.hover();
          const { name, contrast } = await contrastOf(page, index);
          expect(contrast, `${name} of ${where}`).to.be.at.least(MIN_CONTRAST);
        }
      };
      for (const address of addresses) {
        await visit(page, address);
        await look(address);
      }
      await visit(page, "/webhooks");
      await page.getByRole("button", { name: "Add an endpoint" }).click();
      await look("the form of an endpoint");
      await page.getByRole("button", { name: "Cancel" }).click();
      await page.getByRole("button", { name: /^Remove/ }).click();
      await look("the question before it is removed");
      await page.getByRole("button", { name: "Keep it" }).click();
      await page.getByRole("button", { name: "Sign out" }).click();
      await page.getByRole("button", { name: "Open the sandbox" }).waitFor();
      await look("the sign-in");
      await page.getByRole("button", { name: "Open the sandbox" }).click();
      await page.getByRole("heading", { level: 1, name: /^(?!Sign in)/ }).waitFor();
    });
  }

  it("HC2 skips to the content by keyboard, on the page that is open, and keeps its address", async () => {
    const { page } = at;
    for (const address of ["/payments?status=settled", "/funnel"]) {
      await visit(page, address);
      await page.evaluate(() => document.querySelector<HTMLElement>("a.skip")?.focus());
      await page.keyboard.press("Enter");
      await page.waitForFunction(() => document.activeElement?.id === "main");
      const title = PAGES[address.split("?", 1)[0] as keyof typeof PAGES];
      await page.getByRole("heading", { level: 1, name: title, exact: true }).waitFor();
      await page.waitForFunction((hash) => location.hash === hash, `#${address}`);
      // On from there by Tab: what comes next is the content's, once there is any.
      await page.locator("main").locator("a, button, select, input").first().waitFor();
      await page.keyboard.press("Tab");
      expect(await page.evaluate(() => document.activeElement?.closest("main") !== null)).to.equal(true);
      await page.reload();
      await page.getByRole("heading", { level: 1, name: title, exact: true }).waitFor();
    }
  });

  it("HC3 leads by no link to a page that does not exist, or that says there is nothing where there is", async () => {
    const { page } = at;
    const followed = new Set<string>();
    const open = Object.keys(PAGES).map((address) => `#${address}`);
    // Of these pages nothing is listed in this world, and they say so.
    const empty = new Set(["#/allowances"]);
    while (open.length > 0) {
      const hash = open.shift() ?? "";
      if (followed.has(hash)) continue;
      followed.add(hash);
      await visit(page, hash.slice(1));
      await page.waitForFunction(() => document.querySelector("main .loading") === null);
      const text = (await page.getByRole("main").textContent()) ?? "";
      expect(text, hash).not.to.match(/There is no such page|Not found/);
      if (!empty.has(hash))
        expect(text, hash).not.to.match(/No payment yet|Nobody (?:subscribes|allows|was|paid)|Nothing was paid/);
      expect(await page.getByRole("alert").count(), hash).to.equal(0);
      const links = await page
        .locator("a[href^='#/']")
        .evaluateAll((all) => all.map((link) => link.getAttribute("href")));
      open.push(...links.flatMap((link) => (link && !followed.has(link) ? [link] : [])));
    }
    // Two payers, two subscriptions, a plan and the pages.
    expect([...followed].filter((hash) => /^#\/payers\/0x/.test(hash))).to.have.length(2);
    expect([...followed].filter((hash) => /^#\/subscriptions\/0x/.test(hash))).to.have.length(2);
  });

  it("HC4 shows one outage once, however many figures it affects, and is not marked live meanwhile", async () => {
    const { page } = at;
    await visit(page, "/?days=30");
    await page.getByText("live", { exact: true }).waitFor();
    const isData = ({ pathname }: URL): boolean => /^\/(analytics|operator)\b/.test(pathname);
    await page.route(isData, (route) =>
      route.fulfill({ status: 503, json: { code: "Unavailable", message: "The database is away." } }),
    );
    await visit(page, "/?days=7");
    const alerts = page.getByRole("alert");
    await alerts.filter({ hasText: "The database is away." }).waitFor();
    await page.getByText("not up to date", { exact: true }).waitFor();
    await page.waitForFunction(() => document.querySelectorAll("main .empty").length >= 5);
    expect(await alerts.count()).to.equal(1);
    expect(await page.getByText("live", { exact: true }).count()).to.equal(0);
    // A second cause is shown too, and each once.
    await page.route(
      ({ pathname }) => pathname === "/analytics/latency",
      (route) => route.fulfill({ status: 500, json: { code: "Internal", message: "A fault." } }),
    );
    await visit(page, "/?days=90");
    await alerts.filter({ hasText: "A fault." }).waitFor();
    await alerts.filter({ hasText: "The database is away." }).waitFor();
    expect(await alerts.count()).to.equal(2);
    await page.unrouteAll();
    await page.getByText("live", { exact: true }).waitFor();
    expect(await alerts.count()).to.equal(0);
    await page.getByText("$20.50").first().waitFor();
  });

  for (const width of variants([375, 768, 1280])) {
    it(`HC5 cuts no tab and no column off, ${width} wide`, async () => {
      const { page } = at;
      await page.setViewportSize({ width, height: 844 });
      for (const address of Object.keys(PAGES)) {
        await visit(page, address);
        const cut = await page.evaluate(() => {
          const isCut = (element: Element): boolean => {
            const { left, right, width: wide } = element.getBoundingClientRect();
            return wide > 0 && (left < -0.5 || right > innerWidth + 0.5);
          };
          const all = [...document.querySelectorAll("header.top a, header.top button, main th, main td, main button")];
          return all
            .filter((element) => !element.closest("details:not([open])") && isCut(element))
            .map((e) => e.textContent);
        });
        expect(cut, address).to.deep.equal([]);
      }
      await page.setViewportSize({ width: 1280, height: 800 });
    });
  }

  it("throws nothing meanwhile", () => expect(at.errors).to.deep.equal([]));
});
