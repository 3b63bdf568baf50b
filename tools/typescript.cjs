/**
 * `node -r ./tools/typescript.cjs FILE`: compiles TypeScript with esbuild, which takes a second where the compiler
 * takes fifteen. Types are not checked. What a text compiles to is kept beside the packages, since a process that starts
 * with nothing to compile takes half the time.
 */
const { createHash } = require("node:crypto");
const { mkdirSync, readFileSync, renameSync, writeFileSync } = require("node:fs");
const { basename, join } = require("node:path");
const { version } = require("esbuild/package.json");

const KEPT = join(__dirname, "../node_modules/.cache/turnpike-typescript");
const OPTIONS = { loader: "ts", format: "cjs", target: "node20", sourcemap: "inline", sourcesContent: false };

/** Returns what the file compiles to: by its text, so that a file that changes is compiled again. */
function compiled(filename) {
  const source = readFileSync(filename, "utf8");
  // Relative to the file, so that every checkout has the same.
  const options = { ...OPTIONS, sourcefile: basename(filename) };
  const key = createHash("sha256")
    .update(JSON.stringify([version, options, source]))
    .digest("hex");
  const kept = join(KEPT, `${key}.js`);
  try {
    return readFileSync(kept, "utf8");
  } catch {
    const { code } = require("esbuild").transformSync(source, options);
    keep(kept, code);
    return code;
  }
}

/** Under another name first: other processes read it. */
function keep(file, code) {
  const unfinished = `${file}.${process.pid}`;
  try {
    mkdirSync(KEPT, { recursive: true });
    writeFileSync(unfinished, code);
    renameSync(unfinished, file);
  } catch {
    // The packages may be somebody else's, or the disk full: it is compiled again next time.
  }
}

process.setSourceMapsEnabled(true);
require.extensions[".ts"] = (module, filename) => module._compile(compiled(filename), filename);
require("tsconfig-paths/register");
