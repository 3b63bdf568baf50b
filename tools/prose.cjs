/**
 * Checks the prose of documentation, sources and tests. `node tools/prose.cjs [files]` prints one line for each fault
 * and exits with 1. A fault is one of these:
 * - a retired word, in a page, a source or a test
 * - a sentence of more than 40 words, in a page
 * - a link or anchor without a target, in a page
 * - a path of a page, in a source, that does not exist
 */
const { existsSync, readdirSync, readFileSync, statSync } = require("node:fs");
const { dirname, extname, join, relative, resolve } = require("node:path");

const ROOT = join(__dirname, "..");

/** Files and folders whose text is checked. */
const COVERED = [
  ...["README.md", "CHANGELOG.md", "llms.txt", "sdk/README.md", "sdk/AGENTS.md", "docs"],
  ...[".dependency-cruiser.cjs", "hardhat.config.ts", "sdk/tsdown.config.ts", "sdk/typedoc-derived.mjs"],
  ...["sdk/src", "facilitator/src", "facilitator/dashboard/src", "facilitator/tools", "contracts"],
  ...["scripts", "test", "bench", "tools", "examples"],
];
/** Folders whose mentions of `docs/...` must name a page that exists. */
const MENTIONING = ["contracts", "sdk/src", "facilitator/src", "facilitator/dashboard/src", "scripts", "test", "tools"];
/** Folders that are not read. */
const GENERATED = new Set(["node_modules", "generated", "dist", ".next"]);
const SOURCES = new Set([".ts", ".tsx", ".mjs", ".cjs", ".sol"]);
const MAX_WORDS = 40;

/** Idiom, each with the plain word to use instead. */
const RETIRED = [
  [/\b(?:whoever|whomever|those who|whose word)\b/gi, "name the person, program or account"],
  [/\b(?:anew|afresh)\b/gi, "again"],
  [/\b(?:tells?|told|untold)\b/gi, "return, send, report, show, state"],
  [/\b(?:believed|believes?)\b/gi, "accept, trust"],
  [/\b(?:stands?|stood)\b/gi, "is, remains, applies"],
  [/\bdoors?\b/gi, "channel, entry point"],
  [/\brooms?\b/gi, "context, capacity"],
  [/\b(?:boarding|boarders?|pursuit|misfits?|doorway|seats?)\b/gi, "batch, slot, request, mismatch"],
  [/\b(?:tidy|tidying|tidied)\b/gi, "compact, delete"],
  [/\b(?:hurry|hurries|hurried)\b/gi, "request"],
  [/\b(?:let go|lets go|of equals|takeIn|giveBack|letGo|foresee|tellable)\b/g, "release, free"],
  [/\b(?:gives?|gave|given|giving) back\b/gi, "release, return"],
  [/\b(?:takes?|took|taken) in\b/gi, "accept"],
  // The same words within a name.
  [
    /(?<=[a-z])(?:Told|Tells?|Doors?|Rooms?|Seats?|Misfits?|Boarding|Pursuit|Tidy)(?![a-z])|\b(?:told|tell|door|room|seat|misfit|tidy)(?=[A-Z])/g,
    "name it in the field's words",
  ],
  [/\b(?:this build|later build|earlier builds?|the build before|in earnest)\b/gi, "state what is true now"],
];

/** Text in which a retired word is a term. It is removed before the words are searched. */
const TERMS = [
  // The column and wire field `door` of a payment, in code.
  /\.door\b|\bdoor(?:\?|:|,| text\b| =| <>)/g,
];
/** Text that a file must copy from code of others: file (or prefix) and phrase. */
const ALLOWED = [
  ["docs/reference/errors.md", "subscribe anew"],
  // The key in a meter's stored JSON.
  ["sdk/src/gate/metering/shared-view.ts", /hurried: true|"hurried":true/g],
  // The name of a database column.
  ["facilitator/src/payments/payment-request.ts", "`door`"],
  // The SQL of a migration that has landed is not edited.
  ["facilitator/src/db/migrations/406-failed-periods.ts", /with told as|from told order by/g],
  // These name the retired words themselves.
  ["tools/prose.cjs", /[\s\S]+/g],
  [
    "test/agreement/prose.ts",
    /The outage is told as 503|The caller is told|"told"|Subscribe anew|`door`|"door"|{ door }|isToldAbove = tellAll|"Told"|"tell"/g,
  ],
];

function filesIn(path, extensions) {
  if (!existsSync(path)) return [];
  if (statSync(path).isFile()) return [path];
  return readdirSync(path, { withFileTypes: true }).flatMap((entry) => {
    if (entry.isDirectory()) return GENERATED.has(entry.name) ? [] : filesIn(join(path, entry.name), extensions);
    return extensions.has(extname(entry.name)) ? [join(path, entry.name)] : [];
  });
}

const blank = (text) => text.replaceAll(/[^\n]/g, " ");

