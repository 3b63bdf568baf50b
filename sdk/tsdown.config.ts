import { defineConfig } from "tsdown";

const shared = { tsconfig: "../tsconfig.json", deps: { neverBundle: [/^node:/] }, logLevel: "warn" } as const;

export default defineConfig([
  // Every door of the package, as ESM and CommonJS with types.
  {
    ...shared,
    entry: [
      "src/index.ts",
      "src/{protocol,chain,facilitator,agent,gate,testing}/index.ts",
      "src/agent/file-ledger/index.ts",
      "src/mcp/{server,wallet}/index.ts",
      "src/gate/{express,hono,fastify,next,node,fetch,redis,postgres}.ts",
    ],
    format: ["esm", "cjs"],
    platform: "neutral",
    // A file for each module, so that bundlers leave out what is not used.
    unbundle: true,
    dts: true,
  },
  // The program, by itself: with it among the entries, the modules of the others get initialisers.
  {
    ...shared,
    entry: ["src/cli.ts"],
    format: ["cjs"],
    platform: "node",
    fixedExtension: false,
    dts: false,
    clean: false,
  },
]);
