/** The documentation as a site, in a real browser: the one that `npm start` serves, and the one that the package holds. */
import { execFile } from "node:child_process";
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { promisify } from "node:util";
import { expect } from "chai";
import type { Browser, Page } from "playwright-core";
import { type Documentation, serveDocumentation } from "../../scripts/sandbox/documentation";
import { failuresOf } from "../e2e/support/axe";
import { launchBrowser, openPage } from "../support/browser";

const ROOT = path.resolve(__dirname, "../..");

/** Unpacked. The package's programs and types take 5,600. */
const MAX_PACKED_KB = 4_000;

/** One page of each kind. */
const PAGES = ["index.html", "guides/gate.html", "reference/errors.html", "reference/api/payments.html"];

async function build(out: string, ...options: readonly string[]): Promise<void> {
  await promisify(execFile)(process.execPath, ["tools/docs.cjs", ...options, "--out", out], { cwd: ROOT });
}

const filesOf = (folder: string): string[] =>
  readdirSync(folder, { recursive: true, encoding: "utf8" }).filter((name) =>
    statSync(path.join(folder, name)).isFile(),
  );

describe("the documentation's site", function () {
  this.timeout(900_000);
  const home = mkdtempSync(path.join(tmpdir(), "turnpike-site-"));
  const packed = path.join(home, "packed");
  const whole = path.join(home, "whole");
  let browser: Browser;
  let served: Documentation;
  let page: Page;
  let errors: readonly Error[];
  let asked: string[] = [];
  let complaints: string[] = [];

  before(async () => {
    await build(packed, "--package");
    // Of the SDK's pages there are many, which take minutes and look like those of the HTTP API.
    await build(whole, "--without-sdk");
    served = await serveDocumentation(0, whole);
    browser = await launchBrowser();
  });
  beforeEach(async () => {
    ({ page, errors } = await openPage(browser));
    asked = [];
    complaints = [];
    page.on("request", (request) => asked.push(new URL(request.url()).origin));
    page.on("console", (message) => message.type() === "error" && complaints.push(message.text()));
  });
  afterEach(() => page?.context().close());
  after(async () => {
    await browser?.close();
    await served?.stop();
    rmSync(home, { recursive: true, force: true });
  });

  for (const [site, addressOf] of [
    ["that npm start serves", (name: string) => `${served.url}/${name}`],
    ["of the package", (name: string) => pathToFileURL(path.join(packed, name)).href],
  ] as const) {
    for (const colorScheme of ["light", "dark"] as const) {
      it(`${site}, in ${colorScheme}, breaks no rule of axe`, async () => {
        await page.emulateMedia({ colorScheme, reducedMotion: "reduce" });
        const found: string[] = [];
        for (const name of PAGES) {
          await page.goto(addressOf(name));
          const isDark = await page.evaluate(() => document.documentElement.classList.contains("dark"));
          expect(isDark, name).to.equal(colorScheme === "dark");
          found.push(...(await failuresOf(page)).map((failure) => `${name}: ${failure}`));
        }
        expect(found).to.deep.equal([]);
      });
    }
  }

  it("that npm start serves runs under its policy and asks nobody else for anything", async () => {
    await page.goto(`${served.url}/`);
    await page.getByRole("button", { name: "Search" }).first().click();
    await page.getByRole("searchbox").fill("metered");
    await page.locator(".result").first().click();
    await page.waitForURL(/\.html/);
    await page.getByRole("switch").first().click();
    expect(new Set(asked)).to.deep.equal(new Set([served.url]));
    expect([...complaints, ...errors.map(({ message }) => message)]).to.deep.equal([]);
    expect((await page.goto(`${served.url}/no-such-page`))?.status()).to.equal(404);
  });

  it("of the package holds no script, and is smaller than the package's own files", () => {
    const files = filesOf(packed);
    expect(files).to.include.members(PAGES.map(path.normalize));
    expect(files.filter((name) => !/\.(?:html|css|png)$/.test(name))).to.deep.equal([]);
    expect(files.filter((name) => /^reference.(?:sdk|threats|hostile|interop)/.test(name))).to.deep.equal([]);
    const kilobytes = files.reduce((sum, name) => sum + statSync(path.join(packed, name)).size, 0) / 1_024;
    expect(kilobytes).to.be.lessThan(MAX_PACKED_KB);
  });

  it("of the package is read from its folder: every address is a file there", async () => {
    const lost = filesOf(packed)
      .filter((name) => name.endsWith(".html"))
      .flatMap((name) => {
        const at = pathToFileURL(path.join(packed, name));
        const text = readFileSync(path.join(packed, name), "utf8");
        return [...text.matchAll(/\s(?:href|src)="([^"]+)"/g)]
          .map(([, target = ""]) => new URL(target, at))
          .filter(({ protocol }) => protocol === "file:")
          .filter((url) => !existsSync(fileURLToPath(url)) || statSync(fileURLToPath(url)).isDirectory())
          .map((url) => `${name}: ${url}`);
      });
    expect(lost).to.deep.equal([]);
    await page.goto(pathToFileURL(path.join(packed, "index.html")).href);
    await page.getByRole("link", { name: "Prices", exact: true }).first().click();
    await page.waitForURL(/guides\/.*\.html$/);
    expect(new Set(asked)).to.deep.equal(new Set(["null"]));
    expect([...complaints, ...errors.map(({ message }) => message)]).to.deep.equal([]);
  });
});
