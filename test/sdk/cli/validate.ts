import { createServer, type Server } from "node:http";
import { expect } from "chai";
import { paymentGate } from "turnpike/gate/node";
import { encodeJsonHeader } from "turnpike/protocol";
import { createTestProvider } from "turnpike/testing";
import { PROBLEMS, TERMS_PROBLEMS } from "../../../sdk/src/cli/validate/problem";
import { closeServer, listen } from "../../support/gate";
import { closeAll, serve } from "../agent/support/servers";
import { startStandardServer } from "../agent/support/standard-server";
import { Chain } from "../agent/support/world";
import { expectCode, removeTerminals, terminal } from "./support/run";

interface Terms {
  status: number;
  headers: Record<string, string>;
  body: unknown;
}

const TOKEN = "0x036CbD53842c5426634e7929541eC2318f3dCF7e";
const PAYEE = "0x1111111111111111111111111111111111111111";

const shared = {
  scheme: "exact",
  asset: TOKEN,
  payTo: PAYEE,
  maxTimeoutSeconds: 60,
  extra: { name: "USDC", version: "2" },
};
const entryV1 = (url: string) => ({
  ...shared,
  network: "base-sepolia",
  maxAmountRequired: "10000",
  resource: url,
  description: "",
  mimeType: "",
});
const entryV2 = () => ({ ...shared, network: "eip155:84532", amount: "10000" });
const v1 = (url: string, change: object = {}, more: object = {}) => ({
  x402Version: 1,
  accepts: [{ ...entryV1(url), ...change }],
  ...more,
});
const v2 = (url: string, change: object = {}, more: object = {}) => ({
  "payment-required": encodeJsonHeader({
    x402Version: 2,
    resource: { url },
    accepts: [{ ...entryV2(), ...change }],
    ...more,
  }),
});

/** What each malformed 402 sends, by the problem that has to be named and where. */
const MALFORMED: readonly (readonly [string, string, (url: string) => Partial<Terms>])[] = [
  ["http status", "", () => ({ status: 200 })],
  ["http redirect", "", () => ({ status: 302, headers: { location: "https://elsewhere.example/" } })],
  ["http no_terms", "", () => ({ body: {} })],
  ["http cacheable", "", (url) => ({ body: v1(url), headers: { "cache-control": "max-age=60" } })],
  ["http versions_disagree", "", (url) => ({ body: v1(url), headers: v2(url, { amount: "9" }) })],
  ["v1 not_json", "", () => ({ body: "<h1>Pay</h1>" })],
  ["v1 ambiguous_json", "", () => ({ body: '{"x402Version":1,"x402Version":1,"accepts":[]}' })],
  ["v1 too_large", "", (url) => ({ body: v1(url, { description: "x".repeat(70_000) }) })],
  ["v1 x402_version", "x402Version", (url) => ({ body: v1(url, {}, { x402Version: "1" }) })],
  ["v1 accepts", "accepts", (url) => ({ body: v1(url, {}, { accepts: [] }) })],
  ["v1 entry", "accepts[0]", (url) => ({ body: v1(url, {}, { accepts: ["exact"] }) })],
  ["v1 scheme", "accepts[0].scheme", (url) => ({ body: v1(url, { scheme: 1 }) })],
  ["v1 unknown_scheme", "accepts[0].scheme", (url) => ({ body: v1(url, { scheme: "lightning" }) })],
  ["v1 network", "accepts[0].network", (url) => ({ body: v1(url, { network: undefined }) })],
  ["v1 unknown_network", "accepts[0].network", (url) => ({ body: v1(url, { network: "base-mainnet" }) })],
  ["v1 amount", "accepts[0].maxAmountRequired", (url) => ({ body: v1(url, { maxAmountRequired: "0.01" }) })],
  ["v1 zero_amount", "accepts[0].maxAmountRequired", (url) => ({ body: v1(url, { maxAmountRequired: "0" }) })],
  ["v1 asset", "accepts[0].asset", (url) => ({ body: v1(url, { asset: "USDC" }) })],
  ["v1 pay_to", "accepts[0].payTo", (url) => ({ body: v1(url, { payTo: PAYEE.slice(0, -1) }) })],
  [
    "v1 checksum",
    "accepts[0].asset",
    (url) => ({ body: v1(url, { asset: TOKEN.replace("cC", "Cc").replace("eC", "Ec") }) }),
  ],
  ["v1 resource", "accepts[0].resource", (url) => ({ body: v1(url, { resource: "/quote" }) })],
  ["v1 resource_mismatch", "accepts[0].resource", (url) => ({ body: v1(url, { resource: "https://other.example/" }) })],
  ["v1 timeout", "accepts[0].maxTimeoutSeconds", (url) => ({ body: v1(url, { maxTimeoutSeconds: "60" }) })],
  ["v1 description", "accepts[0].description", (url) => ({ body: v1(url, { description: undefined }) })],
  ["v1 mime_type", "accepts[0].mimeType", (url) => ({ body: v1(url, { mimeType: 7 }) })],
  ["v1 token_domain", "accepts[0].extra", (url) => ({ body: v1(url, { extra: { name: "USDC" } }) })],
  ["v2 not_base64", "", () => ({ headers: { "payment-required": '{"x402Version":2}' } })],
  ["v2 too_large", "", (url) => ({ headers: v2(url, {}, { error: "x".repeat(6_400) }) })],
  ["v2 x402_version", "x402Version", (url) => ({ headers: v2(url, {}, { x402Version: 1 }) })],
  ["v2 accepts", "accepts", (url) => ({ headers: v2(url, {}, { accepts: {} }) })],
  ["v2 network", "accepts[0].network", (url) => ({ headers: v2(url, { network: "base-sepolia" }) })],
  ["v2 amount", "accepts[0].amount", (url) => ({ headers: v2(url, { amount: 10_000 }) })],
  ["v2 resource", "resource.url", (url) => ({ headers: v2(url, {}, { resource: undefined }) })],
  ["v2 resource_mismatch", "resource.url", (url) => ({ headers: v2(url, {}, { resource: { url: `${url}x` } }) })],
  [
    "v2 transfer_method",
    "accepts[0].extra.assetTransferMethod",
    (url) => ({ headers: v2(url, { extra: { assetTransferMethod: "wire" } }) }),
  ],
  [
    "v2 facilitator_address",
    "accepts[0].extra.facilitatorAddress",
    (url) => ({ headers: v2(url, { scheme: "upto" }) }),
  ],
  ["v2 extensions", "extensions", (url) => ({ headers: v2(url, {}, { extensions: [] }) })],
];

