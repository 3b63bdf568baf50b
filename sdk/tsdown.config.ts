import type { Rolldown } from "tsdown";
import { defineConfig } from "tsdown";

/** Of a generated factory the package uses the ABI: without its class, a bundle has no contracts and providers of ethers. */
const abiAlone: Rolldown.Plugin = {
  name: "abi-alone",
  transform(code, id) {
    const name = /\/interfaces\/(\w+__factory)\.ts$/.exec(id)?.[1];
    const abi = name && /^const _abi = \[[\s\S]*?^\] as const;/m.exec(code)?.[0];
    return abi && `${abi}\nexport class ${name} {\n  static readonly abi = _abi;\n}\n`;
  },
};

const shared = { tsconfig: "../tsconfig.json", deps: { neverBundle: [/^node:/] }, logLevel: "warn" } as const;

export default defineConfig([
  // Every entry point of the package, as ESM and CommonJS with types.
  {
    ...shared,
    entry: [
      "src/{index,browser}.ts",
      "src/{protocol,chain,facilitator,agent,gate,testing}/index.ts",
      "src/agent/file-ledger/index.ts",
      "src/mcp/{client,server,wallet,client/v2,server/v2}/index.ts",
      "src/gate/{express,hono,fastify,next,node,fetch,redis,postgres}.ts",
    ],
    format: ["esm", "cjs"],
    platform: "neutral",
    // A file for each module, so that bundlers leave out what is not used.
    unbundle: true,
    plugins: [abiAlone],
    dts: true,
  },
  // The program, by itself: with it among the entries, the modules of the others get initialisers.
  {
    ...shared,
    entry: ["src/cli.ts"],
    format: ["cjs"],
    outputOptions: { codeSplitting: false },
    platform: "node",
    fixedExtension: false,
    dts: false,
    clean: false,
  },
]);
