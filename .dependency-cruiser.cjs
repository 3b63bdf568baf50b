// Imports flow one way; each rule names the boundary that it enforces.
const rule = (name, comment, from, to) => ({ name, comment, severity: "error", from, to });

/** A folder imports only folders that precede it in its list. */
function layers(base, names) {
  return names
    .slice(0, -1)
    .map((name, i) =>
      rule(
        `${base.replaceAll("/", "-")}${name}-imports-downwards`,
        `${base}${name} imports nothing above it.`,
        { path: `^${base}${name}/` },
        { path: `^${base}(${names.slice(i + 1).join("|")})(/|\\.ts$)` },
      ),
    );
}

/** Folders of one height do not import each other. */
function siblings(base, names) {
  return names.map((name) =>
    rule(
      `${base.replaceAll("/", "-")}${name}-beside-its-siblings`,
      `${base}${name} does not import its siblings.`,
      { path: `^${base}${name}/` },
      { path: `^${base}(${names.filter((other) => other !== name).join("|")})/` },
    ),
  );
}

const SERVICE = "facilitator/src/";
const GATE = "sdk/src/gate/";
const AGENT = "sdk/src/agent/";

module.exports = {
  forbidden: [
    ...layers(SERVICE, [
      ...["lib", "config", "telemetry", "db", "chain", "events", "relayer", "indexer", "payments", "subscriptions"],
      ...["webhooks", "analytics", "providers", "discovery", "http", "app", "cli", "main"],
    ]),
    ...siblings(SERVICE, ["events", "relayer"]),
    ...siblings(SERVICE, ["payments", "subscriptions"]),
    ...siblings(SERVICE, ["webhooks", "analytics", "providers"]),
    ...layers(GATE, [
      ...[
        "page",
        "cells",
        "purchases",
        "replay",
        "methods",
        "metering",
        "earlier",
        "core",
        "schemes",
        "dialects",
        "discovery",
        "decision",
        "usage",
        "reporting",
        "adapters",
        "provider",
      ],
      ...["express", "fastify", "fetch", "hono", "next", "node", "postgres", "redis", "index"],
    ]),
    ...siblings(`${GATE}dialects/`, ["x402", "mpp"]),
    ...layers(AGENT, [
      ...["ledger", "file-ledger", "signing", "core", "receipts", "payments", "subscriptions", "pricing"],
      ...["fetch", "create-agent", "index"],
    ]),
    rule(
      "no-circular",
      "Two modules that import each other are one module.",
      { pathNot: "generated" },
      { circular: true },
    ),
    rule(
      "protocol-alone",
      "sdk/protocol imports nothing of ours.",
      { path: "^sdk/src/protocol/" },
      { path: "^(sdk/src/(?!protocol/)|facilitator/|contracts/|scripts/)" },
    ),
    rule(
      "file-lock-alone",
      "sdk/file-lock imports nothing of ours.",
      { path: "^sdk/src/file-lock/" },
      { path: "^(sdk/src/(?!file-lock/)|facilitator/|contracts/|scripts/)" },
    ),
    rule(
      "public-lookup-on-protocol",
      "sdk/public-lookup imports protocol only.",
      { path: "^sdk/src/public-lookup/" },
      { path: "^(sdk/src/(?!protocol/|public-lookup/)|facilitator/|contracts/|scripts/)" },
    ),
    rule(
      "chain-on-protocol",
      "sdk/chain imports protocol and generated types only.",
      { path: "^sdk/src/chain/" },
      { path: "^(sdk/src/(?!protocol/|chain/)|facilitator/)" },
    ),
    rule(
      "wire-on-protocol",
      "sdk/facilitator imports protocol only.",
      { path: "^sdk/src/facilitator/" },
      { path: "^(sdk/src/(?!protocol/|facilitator/)|facilitator/)" },
    ),
    rule(
      "agent-not-gate",
      "sdk/agent and sdk/gate never import each other.",
      { path: "^sdk/src/agent/" },
      { path: "^(sdk/src/(gate|testing|mcp)/|facilitator/)" },
    ),
    rule(
      "wallet-on-agent",
      "The wallet is built on the agent, and knows no gate.",
      { path: "^sdk/src/mcp/wallet/" },
      { path: "^(sdk/src/(gate|testing|chain|mcp/(?!wallet/))|facilitator/)" },
    ),
    rule(
      "gate-not-agent",
      "sdk/gate and sdk/agent never import each other.",
      { path: "^sdk/src/gate/" },
      { path: "^(sdk/src/(agent|testing)/|facilitator/)" },
    ),
    rule(
      "mcp-wire-on-protocol",
      "sdk/mcp/wire imports protocol only.",
      { path: "^sdk/src/mcp/wire/" },
      { path: "^(sdk/src/(?!protocol/|mcp/wire/)|facilitator/)" },
    ),
    rule(
      "mcp-server-on-gate",
      "sdk/mcp/server sells by the gate, and knows nothing of buyers.",
      { path: "^sdk/src/mcp/server/" },
      { path: "^(sdk/src/(agent|testing|mcp/client)/|facilitator/)" },
    ),
    rule(
      "mcp-client-on-agent",
      "sdk/mcp/client buys by the agent, and knows nothing of sellers.",
      { path: "^sdk/src/mcp/client/" },
      { path: "^(sdk/src/(gate|testing|mcp/server)/|facilitator/)" },
    ),
    rule(
      "mcp-in-its-entries",
      "No other entry point carries what speaks MCP.",
      {
        path: "^sdk/src/(protocol|chain|facilitator|agent|gate|testing|index\\.ts)",
        pathNot: "^sdk/src/gate/adapters/mcp",
      },
      { path: "^sdk/src/(mcp/|gate/adapters/mcp)" },
    ),
    rule(
      "mcp-sdk-in-mcp",
      "The MCP SDK is an optional peer: only the entry points of MCP import it, and `validate` when it is used.",
      {
        path: "^(sdk|facilitator)/src/",
        pathNot: "^sdk/src/(mcp/(server|client|wallet)/|cli/validate/tool-calls\\.ts$)",
      },
      { path: "node_modules/@modelcontextprotocol/" },
    ),
    rule(
      "nothing-imports-cli",
      "Nothing imports the command line: it is the top layer of the SDK.",
      { path: "^(sdk/src/(?!cli/|cli\\.ts$)|facilitator/|scripts/|examples/|bench/)" },
      { path: "^sdk/src/cli(/|\\.ts$)" },
    ),
    rule(
      "cli-without-gate",
      "The command line is a client: it imports agent, wire and protocol, not the gate. `store` imports a gate's files.",
      { path: "^sdk/src/cli(/|\\.ts$)", pathNot: "^sdk/src/cli/commands/store\\.ts$" },
      { path: "^sdk/src/(gate|testing)/" },
    ),
    rule(
      "ethers-in-chain",
      "In the SDK only sdk/chain knows ethers.",
      { path: "^sdk/src/(?!chain/)" },
      { path: "node_modules/ethers/" },
    ),
    rule(
      "service-on-public-entries",
      "The service uses protocol, chain, the wire schemas, the lock of files and the guard of addresses, not gate or agent.",
      { path: "^facilitator/src/" },
      { path: "^(sdk/src/(agent|gate|testing)/|scripts/|test/)" },
    ),
    rule(
      "http-without-ethers",
      "HTTP routes never talk to the chain.",
      { path: "^facilitator/src/http/" },
      { path: "(node_modules/ethers/|^sdk/src/chain/)" },
    ),
    rule(
      "keys-in-relayer",
      "Only the relayer sends: renewals and payments reach the chain through it.",
      { path: "^facilitator/src/(http|payments|subscriptions|webhooks|analytics)/" },
      { path: "node_modules/ethers/" },
    ),
    rule(
      "nothing-imports-tests",
      "Product code never imports tests, examples or scripts.",
      { path: "^(sdk|facilitator)/src/" },
      { path: "^(test|examples|scripts|bench)/" },
    ),
    rule("deps-declared", "Every package that is imported is declared.", {}, { dependencyTypes: ["npm-no-pkg"] }),
  ],
  options: {
    doNotFollow: { path: "node_modules" },
    exclude: { path: "generated" },
    tsConfig: { fileName: "tsconfig.json" },
    tsPreCompilationDeps: true,
    combinedDependencies: true,
    enhancedResolveOptions: { conditionNames: ["require", "node", "default", "import", "types"] },
  },
};