describe("command line > validate", () => {
  const servers: Server[] = [];
  afterEach(async () => {
    removeTerminals();
    await closeAll();
    await Promise.all(servers.splice(0).map(closeServer));
  });

  /** A server whose 402 is this; its terms may name its own URL. */
  async function sells(terms: (url: string) => Partial<Terms>): Promise<string> {
    let url = "";
    const server = createServer((_request, response) => {
      const { status = 402, headers = {}, body = {} } = terms(url);
      response.writeHead(status, { "cache-control": "no-store", ...headers });
      response.end(typeof body === "string" ? body : JSON.stringify(body));
    });
    servers.push(server);
    url = `${await listen(server)}/quote`;
    return url;
  }

  it("finds nothing wrong with this project's own gate, in either version", async () => {
    const { provider } = createTestProvider();
    const gate = paymentGate({
      provider,
      pricing: [
        { type: "one-time", amount: 500_000 },
        { type: "subscription", plan: `0x${"5a".repeat(32)}` },
      ],
    });
    const server = createServer((req, res) => gate(req, res, () => res.end()));
    servers.push(server);
    const ran = await terminal().run("validate", `${await listen(server)}/quote?q=1`, "--require", "v1,v2", "--json");
    expectCode(ran, 0);
    const { wellFormed, versions, problems } = ran.json();
    expect({ wellFormed, versions }).to.deep.equal({
      wellFormed: true,
      versions: { v1: "valid", v2: "valid", mpp: "absent" },
    });
    // Stock version 1 clients know the test network by no name.
    expect(
      problems.map(({ code }: { code: string }) => code).filter((code: string) => code !== "unknown_network"),
    ).to.deep.equal([]);
  });

  it("finds nothing that keeps clients from paying stock servers of either version", async () => {
    for (const version of [1, 2] as const) {
      const { url } = await startStandardServer(new Chain(), { version });
      const ran = await terminal().run("validate", url, "--json");
      expectCode(ran, 0);
      const states = version === 1 ? { v1: "valid", v2: "absent" } : { v1: "absent", v2: "valid" };
      expect(ran.json().versions).to.deep.equal({ ...states, mpp: "absent" });
      expectCode(await terminal().run("validate", url, "--require", version === 1 ? "v2" : "v1"), 1);
    }
  });

  it("finds nothing wrong with well-formed terms of both versions", async () => {
    const url = await sells((own) => ({ body: v1(own), headers: v2(own) }));
    const ran = await terminal().run("validate", url, "--json");
    expectCode(ran, 0);
    expect(ran.json().problems).to.deep.equal([]);
  });

  for (const [problem, where, terms] of MALFORMED) {
    it(`names the problem ${problem}${where === "" ? "" : ` at ${where}`}`, async () => {
      const [part = "", code = ""] = problem.split(" ");
      const url = await sells(terms);
      const ran = await terminal().run("validate", url, "--json");
      const { level, about } = PROBLEMS[code as keyof typeof PROBLEMS];
      expect(ran.json().problems).to.deep.include({ level, part, code, where, about });
      expectCode(ran, level === "error" ? 1 : 0);
    });
  }

  it("has a malformed 402 for every problem", () => {
    const named = new Set(MALFORMED.map(([problem]) => problem.split(" ")[1]));
    expect(Object.keys(TERMS_PROBLEMS).filter((code) => !named.has(code))).to.deep.equal(["version_required"]);
  });

  it("pays nothing, and sends no credential", async () => {
    const seen = await serve(() => ({ status: 402, json: {} }));
    await terminal().run("validate", seen.url);
    expect(seen.seen).to.have.length(1);
    expect(Object.keys(seen.seen[0]?.headers ?? {})).not.to.include.members(["x-payment", "authorization"]);
  });
});
