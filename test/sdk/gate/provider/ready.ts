/** What `ready()` says of settings that would sell nothing. */
import { createServer, type RequestListener } from "node:http";
import { expect } from "chai";
import type { PricingEntry, Provider, ProviderOptions } from "turnpike/gate";
import type { TurnpikeError } from "turnpike/protocol";
import { createTestProvider } from "turnpike/testing";
import {
  closeServer,
  listen,
  ONE_TIME,
  type SmallFacilitator,
  SUPPORTED,
  startSmallFacilitator,
  TOKEN,
  testProvider,
} from "../../../support/gate";
import { until } from "../../../support/subscriptions";

describe("ready()", () => {
  let facilitator: SmallFacilitator;
  const warnings: string[] = [];
  const note = ({ name, message }: Error) => void warnings.push(`${name}: ${message}`);
  const ends: (() => Promise<unknown>)[] = [];

  before(async () => {
    facilitator = await startSmallFacilitator();
  });
  after(() => facilitator.stop());
  beforeEach(() => void process.on("warning", note));
  afterEach(async () => {
    process.off("warning", note);
    warnings.length = 0;
    facilitator.supported = SUPPORTED;
    for (const end of ends.splice(0).reverse()) await end();
  });

  const open = (more: ProviderOptions = {}): Provider => {
    const provider = testProvider(facilitator, more);
    ends.push(() => provider.close());
    return provider;
  };
  const at = (url: string, more: object = {}) => open({ facilitator: { url, signers: [facilitator.signer], ...more } });
  const outcome = (ready: Promise<void>) =>
    ready.then(
      () => "ready",
      (error: TurnpikeError) => `${error.code}: ${error.message}`,
    );
  async function serve(answer: RequestListener): Promise<string> {
    const server = createServer(answer);
    ends.push(() => closeServer(server));
    return listen(server);
  }

  it("refuses a Facilitator's URL that is the address of one of its routes, and asks for the base URL", async () => {
    for (const path of ["/settle", "/supported", "/api/x402"]) {
      const url = `${facilitator.url}${path}`;
      for (const ready of [at(url).ready(), at(url).gate({ pricing: ONE_TIME }).ready()]) {
        expect(await outcome(ready)).to.equal(
          `ConfigError: facilitator.url (TURNPIKE_FACILITATOR_URL) is ${url}, but GET ${url}/supported answered HTTP 404: no Facilitator is there. Set its base URL, such as ${facilitator.url}`,
        );
      }
    }
  });

  const noFacilitators: Record<string, [RequestListener, string]> = {
    "a web page": [
      (_, response) => void response.setHeader("content-type", "text/html").end("<html></html>"),
      "answered HTTP 200 without JSON",
    ],
    "a redirect": [(_, response) => void response.writeHead(302, { location: "/login" }).end(), "answered HTTP 302"],
    "JSON of another kind": [
      (_, response) => void response.setHeader("content-type", "application/json").end('{"ok":true}'),
      "answered HTTP 200: kinds is missing or malformed",
    ],
    "another API's 404": [
      (_, response) => void response.writeHead(404, { "content-type": "application/json" }).end("{}"),
      "answered HTTP 404",
    ],
    "a server that wants a password": [(_, response) => void response.writeHead(401).end(), "answered HTTP 401"],
  };
  for (const [name, [answer, said]] of Object.entries(noFacilitators)) {
    it(`refuses a server that is no Facilitator: ${name}`, async () => {
      const url = await serve(answer);
      const refused = await outcome(at(url).ready());
      expect(refused)
        .to.match(/^ConfigError: facilitator\.url /)
        .and.to.include(said)
        .and.to.include("base URL");
    });
  }

  it("still is ready during an outage: a 5xx, a 429, no answer", async () => {
    for (const status of [500, 502, 503, 429]) {
      const url = await serve((_, response) => void response.writeHead(status).end("<html>"));
      expect(await outcome(at(url).ready()), String(status)).to.equal("ready");
      await until(() => warnings.some((line) => line.includes(url) && line.includes(`HTTP ${status}`)));
    }
  });

  it("warns where another project's Facilitator has no GET /supported, and takes whatever JSON it answers", async () => {
    const url = await serve((request, response) => {
      if (request.url !== "/supported") return void response.writeHead(404).end();
      response.setHeader("content-type", "application/json").end('{"kinds":[]}');
    });
    expect(await outcome(at(url, { trustUnsigned: true, signers: [] }).ready())).to.equal("ready");
    expect(warnings.filter((line) => line.includes("/supported"))).to.deep.equal([]);
    expect(await outcome(at(`${url}/settle`, { trustUnsigned: true, signers: [] }).ready())).to.equal("ready");
    await until(() => warnings.some((line) => line.includes(`GET ${url}/settle/supported answered HTTP 404`)));
  });

  it("refuses any fixed price below the least that the Facilitator settles, beside computed ones too", async () => {
    const listed = { address: TOKEN, symbol: "TUSD", name: "Test USD", version: "1", decimals: 6, minAmount: "1000" };
    facilitator.supported = { ...SUPPORTED, tokens: [listed] };
    const low = { type: "one-time", amount: 999 } as const;
    const computed = { type: "one-time", amount: () => 5_000 } as const;
    const enough = { type: "one-time", amount: 1_000 } as const;
    for (const pricing of [[low], [computed, low], [enough, low]] as PricingEntry[][]) {
      const provider = open();
      const gate = provider.gate({ pricing });
      for (const ready of [gate.ready(), provider.ready()]) {
        expect(await outcome(ready)).to.match(/^ConfigError: a price of 999 base units can never be paid: .* 1000 of/);
      }
    }
    expect(
      await outcome(
        open()
          .gate({ pricing: [enough, computed] })
          .ready(),
      ),
    ).to.equal("ready");
  });

  it("warns of a route that sells nothing but deprecated plans, and names what to do", async () => {
    const test = createTestProvider();
    const { planId: old } = test.addPlan({ deprecated: true });
    const { planId: current } = test.addPlan({ planId: `0x${"5a".repeat(32)}` });
    ends.push(() => test.provider.close());
    const plan = (planId: string) => ({ type: "subscription", plan: planId }) as const;
    const warned = () => warnings.filter((line) => line.includes("deprecated"));
    await test.provider.gate({ pricing: [plan(old), plan(current)] }).ready();
    await test.provider.gate({ pricing: [plan(old), { type: "one-time", amount: 5_000 }] }).ready();
    const gate = test.provider.gate({ pricing: [plan(old)] });
    for (let i = 0; i < 2; i++) await gate.ready();
    await until(() => warned().length > 0);
    expect(warned()).to.have.length(1);
    expect(warned()[0]).to.include(old).and.to.include("add the plan that replaces it");
  });
});