/** Markdown without code: fenced blocks become blank lines, code spans one word each. Line numbers stay. */
function withoutCode(text) {
  return text
    .replaceAll(/^( *)(```|~~~)[\s\S]*?^\1\2.*$/gm, blank)
    .replaceAll(/^(?: {4}\S.*\n)+/gm, (block, at) => (text.slice(0, at).endsWith("\n\n") ? blank(block) : block))
    .replaceAll(/(`+)[^`][\s\S]*?\1/g, (span) => `code${"\n".repeat(span.split("\n").length - 1)}`);
}

const lineAt = (text, index) => text.slice(0, index).split("\n").length;

/** @returns retired words as `{ line, message }` */
function wordFaults(text, allowed = []) {
  let plain = text;
  for (const phrase of [...TERMS, ...allowed]) {
    if (phrase instanceof RegExp) {
      plain = plain.replaceAll(phrase, blank);
      continue;
    }
    const words = phrase.split(" ").map((word) => word.replaceAll(/[.*+?^${}()|[\]\\]/g, "\\$&"));
    plain = plain.replaceAll(new RegExp(words.join("\\s+"), "gi"), blank);
  }
  return RETIRED.flatMap(([pattern, instead]) =>
    [...plain.matchAll(pattern)].map(({ 0: word, index }) => ({
      line: lineAt(plain, index),
      message: `"${word.replaceAll(/\s+/g, " ")}": ${instead}`,
    })),
  );
}

/** Paragraphs, list items, headings and table cells of Markdown without code, each with its first line. */
function blocksOf(plain) {
  const blocks = [];
  let open;
  for (const [index, raw] of plain.split("\n").entries()) {
    const line = raw.trim();
    const isRow = line.startsWith("|");
    const startsBlock = isRow || /^(?:[-*+] |\d+\. |#{1,6} |>)/.test(line);
    if (line === "" || startsBlock) open = undefined;
    if (line === "" || /^\|[-:| ]+\|$/.test(line)) continue;
    if (isRow) {
      for (const cell of line.split("|").slice(1, -1)) blocks.push({ line: index + 1, text: cell.trim() });
    } else if (open) open.text += ` ${line}`;
    else {
      open = { line: index + 1, text: line };
      blocks.push(open);
    }
  }
  return blocks;
}

const wordsOf = (text) => text.split(/\s+/).filter((word) => /[\p{L}\p{N}]/u.test(word)).length;

/** @returns sentences of more than MAX_WORDS words */
function sentenceFaults(plain) {
  return blocksOf(plain).flatMap(({ line, text }) =>
    text
      .replaceAll(/\[([^\]]*)\]\([^)]*\)/g, "$1")
      .split(/(?<=[.!?][)"*]*)\s+/)
      .filter((sentence) => wordsOf(sentence) > MAX_WORDS)
      .map((sentence) => ({
        line,
        message: `${wordsOf(sentence)} words in one sentence: ${sentence.slice(0, 60)}...`,
      })),
  );
}

/** A heading's anchor as GitHub makes it. */
function anchorsOf(text) {
  const seen = new Map();
  const headings = text.replaceAll(/^( *)(```|~~~)[\s\S]*?^\1\2.*$/gm, blank).match(/^#{1,6} .+$/gm) ?? [];
  return new Set(
    headings.map((heading) => {
      const words = heading.replace(/^#+ /, "").replaceAll(/\[([^\]]*)\]\([^)]*\)/g, "$1");
      const slug = words
        .trim()
        .toLowerCase()
        .replaceAll(/[^\p{L}\p{N}\s_-]/gu, "")
        .replaceAll(/\s/g, "-");
      const count = seen.get(slug) ?? 0;
      seen.set(slug, count + 1);
      return count === 0 ? slug : `${slug}-${count}`;
    }),
  );
}

/** @returns links within the repository whose file or heading does not exist */
function linkFaults(file, text, plain) {
  return [...plain.matchAll(/\]\((?!https?:|mailto:)([^)\s]*)\)/g)].flatMap(({ 1: target, index }) => {
    const line = lineAt(plain, index);
    const [path = "", anchor] = target.split("#");
    const page = path === "" ? file : resolve(dirname(file), path);
    if (path !== "" && !existsSync(page)) return [{ line, message: `link to ${target}: no such file` }];
    if (anchor === undefined || extname(page) !== ".md") return [];
    const pageText = path === "" ? text : readFileSync(page, "utf8");
    return anchorsOf(pageText).has(anchor) ? [] : [{ line, message: `link to ${target}: no such heading` }];
  });
}

function faultsOfPage(file, text) {
  const name = relative(ROOT, file);
  const allowed = ALLOWED.filter(([prefix]) => name.startsWith(prefix)).map(([, phrase]) => phrase);
  const isPage = [".md", ".txt"].includes(extname(file));
  const plain = isPage ? withoutCode(text) : text;
  const faults = wordFaults(plain, allowed);
  return isPage ? [...faults, ...sentenceFaults(plain), ...linkFaults(file, text, plain)] : faults;
}

function faultsOfMentions(text) {
  return [...text.matchAll(/(?<![\w./])docs\/[\w/.-]+\.(?:md|json)\b/g)]
    .filter(({ 0: path }) => !existsSync(join(ROOT, path)))
    .map(({ 0: path, index }) => ({ line: lineAt(text, index), message: `${path}: no such page` }));
}

function main(given) {
  const covered = COVERED.flatMap((path) => filesIn(join(ROOT, path), new Set([...SOURCES, ".md", ".txt"])));
  const chosen = given.length > 0 ? given.map((path) => resolve(path)) : covered;
  const mentioning = given.length > 0 ? [] : MENTIONING.flatMap((path) => filesIn(join(ROOT, path), SOURCES));
  const faults = [
    ...chosen.map((file) => [file, faultsOfPage(file, readFileSync(file, "utf8"))]),
    ...mentioning.map((file) => [file, faultsOfMentions(readFileSync(file, "utf8"))]),
  ];
  let count = 0;
  for (const [file, found] of faults) {
    for (const { line, message } of found.sort((a, b) => a.line - b.line)) {
      count += 1;
      process.stdout.write(`${relative(ROOT, file)}:${line}: ${message}\n`);
    }
  }
  if (count > 0) process.stderr.write(`The prose check found ${count} faults.\n`);
  return count > 0 ? 1 : 0;
}

module.exports = { faultsOfPage };

if (require.main === module) process.exitCode = main(process.argv.slice(2));
