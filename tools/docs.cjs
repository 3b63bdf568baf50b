/**
 * Builds the documentation as a site in out/site: the pages of docs/, and reference pages that are made from sources.
 * `npm run docs`. Pages that a suite has written to out/interop are included.
 *
 * `--package` builds the site that the npm package holds, in sdk/docs: pages without scripts, whose links are relative,
 * so that a browser opens them from the folder. It lacks what is about this repository's tests, and the SDK's exports,
 * which the package's own declarations describe. `--without-sdk` leaves out the latter alone, which takes most of the
 * time; `--out FOLDER` builds elsewhere.
 */
const { spawnSync } = require("node:child_process");
const { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } = require("node:fs");
const { dirname, join, relative, resolve, sep } = require("node:path");
const { parseArgs } = require("node:util");

const { values: OPTIONS } = parseArgs({
  options: { package: { type: "boolean" }, "without-sdk": { type: "boolean" }, out: { type: "string" } },
});
const IS_PACKED = OPTIONS.package === true;
const WITH_SDK = !IS_PACKED && !OPTIONS["without-sdk"];

const ROOT = join(__dirname, "..");
const PAGES = join(ROOT, "docs");
/** In this repository, where pages find the theme; of one process, because tests build sites in parallel. */
const SOURCE = join(ROOT, "cache", `site-${process.pid}`);
const SITE = resolve(OPTIONS.out ?? join(ROOT, IS_PACKED ? "sdk/docs" : "out/site"));

/** What a program says is shown when it fails; its progress too, unless npm's user waits for something else. */
function run(program, args) {
  const { status, stderr } = spawnSync(process.execPath, [program, ...args], {
    cwd: ROOT,
    stdio: ["ignore", "ignore", IS_PACKED ? "pipe" : "inherit"],
  });
  if (status !== 0) throw new Error(`${program} ended with ${status}\n${stderr ?? ""}`);
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
    const own = withoutOutsideLinks(page, readFileSync(join(PAGES, page), "utf8"));
    // A tab is opened by a script.
    const text = withHelp(IS_PACKED ? own : withTabs(own));
    write(page.replace("README.md", "index.md"), text.replaceAll("/README.md", "/index.md"));
  }
  write(
    "index.md",
    [readFileSync(join(SOURCE, "index.md"), "utf8"), "## Generated reference\n", ...generated()].join("\n"),
  );
  for (const folder of [".vitepress", "images"]) cpSync(join(PAGES, folder), join(SOURCE, folder), { recursive: true });
}

/** The lines of the index for the pages that are made. */
const generated = () => [
  ...(WITH_SDK ? ["- [The SDK](reference/sdk/entry-points.md): every export of each entry point."] : []),
  "- [The Facilitator's HTTP API](reference/api/index.md), from its openapi.json.",
  ...(IS_PACKED
    ? []
    : [
        "- [Attacks and laws](reference/threats.md), with the tests that name them.",
        "- [The hostile battery](reference/hostile.md): what each server does, and what is safe.",
      ]),
];

function makeSdkReference() {
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
}

async function makeApiReference() {
  const { openApiDocument, pagesOf } = require("./openapi.cjs");
  for (const [name, text] of pagesOf(await openApiDocument()))
    write(join("reference", "api", name.replace("README", "index")), text);
}

function makeTestReference() {
  const { threats } = require("./threats.cjs");
  const rows = [...threats()].map(([id, tests]) => [id, tests.map(cell).join("<br>")]);
  write("reference/threats.md", `# Attacks and laws\n\n${table(["id", "tests"], rows)}\n`);
  const { CASES } = require("../test/hostile/support/battery.ts");
  const cases = CASES.map(({ id, does, safeResult }) => [`\`${id}\``, cell(does), cell(safeResult)]);
  write("reference/hostile.md", `# The hostile battery\n\n${table(["case", "what the server does", "safe"], cases)}\n`);
  const interop = join(ROOT, "out", "interop");
  if (existsSync(interop)) cpSync(interop, join(SOURCE, "reference", "interop"), { recursive: true });
}

/** Makes the links of all pages relative, and removes what only a server or a script needs. */
function makeSelfContained() {
  for (const file of ["404.html", "hashmap.json", "package.json"]) rmSync(join(SITE, file), { force: true });
  for (const page of readdirSync(SITE, { recursive: true }).filter((path) => path.endsWith(".html"))) {
    const toTop = "../".repeat(page.split(sep).length - 1);
    const text = readFileSync(join(SITE, page), "utf8");
    const local = text.replaceAll(/(\s(?:href|src)=")(\/?)(?!\w+:|[/#])([^"#]*)/g, (_, start, root, target) =>
      [start, root && toTop, target, /(?:^|\/)$/.test(target) ? "index.html" : ""].join(""),
    );
    writeFileSync(join(SITE, page), local);
  }
}

async function main() {
  require("./typescript.cjs");
  try {
    copyPages();
    if (WITH_SDK) makeSdkReference();
    await makeApiReference();
    if (!IS_PACKED) makeTestReference();
    // Old pages and styles would stay. A folder that somebody names may hold more.
    if (OPTIONS.out === undefined) rmSync(SITE, { recursive: true, force: true });
    const given = ["build", SOURCE, "--outDir", SITE];
    run(binOf("vitepress", "bin/vitepress.js"), IS_PACKED ? [...given, "--mpa"] : given);
  } finally {
    rmSync(SOURCE, { recursive: true, force: true });
  }
  if (IS_PACKED) makeSelfContained();
  console.log(`The site is in ${relative(process.cwd(), SITE)}.`);
}

main().catch((error) => {
  console.error(error);
  process.exitCode = 1;
});
