/** `validate` of servers that sell by MPP: alone, and beside x402. */
import { expect } from "chai";
import { encodeJsonHeader, systemClock } from "turnpike/protocol";
import { MPP_PROBLEMS, PROBLEMS } from "../../../sdk/src/cli/validate/problem";
import { FRAMEWORKS, ONE_TIME, RESERVING, startSmallFacilitator, testProvider } from "../../support/gate";
import { closeAll, serve } from "../agent/support/servers";
import { expectCode, removeTerminals, terminal } from "./support/run";

const USDC = "0x036CbD53842c5426634e7929541eC2318f3dCF7e";
const PAYEE = "0x1111111111111111111111111111111111111111";

interface Change {
  readonly parameters?: Readonly<Record<string, string | undefined>>;
  readonly request?: object;
  readonly details?: object;
}

const encoded = (value: unknown) => Buffer.from(JSON.stringify(value)).toString("base64url");

/** A challenge for 0.05 USDC on Base Sepolia. */
function challenge({ parameters, request, details }: Change = {}): string {
  const methodDetails = { chainId: 84_532, credentialTypes: ["authorization"], decimals: 6, ...details };
  const all = {
    id: "one",
    realm: "api.example",
    method: "evm",
    intent: "charge",
    request: encoded({ amount: "50000", currency: USDC, recipient: PAYEE, methodDetails, ...request }),
    expires: "2999-01-01T00:00:00Z",
    ...parameters,
  };
  const named = Object.entries(all).filter(([, value]) => value !== undefined);
  return `Payment ${named.map(([name, value]) => `${name}="${value}"`).join(", ")}`;
}

const DETAILS = "request.methodDetails";

/** The problem of each malformed challenge, and where it is in it. */
const MALFORMED: readonly (readonly [code: string, where: string, change: Change])[] = [
  ["challenge", "", { parameters: { id: undefined } }],
  ["challenge", "", { parameters: { ID: "another" } }],
  ["unknown_method", ".method", { parameters: { method: "tempo" } }],
  ["unknown_method", ".method", { parameters: { intent: "session" } }],
  ["request", ".request", { parameters: { request: "50000" } }],
  ["request", `.${DETAILS}`, { request: { methodDetails: undefined } }],
  ["amount", ".request.amount", { request: { amount: 50_000 } }],
  ["zero_amount", ".request.amount", { request: { amount: "0" } }],
  ["asset", ".request.currency", { request: { currency: "usd" } }],
  ["pay_to", ".request.recipient", { request: { recipient: undefined } }],
  ["checksum", ".request.currency", { request: { currency: USDC.replace("eC", "Ec") } }],
  ["chain_id", `.${DETAILS}.chainId`, { details: { chainId: "84532" } }],
  ["unknown_token", ".request.currency", { details: { chainId: 8_453 } }],
  ["decimals", `.${DETAILS}.decimals`, { details: { decimals: 18 } }],
  ["credential_types", `.${DETAILS}.credentialTypes`, { details: { credentialTypes: undefined } }],
  ["credential_types", `.${DETAILS}.credentialTypes`, { details: { credentialTypes: ["transaction"] } }],
  ["splits", `.${DETAILS}.splits`, { details: { splits: [] } }],
  ["expires", ".expires", { parameters: { expires: "tomorrow" } }],
  ["expired", ".expires", { parameters: { expires: "2026-01-01T00:00:00Z" } }],
  ["credential_header", ".header", { parameters: { header: "X-Payment" } }],
];

