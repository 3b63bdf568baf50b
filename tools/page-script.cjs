/**
 * Bundles the script of the payment page into sdk/src/gate/page/generated/script.ts. Run it after each change of
 * sdk/src/gate/page/client; a test compares both. Fails above the limit.
 */
const { writeFileSync } = require("node:fs");
const path = require("node:path");
const { buildSync } = require("esbuild");

const PAGE = path.resolve(__dirname, "../sdk/src/gate/page");
const FILE = path.join(PAGE, "generated/script.ts");
const MAX_BYTES = 15_000;

/** Returns the text of the module that holds the script. */
function bundledModule() {
  const { outputFiles } = buildSync({
    entryPoints: [path.join(PAGE, "client/main.ts")],
    bundle: true,
    minify: true,
    write: false,
    format: "iife",
    target: ["es2022"],
    charset: "ascii",
    legalComments: "none",
    tsconfigRaw: {},
  });
  const script = outputFiles[0].text.trim();
  if (script.length > MAX_BYTES) throw new Error(`The script has ${script.length} bytes: the limit is ${MAX_BYTES}.`);
  if (/<\/script|<!--/i.test(script)) throw new Error("The script contains text that ends its element.");
  return `/** The payment page's script, bundled from ../client by tools/page-script.cjs. */\nexport const SCRIPT = ${JSON.stringify(script)};\n`;
}

if (require.main === module) writeFileSync(FILE, bundledModule());

module.exports = { FILE, bundledModule };
