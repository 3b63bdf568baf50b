import { defineConfig } from "tsdown";

// Every door of the package, as ESM and CommonJS with types.
export default defineConfig({
  entry: [
    "src/index.ts",
    "src/{protocol,chain,facilitator,agent,gate,testing}/index.ts",
    "src/agent/file-ledger/index.ts",
    "src/gate/{express,hono,fastify,node,fetch}.ts",
  ],
  format: ["esm", "cjs"],
  platform: "neutral",
  dts: true,
  tsconfig: "../tsconfig.json",
  deps: { neverBundle: [/^node:/] },
  logLevel: "warn",
});