describe("command line > validate > MPP", () => {
  const stops: { stop(): Promise<void> }[] = [];
  afterEach(async () => {
    removeTerminals();
    await closeAll();
    for (const each of stops.splice(0)) await each.stop();
  });

  /** A server whose 402 has this in WWW-Authenticate, and a page as its body. */
  async function sells(authenticate: string): Promise<string> {
    const headers = { "cache-control": "no-store", "www-authenticate": authenticate };
    return (await serve(() => ({ status: 402, json: "<h1>Pay</h1>", headers }))).url;
  }

  const validate = async (url: string, ...flags: string[]) => terminal().run("validate", url, "--json", ...flags);

  it("finds nothing wrong with a well-formed challenge alone, beside one of another scheme", async () => {
    const url = await sells(`Bearer, ${challenge()}`);
    const ran = await validate(url, "--require", "mpp");
    expectCode(ran, 0);
    const { versions, problems } = ran.json();
    expect({ versions, problems }).to.deep.equal({
      versions: { v1: "absent", v2: "absent", mpp: "valid" },
      problems: [],
    });
    expectCode(await validate(url, "--require", "v2"), 1);
    const shown = await terminal().run("validate", url);
    expect(shown.out).to.include("HTTP 402, v1 absent, v2 absent, mpp valid");
  });

  it("reports both dialects of this project's own gate", async () => {
    const facilitator = await startSmallFacilitator();
    facilitator.supported = RESERVING;
    const provider = testProvider(facilitator, { mpp: "Authorization", clock: systemClock });
    const server = await FRAMEWORKS.express(provider, [{ path: "/report", gate: { pricing: ONE_TIME } }]);
    stops.push(server, facilitator, { stop: () => provider.close() });
    await provider.ready();
    const ran = await validate(`${server.url}/report`, "--require", "v1,v2,mpp");
    expectCode(ran, 0);
    const { versions, problems } = ran.json();
    expect(versions).to.deep.equal({ v1: "valid", v2: "valid", mpp: "valid" });
    // Nobody knows the test network, nor its token.
    const unknown = ["unknown_network", "unknown_token"];
    expect(problems.filter(({ code }: { code: string }) => !unknown.includes(code))).to.deep.equal([]);
  });

  for (const [code, where, change] of MALFORMED) {
    it(`names the problem ${code}${where === "" ? "" : ` at ${where.slice(1)}`}`, async () => {
      const ran = await validate(await sells(`${challenge()}, ${challenge(change)}`));
      const { level, about } = PROBLEMS[code as keyof typeof PROBLEMS];
      expect(ran.json().problems).to.deep.equal([{ level, part: "mpp", code, where: `challenges[1]${where}`, about }]);
      expect(ran.json().versions.mpp).to.equal(level === "error" ? "invalid" : "valid");
      expectCode(ran, level === "error" ? 1 : 0);
    });
  }

  it("has a malformed challenge for every problem", () => {
    const named = new Set(MALFORMED.map(([code]) => code));
    expect(Object.keys(MPP_PROBLEMS).filter((code) => !named.has(code))).to.deep.equal([]);
  });

  it("names the problem challenge where the scheme has no parameters", async () => {
    const ran = await validate(await sells("Payment"));
    const { versions, problems } = ran.json();
    expect([versions.mpp, problems.map(({ code }: { code: string }) => code)]).to.deep.equal([
      "invalid",
      ["challenge"],
    ]);
    expectCode(ran, 1);
  });

  for (const amount of ["50000", "49999"]) {
    it(`${amount === "50000" ? "accepts" : "refuses"} x402 terms of ${amount} beside a challenge of 50000`, async () => {
      const entry = { scheme: "exact", network: "eip155:84532", amount, asset: USDC, payTo: PAYEE };
      let url = "";
      const { url: own } = await serve(() => ({
        status: 402,
        json: {},
        headers: {
          "cache-control": "no-store",
          "www-authenticate": challenge(),
          "payment-required": encodeJsonHeader({
            x402Version: 2,
            resource: { url },
            accepts: [{ ...entry, maxTimeoutSeconds: 60, extra: { name: "USDC", version: "2" } }],
          }),
        },
      }));
      url = `${own}/quote`;
      const { versions, problems } = (await validate(url)).json();
      expect(versions).to.deep.equal({ v1: "absent", v2: "valid", mpp: "valid" });
      const codes = problems.map(({ code }: { code: string }) => code);
      expect(codes).to.deep.equal(amount === "50000" ? [] : ["versions_disagree"]);
    });
  }

  it("compares the prices of a site's document with those of its challenges", async () => {
    const priced = (amount: string) => ({
      get: {
        responses: { "402": { description: "Payment Required" } },
        "x-payment-info": { price: { mode: "fixed", currency: "USD", amount }, protocols: [{ mpp: {} }] },
      },
    });
    const document = {
      openapi: "3.1.0",
      info: { title: "Site", version: "1" },
      paths: { "/a": priced("0.05"), "/b": priced("0.04") },
    };
    const headers = { "cache-control": "no-store", "www-authenticate": challenge() };
    const { url } = await serve((seen) =>
      seen.url === "/openapi.json" ? { status: 200, json: document } : { status: 402, json: {}, headers },
    );
    const ran = await validate(url, "--openapi", "--require", "mpp");
    expect(ran.json().problems.map(({ code, where }: Record<string, string>) => [code, where])).to.deep.equal([
      ["price_disagrees", "GET /b.price"],
    ]);
    const shown = await terminal().run("validate", url, "--openapi");
    expect(shown.out).to.include("GET /a: 0.05 USD, mpp, HTTP 402, mpp valid");
  });

  it("refuses to require MPP of an MCP server", async () => {
    expectCode(await terminal().run("validate", "https://api.example/mcp", "--mcp", "--require", "mpp"), 2);
  });
});
