/** The dashboard over a whole sandbox, in a real browser, and what its tests do with it. */
import { execFileSync } from "node:child_process";
import path from "node:path";
import { expect } from "chai";
import type { Browser, Page } from "playwright-core";
import { launchBrowser, openPage } from "../../support/browser";
import { startSandbox, type World } from "../../support/sandbox";
import { failuresOf } from "./axe";

/** Each page by its address, and what it is called. */
export const PAGES = {
  "/": "Overview",
  "/account": "Ledger",
  "/payments": "Payments",
  "/subscriptions": "Subscriptions",
  "/allowances": "Allowances",
  "/plans": "Plans",
  "/payers": "Payers",
  "/funnel": "Conversion",
  "/webhooks": "Webhooks",
  "/acts": "Actions",
  "/system": "System",
} as const;

/** Kept by CI: every page as it looked, and what was to be seen when a test failed. */
export const SHOTS = path.resolve(__dirname, "../../../out/screenshots");

export interface DashboardWorld {
  readonly world: World;
  readonly browser: Browser;
  readonly page: Page;
  /** that pages threw */
  readonly errors: readonly Error[];
  /** origins that were asked for anything */
  readonly asked: ReadonlySet<string>;
}

/** Registers the hooks that start and stop it; what it gives is there in tests only. */
export function useDashboard(
  prepare: (world: World) => Promise<void> = async () => undefined,
  options: { readonly secondChainId?: number; readonly ownChains?: boolean } = {},
): DashboardWorld {
  let world: World;
  let browser: Browser;
  let opened: Awaited<ReturnType<typeof openPage>>;
  const asked = new Set<string>();
  before(async () => {
    execFileSync(process.execPath, ["facilitator/tools/build-dashboard.cjs", "--quiet"], { stdio: "inherit" });
    world = await startSandbox({ withInbox: true, ...options });
    await prepare(world);
    browser = await launchBrowser();
    opened = await openPage(browser);
    opened.page.on("request", (request) => asked.add(new URL(request.url()).origin));
    await opened.page.goto(`${world.facilitator.url}/`);
  });
  afterEach(async function () {
    if (this.currentTest?.state !== "failed") return;
    const name = this.currentTest.fullTitle().replaceAll(/\W+/g, "-").slice(0, 80);
    await opened?.page.screenshot({ path: path.join(SHOTS, "failed", `${name}.png`) }).catch(() => undefined);
  });
  after(async () => {
    await browser?.close();
    await world?.stop();
  });
  return {
    get world() {
      return world;
    },
    get browser() {
      return browser;
    },
    get page() {
      return opened.page;
    },
    get errors() {
      return opened.errors;
    },
    asked,
  };
}

/** Goes to a page and waits until what it asked for is there. */
export async function visit(page: Page, path: string): Promise<void> {
  await page.evaluate((to) => {
    location.hash = to;
  }, path);
  const title = PAGES[path.split("?", 1)[0] as keyof typeof PAGES];
  if (title) await page.getByRole("heading", { level: 1, name: title, exact: true }).waitFor();
  await page.waitForFunction(() => document.querySelector("main .loading") === null);
}

/** What does not fit: the page itself, or a table of it. */
export async function tooWide(page: Page): Promise<string[]> {
  await page.evaluate(() => {
    for (const values of document.querySelectorAll("details")) values.open = true;
  });
  const wide = await page.evaluate(() => [
    ...(document.documentElement.scrollWidth > window.innerWidth ? ["the page"] : []),
    ...[...document.querySelectorAll(".scroll")]
      .filter((table) => table.scrollWidth > table.clientWidth)
      .map((table) => table.getAttribute("aria-label") ?? "a table"),
  ]);
  await page.evaluate(() => {
    for (const values of document.querySelectorAll("details")) values.open = false;
  });
  return wide;
}

/** Waits for the window's title, which follows the heading by a frame. */
export const titled = (page: Page, title: string) =>
  page.waitForFunction((pattern) => new RegExp(`^(?:${pattern})$`).test(document.title), title);

export const wide = (page: Page, width: number) => page.setViewportSize({ width, height: 844 });

/** Passes the accessibility rules, light and dark, and fits. */
export async function check(page: Page, what: string): Promise<void> {
  for (const colorScheme of ["light", "dark"] as const) {
    await page.emulateMedia({ colorScheme, reducedMotion: "reduce" });
    expect(await failuresOf(page), `${what}, ${colorScheme}`).to.deep.equal([]);
  }
  expect(await tooWide(page), what).to.deep.equal([]);
}

/** A figure of the page by its label. */
export const figure = (page: Page, label: string) =>
  page.locator(".figure").filter({ has: page.locator("dt", { hasText: new RegExp(`^${label}$`) }) });
