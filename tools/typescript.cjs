/**
 * `node -r ./tools/typescript.cjs FILE`: compiles TypeScript with esbuild, which takes a second where the compiler
 * takes fifteen. For tools that start one process after another. Types are not checked.
 */
const { readFileSync } = require("node:fs");
const { transformSync } = require("esbuild");

process.setSourceMapsEnabled(true);
require.extensions[".ts"] = (module, filename) => {
  const options = { loader: "ts", format: "cjs", target: "node20", sourcemap: "inline", sourcefile: filename };
  module._compile(transformSync(readFileSync(filename, "utf8"), options).code, filename);
};
require("tsconfig-paths/register");
