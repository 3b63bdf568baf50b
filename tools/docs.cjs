/**
 * Builds the documentation as a site in out/site: the pages of docs/, and reference pages that are made from sources.
 * `npm run docs`. Pages that a suite has written to out/interop are included.
 */
const { spawnSync } = require("node:child_process");
const { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } = require("node:fs");
const { dirname, join, relative, resolve } = require("node:path");

const ROOT = join(__dirname, "..");
const PAGES = join(ROOT, "docs");
const SOURCE = join(ROOT, "cache", "site");
const SITE = join(ROOT, "out", "site");

function run(program, args) {
  const { status } = spawnSync(process.execPath, [program, ...args], {
    cwd: ROOT,
    stdio: ["ignore", "ignore", "inherit"],
  });
  if (status !== 0) throw new Error(`${program} ended with ${status}`);
}

const binOf = (name, path) => join(dirname(require.resolve(`${name}/package.json`)), path);

const write = (page, text) => {
  mkdirSync(dirname(join(SOURCE, page)), { recursive: true });
  writeFileSync(join(SOURCE, page), text);
};

const table = (columns, rows) =>
  [columns, columns.map(() => "---"), ...rows].map((cells) => `| ${cells.join(" | ")} |`).join("\n");

const cell = (text) => text.replaceAll("|", "\\|").replaceAll("<", "&lt;").replaceAll("{{", "{ {");

/** Consecutive code blocks with a title in brackets become tabs. */
const withTabs = (text) =>
  text.replaceAll(/(?:^```\w+ \[[^\]\n]+\]\n[\s\S]*?^```\n\n?){2,}/gm, (blocks) => `::: code-group\n${blocks}\n:::\n`);

/** A link out of docs/ has no page in the site: its text stays. */
function withoutOutsideLinks(page, text) {
  return text.replaceAll(/\[([^\]]*)\]\((?!\w+:|#)([^)\s#]+)(?:#[^)\s]*)?\)/g, (link, name, target) =>
    relative(PAGES, resolve(dirname(join(PAGES, page)), target)).startsWith("..") || /\.(?:json|yaml)$/.test(target)
      ? name
      : link,
  );
}

function copyPages() {
  const { withHelp } = require("./cli-reference.cjs");
  for (const page of readdirSync(PAGES, { recursive: true }).filter((path) => path.endsWith(".md"))) {
    const text = withHelp(withTabs(withoutOutsideLinks(page, readFileSync(join(PAGES, page), "utf8"))));
    write(page.replace("README.md", "index.md"), text.replaceAll("/README.md", "/index.md"));
  }
  write("index.md", `${readFileSync(join(SOURCE, "index.md"), "utf8")}\n${GENERATED}`);
  for (const folder of [".vitepress", "images"]) cpSync(join(PAGES, folder), join(SOURCE, folder), { recursive: true });
}

const GENERATED = `## Generated reference

- [The SDK](reference/sdk/entry-points.md): every export of each entry point.
- [The Facilitator's HTTP API](reference/api/index.md), from its openapi.json.
- [Attacks and laws](reference/threats.md), with the tests that name them.
- [The hostile battery](reference/hostile.md): what each server does, and what is safe.
`;

async function makeReference() {
  run(binOf("typedoc", "bin/typedoc"), [
    "--options",
    "sdk/typedoc.json",
    "--logLevel",
    "Error",
    "--out",
    join(SOURCE, "reference", "sdk"),
    "--entryFileName",
    "entry-points",
    "--sanitizeComments",
  ]);
  const { openApiDocument, pagesOf } = require("./openapi.cjs");
  for (const [name, text] of pagesOf(await openApiDocument()))
    write(join("reference", "api", name.replace("README", "index")), text);
  const { threats } = require("./threats.cjs");
  const rows = [...threats()].map(([id, tests]) => [id, tests.map(cell).join("<br>")]);
  write("reference/threats.md", `# Attacks and laws\n\n${table(["id", "tests"], rows)}\n`);
  const { CASES } = require("../test/hostile/support/battery.ts");
  const cases = CASES.map(({ id, does, safeResult }) => [`\`${id}\``, cell(does), cell(safeResult)]);
  write("reference/hostile.md", `# The hostile battery\n\n${table(["case", "what the server does", "safe"], cases)}\n`);
  const interop = join(ROOT, "out", "interop");
  if (existsSync(interop)) cpSync(interop, join(SOURCE, "reference", "interop"), { recursive: true });
}

async function main() {
  require("./typescript.cjs");
  rmSync(SOURCE, { recursive: true, force: true });
  copyPages();
  await makeReference();
  run(binOf("vitepress", "bin/vitepress.js"), ["build", SOURCE, "--outDir", SITE]);
  console.log(`The site is in ${relative(process.cwd(), SITE)}.`);
}

main().catch((error) => {
  console.error(error);
  process.exitCode = 1;
});
