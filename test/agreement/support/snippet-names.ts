/**
 * Names that the documentation's snippets take from their reader's application, with their types. A name that a snippet
 * declares itself is its own.
 */
import ts from "typescript";

type Names = Readonly<Record<string, string>>;

const typeOf = (entry: string, type: string): string => `import("turnpike/${entry}").${type}`;
const constantOf = (entry: string, name: string): string => `typeof import("turnpike/${entry}").${name}`;

const EXPRESS = 'import("express").Express';

const HANDLER = 'import("express").RequestHandler';

/** Names that mean the same on every page. */
const COMMON: Names = {
  account: typeOf("protocol", "Address"),
  address: typeOf("protocol", "Address"),
  agent: typeOf("agent", "Agent"),
  agentOptions: typeOf("agent", "AgentOptions"),
  apiKey: "string",
  article: "string",
  chainId: "number",
  client: typeOf("facilitator", "FacilitatorClient"),
  configure: constantOf("gate", "configure"),
  connectionString: "string",
  cost: "bigint",
  createAgent: constantOf("agent", "createAgent"),
  createDiscoveryClient: constantOf("facilitator", "createDiscoveryClient"),
  createProvider: constantOf("gate", "createProvider"),
  createServer: 'typeof import("node:http").createServer',
  express: 'typeof import("express")',
  expressGate: constantOf("gate/express", "expressGate"),
  former: typeOf("protocol", "Address"),
  gate: constantOf("gate/express", "paymentGate"),
  handler: HANDLER,
  key: typeOf("protocol", "Hex"),
  next: typeOf("protocol", "Address"),
  nowSec: "number",
  operator: 'import("ethers").Wallet',
  operatorKey: typeOf("protocol", "Hex"),
  options: typeOf("gate", "ProviderOptions"),
  payer: typeOf("protocol", "Address"),
  paymentGate: constantOf("gate/express", "paymentGate"),
  paymentId: typeOf("protocol", "Hex"),
  plan: typeOf("protocol", "Hex"),
  planId: typeOf("protocol", "Hex"),
  pricing: `${typeOf("gate", "PricingEntry")}[]`,
  redis: 'import("ioredis").Redis',
  refundsKey: "string",
  report: "(error: Error) => void",
  res: 'import("express").Response',
  rpcUrl: "string",
  secretHash: typeOf("protocol", "Hex"),
  signer: 'import("ethers").Wallet',
  signers: "string[]",
  subscriber: typeOf("protocol", "Address"),
  token: typeOf("protocol", "Address"),
  tokenAddress: typeOf("protocol", "Address"),
  turnpike: typeOf("protocol", "Address"),
  url: "string",
  wallet: 'import("ethers").Wallet',
};

/** Names of the snippets of a page that have this text. */
const OWN: readonly { readonly page: string; readonly text: string; readonly names: Names }[] = [
  { page: "docs/guides/gate.md", text: "turnpike/gate/hono", names: { app: 'import("hono").Hono' } },
  { page: "docs/guides/gate.md", text: "turnpike/gate/fastify", names: { app: 'import("fastify").FastifyInstance' } },
  {
    page: "docs/guides/receipts.md",
    text: "policy: {",
    names: {
      limits: `${typeOf("agent", "AgentOptions")}["policy"]`,
      options: `Omit<${typeOf("agent", "AgentOptions")}, "policy">`,
    },
  },
  {
    page: "docs/guides/prices.md",
    text: "priceOf",
    names: { app: 'import("hono").Hono', handler: 'import("hono").Handler', priceOf: "(body: unknown) => bigint" },
  },
  {
    page: "docs/guides/streaming.md",
    text: "upstream",
    names: {
      asked: "object",
      fields: "object",
      model: "string",
      prices: typeOf("gate", "TokenPrices"),
      provider: typeOf("gate", "Provider"),
      upstream: "{ url: string; key: string }",
    },
  },
  {
    page: "docs/guides/receipts.md",
    text: "agent.audit()",
    names: { options: typeOf("agent", "AgentOptions"), rpc: "Record<number, string>" },
  },
  {
    page: "docs/guides/receipts.md",
    text: "req.payment",
    names: { req: `{ payment: ${typeOf("gate", "Payment")} }` },
  },
  { page: "docs/guides/receipts.md", text: "takeReceipts", names: { meter: typeOf("gate", "UsageMeter") } },
  {
    page: "docs/guides/webhooks.md",
    text: "isNew",
    names: { handle: `(event: ${typeOf("facilitator", "WebhookEvent")}) => void`, isNew: "(id: string) => boolean" },
  },
];

/** Returns declarations of what a snippet uses and does not declare, on one line. */
export function declarationsFor({ page, code }: { readonly page: string; readonly code: string }): string {
  const own = OWN.filter((each) => each.page === page && code.includes(each.text)).map(({ names }) => names);
  const names: Names = Object.assign({ app: EXPRESS }, COMMON, ...own);
  const declared = declaredIn(code);
  const used = Object.entries(names).filter(([name]) => !declared.has(name) && new RegExp(`\\b${name}\\b`).test(code));
  return used.map(([name, type]) => `declare const ${name}: ${type};`).join(" ");
}

function declaredIn(code: string): ReadonlySet<string> {
  const names = new Set<string>();
  const visit = (node: ts.Node): void => {
    const isNamed = ts.isVariableDeclaration(node) || ts.isBindingElement(node) || ts.isFunctionDeclaration(node);
    if ((isNamed || ts.isImportClause(node) || ts.isImportSpecifier(node) || ts.isNamespaceImport(node)) && node.name)
      if (ts.isIdentifier(node.name)) names.add(node.name.text);
    // Names within a function are not the module's.
    if (!ts.isFunctionLike(node)) ts.forEachChild(node, visit);
  };
  ts.forEachChild(ts.createSourceFile("snippet.mts", code, ts.ScriptTarget.Latest), visit);
  return names;
}
