import { defineConfig } from "tsdown";

// Every door of the package, as ESM and CommonJS with types.
export default defineConfig({
  entry: [
    "src/index.ts",
    "src/cli.ts",
    "src/{protocol,chain,facilitator,agent,gate,testing}/index.ts",
    "src/agent/file-ledger/index.ts",
    "src/mcp/*/index.ts",
    "src/gate/{express,hono,fastify,next,node,fetch,redis,postgres}.ts",
    "src/mcp/server/index.ts",
  ],
  format: ["esm", "cjs"],
  platform: "neutral",
  // A file for each module, so that bundlers leave out what is not used.
  unbundle: true,
  dts: true,
  tsconfig: "../tsconfig.json",
  deps: { neverBundle: [/^node:/] },
  logLevel: "warn",
});
