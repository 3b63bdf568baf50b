// Measures how soon the dashboard's overview is there for a provider that is signed in, on a slow phone: nothing cached, a
// CPU slowed four times, and a network of 150 ms and 1.6 Mbit/s, as Lighthouse's Slow 4G. The Facilitator, the chain and
// Chromium are real. Prints one JSON line per figure: the median of the runs, and what each run gave.
// Run: npm run bench:dashboard

import type { Page } from "playwright-core";
import { buyQuote } from "../examples/agent";
import { launchBrowser, openPage } from "../test/support/browser";
import { startSandbox } from "../test/support/sandbox";

const { buildDashboard } = require("../facilitator/tools/build-dashboard.cjs") as { buildDashboard(): Promise<number> };

const RUNS = 5;
const SLOWDOWN = 4;
const SLOW_4G = {
  offline: false,
  latency: 150,
  downloadThroughput: (1.6 * 1024 * 1024) / 8,
  uploadThroughput: (750 * 1024) / 8,
};

/** After the last figure, what comes late may still shift the page. */
const SETTLE_MS = 2_500;

interface Seen {
  /** something is painted */
  paintMs: number;
  /** navigation and heading */
  frameMs: number;
  /** the headline figures */
  figuresMs: number;
  /** cumulative layout shift */
  shift: number;
}

/** Runs in the page, before anything else of it. */
function watch(key: string): void {
  sessionStorage.setItem("turnpike-key", key);
  const seen = { paintMs: 0, frameMs: 0, figuresMs: 0, shift: 0 };
  Object.assign(window, { seen });
  new PerformanceObserver((list) => {
    for (const { name, startTime } of list.getEntries())
      if (name === "first-contentful-paint") seen.paintMs = startTime;
  }).observe({ type: "paint", buffered: true });
  new PerformanceObserver((list) => {
    for (const entry of list.getEntries()) seen.shift += (entry as PerformanceEntry & { value: number }).value;
  }).observe({ type: "layout-shift", buffered: true });
  const look = (): void => {
    const now = performance.now();
    if (!seen.frameMs && document.querySelector("main h1")) seen.frameMs = now;
    if (!seen.figuresMs && document.querySelector("main .figure strong")) seen.figuresMs = now;
    requestAnimationFrame(look);
  };
  requestAnimationFrame(look);
}

async function seenBy(page: Page, url: string, key: string): Promise<Seen> {
  await page.addInitScript(watch, key);
  const cdp = await page.context().newCDPSession(page);
  await cdp.send("Network.enable");
  await cdp.send("Network.emulateNetworkConditions", SLOW_4G);
  await cdp.send("Emulation.setCPUThrottlingRate", { rate: SLOWDOWN });
  await page.goto(url);
  await page.waitForFunction(() => (Reflect.get(window, "seen") as { figuresMs: number }).figuresMs > 0);
  await page.waitForTimeout(SETTLE_MS);
  return page.evaluate(() => Reflect.get(window, "seen") as Seen);
}

const median = (values: readonly number[]): number => [...values].sort((a, b) => a - b)[values.length >> 1] ?? 0;

async function main(): Promise<void> {
  await buildDashboard();
  const world = await startSandbox({ withInbox: true });
  const browser = await launchBrowser();
  try {
    const { agent } = await world.agent("a customer");
    await agent.subscribe({ planId: world.plans.reader, origins: [world.provider.url] });
    await buyQuote(agent, world.provider.url, "ABC");
    const runs: Seen[] = [];
    for (let run = 0; run < RUNS; run++) {
      const { page } = await openPage(browser);
      await page.setViewportSize({ width: 412, height: 823 });
      runs.push(await seenBy(page, `${world.facilitator.url}/`, world.providerKey ?? ""));
      await page.context().close();
    }
    const goals = { paintMs: 1_000, frameMs: 1_000, figuresMs: 1_000, shift: 0.1 };
    for (const [figure, goal] of Object.entries(goals)) {
      const values = runs.map((run) => Number(run[figure as keyof Seen].toFixed(figure === "shift" ? 4 : 0)));
      process.stdout.write(
        `${JSON.stringify({ figure: `dashboard.${figure}`, value: median(values), goal, values })}\n`,
      );
    }
  } finally {
    await browser.close();
    await world.stop();
  }
}

main().catch((error: unknown) => {
  process.stderr.write(`${String(error)}\n`);
  process.exitCode = 1;
});
