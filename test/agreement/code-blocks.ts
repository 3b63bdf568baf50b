/** Every block of code in guides and quickstarts is run by a test, or named here with the reason why none runs it. */
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { expect } from "chai";

const FOLDERS = ["docs/guides", "docs/quickstart"];

/** `ts`: test/agreement/snippets.ts compiles it, or the interop suite runs it. */
const COMPILED = "ts";

/** Pages whose blocks a test runs unchanged. */
const FOLLOWED: Readonly<Record<string, string>> = {
  "docs/quickstart/get-paid.md": "test/package/quickstarts.ts",
  "docs/quickstart/buyer.md": "test/package/quickstarts.ts",
  "docs/quickstart/mcp.md": "test/package/quickstarts.ts",
  "docs/guides/testing-in-ci.md": "test/package/readme.ts",
};

const NOT_RUN: Readonly<Record<string, string>> = {
  "docs/guides/api-keys.md sh": "needs a key of a running Facilitator",
  "docs/guides/assistant-wallet.md json": "a wallet's file and a host's: test/sdk/mcp-wallet reads the same fields",
  "docs/guides/assistant-wallet.md sh": "installs from a registry and opens an editor",
  "docs/guides/plans.md sh": "sends a transaction on a public chain; test/scripts does so on a local one",
  "docs/guides/prices.md js": "a fragment: `complete` is the reader's; test/sdk/gate/core/upto.ts charges so",
  "docs/guides/receipts.md sh": "needs a bill and a node of its chain; test/sdk/cli audits one",
  "docs/guides/several-gates.md js": "needs a Redis: `npm run test:redis` starts one",
  "docs/guides/stock-x402.md sh": "settings, with places for the reader's own",
  "docs/guides/streaming.md js": "a fragment: `tokensOf` is the reader's; test/sdk/gate/metering streams so",
  "docs/guides/webhooks.md sh": "needs a key of a running Facilitator",
  "docs/quickstart/sandbox.md sh": "test/e2e/sandbox.ts gives the same commands to a sandbox of its own",
};

describe("agreement > code blocks of guides and quickstarts", () => {
  it("are run by a test, or named with the reason why not", () => {
    const pages = FOLDERS.flatMap((folder) => readdirSync(folder).map((name) => `${folder}/${name}`));
    const unrun = pages
      .filter((page) => !(page in FOLLOWED))
      .flatMap((page) => [...readFileSync(page, "utf8").matchAll(/^ *```(\w+)/gm)].map(([, kind]) => ({ page, kind })))
      .filter(({ kind }) => kind !== COMPILED)
      .map(({ page, kind }) => `${page} ${kind}`);
    expect([...new Set(unrun)].sort()).to.deep.equal(Object.keys(NOT_RUN).sort());
    for (const test of Object.values(FOLLOWED)) expect(existsSync(test), test).to.equal(true);
  });
});
