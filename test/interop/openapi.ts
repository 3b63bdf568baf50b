import { createServer } from "node:http";
import { expect } from "chai";
import { createProvider, type GateOptions, type Provider } from "turnpike/gate";
import { paymentGate } from "turnpike/gate/node";
import { closeServer, listen, type SmallFacilitator, startSmallFacilitator, TOKEN, testOptions } from "../support/gate";
import { type AgentcashWarning, agentcash, mppx } from "./support/stock";

const DOLLARS = { address: TOKEN, name: "Test USD", version: "1", decimals: 6, currency: "USD" } as const;

const PRICES = {
  "/fixed": { price: "$0.05" },
  "/computed": { price: () => "$0.05" },
  "/tokens": {
    pricing: [
      {
        type: "one-time",
        prices: [{ price: "$0.05" }, { price: "$0.07", token: { ...DOLLARS, address: `0x${"71".repeat(20)}` } }],
      },
    ],
  },
  "/users/:id": { price: "$1.00" },
} as const;

/** What a gate serves at /openapi.json, as the two readers in use judge it. */
describe("interop > /openapi.json", () => {
  let facilitator: SmallFacilitator;
  let provider: Provider;
  let url: string;
  const stops: (() => Promise<unknown>)[] = [];

  before(async () => {
    facilitator = await startSmallFacilitator();
    provider = createProvider(testOptions(facilitator, { token: DOLLARS, mpp: "Authorization" }));
    for (const [path, gate] of Object.entries(PRICES)) {
      const discovery = { method: "GET", path, queryParams: { q: "x" } };
      provider.gate({ ...gate, discovery } as unknown as GateOptions);
    }
    const contact = { email: "team@shop.example" };
    const document = { openapi: "3.1.0", info: { title: "Shop", version: "1.0.0", contact } };
    const handler = provider.openApi(document);
    const fixed = paymentGate({ provider, ...PRICES["/fixed"] });
    const server = createServer((request, response) => {
      if (request.url === "/openapi.json") void handler(request, response);
      else void fixed(request, response, () => response.end("{}"));
    });
    url = await listen(server);
    stops.push(
      () => closeServer(server),
      () => provider.close(),
      () => facilitator.stop(),
    );
  });
  after(async () => {
    for (const stop of stops) await stop();
  });

  it("has no fault for mppx", async () => {
    const document: unknown = await (await fetch(`${url}/openapi.json`)).json();
    expect(mppx.discovery().validate(document)).to.deep.equal([]);
    const broken = JSON.parse(JSON.stringify(document)) as { paths: Record<string, { get: Record<string, object> }> };
    Object.assign(broken.paths["/fixed"]?.get["x-payment-info"] ?? {}, { amount: "1" });
    expect(mppx.discovery().validate(broken)).to.have.length(1);
  });

  it("lists every route for @agentcash/discovery, whose only warning is of prices without bounds", async () => {
    const { discoverOriginSchema, getOpenAPI, checkL2ForOpenAPI, getWarningsForOpenAPI, getWarningsForL2 } =
      agentcash();
    const found = await discoverOriginSchema({ target: url });
    expect(
      found.endpoints?.map(({ method, path, authMode, price, protocols }) => ({
        method,
        path,
        authMode,
        price,
        protocols,
      })),
    ).to.deep.equal(
      [
        ["/fixed", "0.05 USD"],
        ["/computed", undefined],
        ["/tokens", "0.05-0.07 USD"],
        ["/users/{id}", "1.00 USD"],
      ].map(([path, price]) => ({
        method: "GET",
        path,
        authMode: "paid",
        price,
        protocols: ["x402", "mpp", ...(path === "/tokens" ? ["mpp"] : [])],
      })),
    );
    const source = (await getOpenAPI(url)).unwrapOr(null);
    const warnings: AgentcashWarning[] = [
      ...getWarningsForOpenAPI(source),
      ...getWarningsForL2(checkL2ForOpenAPI(source)),
    ];
    expect(warnings.map(({ code, path }) => [code, path])).to.deep.equal([
      ["L2_DYNAMIC_PRICE_INCOMPLETE", "/computed"],
    ]);
  });

  it("agrees with the 402 that @agentcash/discovery gets of a route", async () => {
    const { checkEndpointSchema, getWarningsForL3 } = agentcash();
    const stated = await checkEndpointSchema({ url: `${url}/fixed` });
    expect(stated.advisories?.map(({ method, estimatedPrice }) => [method, estimatedPrice])).to.deep.equal([
      ["GET", "0.05 USD"],
    ]);
    for (const advisory of stated.advisories ?? []) expect(getWarningsForL3(advisory)).to.deep.equal([]);
    const probed = await checkEndpointSchema({ url: `${url}/fixed`, probe: true });
    const amounts = probed.advisories
      ?.find(({ method }) => method === "GET")
      ?.paymentOptions?.map(({ amount }) => amount);
    expect(new Set(amounts)).to.deep.equal(new Set(["50000"]));
  });
});
