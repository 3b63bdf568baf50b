/** What a provider's OpenAPI document says of its routes: derived from what their 402s ask for. */
import { expect } from "chai";
import type { GateOptions, OpenApiDocument, Provider, ProviderOptions } from "turnpike/gate";
import { paymentMiddleware } from "turnpike/gate/express";
import { fetchGate } from "turnpike/gate/fetch";
import { ConfigError } from "turnpike/protocol";
import { createTestProvider } from "turnpike/testing";
import {
  addressOf,
  CHAIN_ID,
  OVER_PERMIT2,
  PAY_TO,
  type SmallFacilitator,
  SUPPORTED,
  startSmallFacilitator,
  TOKEN,
  testProvider,
} from "../../../support/gate";

/** As readers get it. */
const read = (document: object) => JSON.parse(JSON.stringify(document));

const NETWORK = `eip155:${CHAIN_ID}`;
const DOLLARS = { address: TOKEN, name: "Test USD", version: "1", decimals: 6, currency: "USD" } as const;
const INFO = { title: "Reports", version: "2.1.0" };
const own = (paths: object, more: object = {}): OpenApiDocument =>
  ({ openapi: "3.1.0", info: INFO, paths, ...more }) as OpenApiDocument;

describe("the OpenAPI document of a provider", () => {
  let facilitator: SmallFacilitator;
  const open: Provider[] = [];
  before(async () => {
    facilitator = await startSmallFacilitator();
  });
  beforeEach(() => {
    facilitator.supported = SUPPORTED;
  });
  after(async () => {
    for (const provider of open) await provider.close();
    await facilitator.stop();
  });

  function start(options: ProviderOptions = {}): Provider {
    const provider = testProvider(facilitator, { token: DOLLARS, ...options });
    open.push(provider);
    return provider;
  }

  async function documentOf(gates: readonly object[], options: ProviderOptions = {}, document?: OpenApiDocument) {
    const provider = start(options);
    for (const gate of gates) provider.gate(gate as GateOptions);
    return read(await provider.openApi(document).document());
  }

  const infoOf = async (pricing: readonly object[], options: ProviderOptions = {}, more: object = {}) => {
    const gate = { pricing, discovery: { method: "GET", path: "/report" }, ...more };
    const { paths } = await documentOf([gate], options);
    return paths["/report"].get["x-payment-info"];
  };

  const dollars = { type: "one-time", price: "$0.05" } as const;
  const accept = { scheme: "exact", network: NETWORK, asset: TOKEN, payTo: PAY_TO, amount: "50000" };

  describe("states prices", () => {
    it("that are fixed, by x402 alone where nothing else is sold", async () => {
      expect(await infoOf([dollars])).to.deep.equal({
        price: { mode: "fixed", currency: "USD", amount: "0.05" },
        protocols: [{ x402: { accepts: [accept] } }],
      });
    });

    it("by MPP too where it is sold, in both conventions at once", async () => {
      expect(await infoOf([dollars], { mpp: "Authorization" })).to.deep.equal({
        price: { mode: "fixed", currency: "USD", amount: "0.05" },
        protocols: [{ x402: { accepts: [accept] } }, { mpp: { method: "evm", intent: "charge", currency: TOKEN } }],
        offers: [{ intent: "charge", method: "evm", amount: "50000", currency: TOKEN }],
      });
    });

    it("that depend on the request as dynamic, without a figure", async () => {
      const info = await infoOf([{ type: "one-time", price: () => "$0.05" }], { mpp: "Authorization" });
      const { amount: _amount, ...unpriced } = accept;
      expect(info).to.deep.equal({
        price: { mode: "dynamic" },
        protocols: [{ x402: { accepts: [unpriced] } }, { mpp: { method: "evm", intent: "charge", currency: TOKEN } }],
        offers: [{ intent: "charge", method: "evm", amount: null, currency: TOKEN }],
      });
    });

    it("that are as used from nothing to their maximum, and never by MPP, which cannot sell them", async () => {
      facilitator.supported = OVER_PERMIT2;
      expect(await infoOf([{ type: "upto", max: "$0.50" }], { mpp: "Authorization" })).to.deep.equal({
        price: { mode: "dynamic", currency: "USD", min: "0.00", max: "0.50" },
        protocols: [{ x402: { accepts: [{ ...accept, scheme: "upto", amount: "500000" }] } }],
      });
    });

    it("of several tokens as a range of those that are worth a dollar", async () => {
      const other = { address: addressOf("other token"), name: "Other", version: "1", decimals: 18 };
      const prices = [
        { price: "$0.05" },
        { price: "$0.0475", token: { ...other, address: addressOf("dollars"), currency: "USD" } },
        { amount: 7n, token: other },
      ];
      const info = await infoOf([{ type: "one-time", prices }]);
      expect(info.price).to.deep.equal({ mode: "dynamic", currency: "USD", min: "0.0475", max: "0.05" });
      const { accepts } = info.protocols[0].x402;
      expect(accepts.map(({ amount }: { amount: string }) => amount)).to.deep.equal([
        "7",
        "47500000000000000",
        "50000",
      ]);
    });

    it("in no token of a known worth without a figure that would be taken for dollars", async () => {
      const { currency: _currency, ...unknown } = DOLLARS;
      const info = await infoOf([{ type: "one-time", amount: 50_000n }], { token: unknown });
      expect(info.price).to.deep.equal({ mode: "dynamic" });
      expect(info.protocols).to.deep.equal([{ x402: { accepts: [accept] } }]);
    });

    it("of plans under their own name: one payment buys no request there", async () => {
      const { provider, addPlan } = createTestProvider();
      const { planId } = addPlan({ price: 9_000_000, intervalSec: 3_600 } as never);
      const plan = { type: "subscription", plan: planId } as const;
      provider.gate({ pricing: [plan], metered: true, discovery: { path: "/plan", method: "GET" } });
      provider.gate({ pricing: [plan], sellSingleAtPlanPrice: true, discovery: { path: "/both", method: "GET" } });
      const { paths } = read(await provider.openApi().document());
      const [only, both] = ["/plan", "/both"].map((path) => paths[path].get["x-payment-info"]);
      expect(only.price).to.deep.equal({ mode: "dynamic" });
      const [listed] = only.protocols;
      expect(listed.turnpike.plans[0]).to.deep.include({ planId, metered: true, network: NETWORK });
      expect(both.price).to.have.property("mode", "fixed");
      expect(both.protocols.map((each: object) => Object.keys(each)[0])).to.deep.equal(["x402", "turnpike"]);
    });

    it("not at all of a gate whose place is not known", async () => {
      const document = await documentOf([
        { pricing: [dollars] },
        { pricing: [dollars], discovery: { queryParams: {} } },
      ]);
      expect(document.paths).to.deep.equal({});
    });
  });

  it("names no setting that is not public", async () => {
    const { url, signer } = facilitator;
    const document = await documentOf([{ pricing: [dollars], discovery: { path: "/report" } }], {
      publicUrl: "https://api.example/v1/",
      facilitator: { url, signers: [signer], refundsKey: "key-of-refunds" },
    });
    expect(JSON.stringify(document)).to.not.match(new RegExp(`127\\.0\\.0\\.1|of this test|key-of-refunds|${signer}`));
  });

  describe("writes paths", () => {
    for (const [path, template] of [
      ["/users/:id", "/users/{id}"],
      ["/users/[id]/files/[...rest]", "/users/{id}/files/{rest}"],
      ["/files/*", "/files/{path}"],
      ["/files/*name/", "/files/{name}"],
      ["/trips/:from-:via/:from", "/trips/{from}-{via}/{from2}"],
      ["*", "/{path}"],
      ["/", "/"],
    ] as const) {
      it(`${path} as ${template}`, async () => {
        const { paths } = await documentOf([{ pricing: [dollars], discovery: { path, method: "GET" } }]);
        expect(Object.keys(paths)).to.deep.equal([template]);
        const { parameters = [] } = paths[template].get;
        const names = [...template.matchAll(/\{(\w+)\}/g)].map(([, name]) => name);
        expect(parameters.map(({ name }: { name: string }) => name)).to.deep.equal(names);
        for (const parameter of parameters)
          expect(parameter).to.deep.include({ in: "path", required: true, schema: { type: "string" } });
      });
    }

    it("below the server of the application's document, or of publicUrl", async () => {
      const gate = { pricing: [dollars], discovery: { path: "/v1/report", method: "GET" } };
      const at = async (options: ProviderOptions, servers?: readonly object[]) => {
        const document = await documentOf([gate], options, servers && own({}, { servers }));
        return [document.servers, Object.keys(document.paths)];
      };
      const own1 = [{ url: "https://api.example/v1/" }];
      const templated = [{ url: "https://{host}/{base}", variables: { base: { default: "v1" } } }];
      expect(await at({})).to.deep.equal([undefined, ["/v1/report"]]);
      expect(await at({}, own1)).to.deep.equal([own1, ["/report"]]);
      expect(await at({}, templated)).to.deep.equal([templated, ["/report"]]);
      expect(await at({ publicUrl: "https://api.example/shop/" })).to.deep.equal([
        [{ url: "https://api.example/shop" }],
        ["/v1/report"],
      ]);
      expect(await at({ publicUrl: "https://api.example/shop" }, [{ url: "/shop/v1" }])).to.deep.equal([
        [{ url: "/shop/v1" }],
        ["/report"],
      ]);
    });

    it("of paymentMiddleware by their patterns, without what an earlier one decides on", async () => {
      const provider = start();
      const cost = { accepts: { price: "$0.05" } } as const;
      paymentMiddleware(
        {
          "GET /users/*": cost,
          "GET /users/:id": { accepts: { price: "$9.00" } },
          "POST /users/:id": cost,
          "GET /files/*": cost,
          "GET /files/dear/:id": { accepts: { price: "$9.00" } },
          "QUERY /search": cost,
          "/any": cost,
          "GET /api/dear": { ...cost, discovery: { path: "/mounted/api/dear", method: "GET" } },
        },
        { provider },
      );
      const { paths } = read(await provider.openApi().document());
      expect(Object.entries<object>(paths).map(([path, item]) => [path, Object.keys(item)])).to.deep.equal([
        // One path, however OpenAPI names its parameter.
        ["/users/{path}", ["get", "post"]],
        ["/files/{path}", ["get"]],
        ["/any", ["get"]],
        ["/mounted/api/dear", ["get"]],
      ]);
    });
  });

  it("of the application's own operations under a pattern of paymentMiddleware, each at the price that decides there", async () => {
    const provider = start();
    const at = (price: string) => ({ accepts: { price } }) as never;
    paymentMiddleware(
      {
        "GET /api/dear/:id": at("$9.00"),
        "GET /api/*": at("$0.05"),
        "/any/*": at("$0.01"),
        "POST /up/:id": at("$0.02"),
        "GET /x": at("$0.03"),
        "GET /:page": at("$0.04"),
      },
      { provider },
    );
    provider.gate({ pricing: [dollars], discovery: { path: "/mounted/:id", method: "GET" } } as GateOptions);
    const operation = { responses: {} };
    const asked = {
      "/api/weather": { get: operation, post: operation },
      "/api/dear/{id}": { get: operation },
      "/API/{city}/now": { get: operation, head: operation },
      "/any/thing": { put: operation, delete: operation },
      "/up/a/b": { post: operation },
      "/mounted/free": { get: operation },
      "/not/sold": { get: operation },
    };
    const { paths } = read(await provider.openApi(own(asked)).document());
    const prices = Object.entries<Record<string, Record<string, { price: { amount: string } }>>>(paths).map(
      ([path, item]) => [
        path,
        Object.entries(item).map(([method, each]) => [method, each["x-payment-info"]?.price.amount]),
      ],
    );
    expect(Object.fromEntries(prices)).to.deep.equal({
      "/api/weather": [
        ["get", "0.05"],
        ["post", undefined],
      ],
      "/api/dear/{id}": [["get", "9.00"]],
      "/API/{city}/now": [
        ["get", "0.05"],
        ["head", "0.05"],
      ],
      "/any/thing": [
        ["put", "0.01"],
        ["delete", "0.01"],
      ],
      "/up/a/b": [["post", undefined]],
      // Its application may have mounted that one before the gate.
      "/mounted/free": [["get", undefined]],
      "/not/sold": [["get", undefined]],
      "/api/{path}": [["get", "0.05"]],
      "/any/{path}": [["get", "0.01"]],
      "/up/{id}": [["post", "0.02"]],
      "/x": [["get", "0.03"]],
      "/{page}": [["get", "0.04"]],
      "/mounted/{id}": [["get", "0.05"]],
    });
  });

  it("describes a route's call by its discovery, where the application does not", async () => {
    const gate = {
      pricing: [dollars],
      description: "Draws a picture",
      discovery: {
        ...{ path: "/draw/:style", queryParams: { size: 3 }, body: { prompt: "a cat", tags: ["x"] } },
        output: { example: { url: "https://cdn.example/1.png" } },
      },
    };
    const { paths } = await documentOf([gate]);
    const { "x-payment-info": _info, ...operation } = paths["/draw/{style}"].post;
    expect(operation).to.deep.equal({
      summary: "Draws a picture",
      security: [],
      parameters: [
        { name: "style", in: "path", required: true, schema: { type: "string" } },
        { name: "size", in: "query", schema: { type: "number" }, example: 3 },
      ],
      requestBody: {
        required: true,
        content: {
          "application/json": {
            schema: {
              type: "object",
              properties: { prompt: { type: "string" }, tags: { type: "array", items: { type: "string" } } },
            },
            example: { prompt: "a cat", tags: ["x"] },
          },
        },
      },
      responses: {
        "200": {
          description: "Success",
          content: {
            "application/json": {
              schema: { type: "object", properties: { url: { type: "string" } } },
              example: { url: "https://cdn.example/1.png" },
            },
          },
        },
        "402": { description: "Payment Required" },
      },
    });
  });

  describe("merges into the application's document", () => {
    const report = { path: "/users/:id/report", method: "GET" };

    it("adding a price and a 402 to its operation, under its own name of the path", async () => {
      const operation = { operationId: "report", responses: { "200": { description: "The report" } }, "x-own": [1] };
      const item = {
        summary: "Of a user",
        parameters: [{ name: "userId", in: "path" }],
        get: operation,
        post: { x: 1 },
      };
      const free = { "/free": { get: { "x-payment-info": "of another gate" } }, "x-paths": null };
      const document = own({ "/users/{userId}/report": item, ...free }, { "x-service-info": { categories: ["data"] } });
      const before = structuredClone(document);
      const made = await documentOf([{ pricing: [dollars], discovery: report }], {}, document);
      const { "x-payment-info": info, ...priced } = made.paths["/users/{userId}/report"].get;
      expect(info).to.have.property("price");
      expect(priced).to.deep.equal({
        ...operation,
        responses: { ...operation.responses, "402": { description: "Payment Required" } },
      });
      expect({ ...made, paths: { ...made.paths, "/users/{userId}/report": item } }).to.deep.equal(before);
      expect(document).to.deep.equal(before);
    });

    it("keeping a 402 of its own, and its security", async () => {
      const responses = { "402": { $ref: "#/components/responses/Pay" }, default: { description: "Otherwise" } };
      const document = own({ "/a": { get: { responses } } }, { security: [{ key: [] }] });
      const gates = ["/a", "/b"].map((path) => ({ pricing: [dollars], discovery: { path, method: "GET" } }));
      const { paths } = await documentOf(gates, {}, document);
      expect(paths["/a"].get.responses).to.deep.equal(responses);
      expect(paths["/b"].get).to.not.have.property("security");
    });

    it("pricing every operation of a path whose gate names no method", async () => {
      const document = own({ "/a": { put: {}, delete: {} } });
      const { paths } = await documentOf([{ pricing: [dollars], discovery: { path: "/a" } }], {}, document);
      expect(Object.entries<object>(paths["/a"]).map(([name, each]) => [name, "x-payment-info" in each])).to.deep.equal(
        [
          ["put", true],
          ["delete", true],
        ],
      );
    });

    it("also of another provider, whose prices it keeps", async () => {
      const first = await documentOf([{ pricing: [dollars], discovery: { path: "/a", method: "GET" } }]);
      const gate = { pricing: [dollars], discovery: { path: "/b", method: "GET" } };
      const second = await documentOf([gate], {}, first as never);
      expect(Object.keys(second.paths)).to.deep.equal(["/a", "/b"]);
      expect(second.paths["/a"]).to.deep.equal(first.paths["/a"]);
    });

    it("whatever the names in it are", async () => {
      const odd = JSON.parse(
        '{"/constructor": {"get": {"__proto__": {"x": 1}}}, "/__proto__": {}, "x-y": 1}',
      ) as object;
      const gates = ["/constructor", "/__proto__"].map((path) => ({
        pricing: [dollars],
        discovery: { path, method: "GET" },
      }));
      const { paths } = await documentOf(gates, {}, own(odd));
      expect(JSON.stringify(paths["/constructor"])).to.include('"__proto__":{"x":1}');
      expect(paths["/__proto__"].get).to.have.property("x-payment-info");
      expect({}).to.not.have.property("x");
    });

    for (const [what, document, message] of [
      [
        "a price of its own",
        own({ "/a": { get: { "x-payment-info": {} } } }),
        /^document\.paths\["\/a"\]\["get"\]\["x-payment-info"\] is set, .*: remove it$/,
      ],
      [
        "a reference in place of operations",
        own({ "/a": { $ref: "#/x" } }),
        /^document\.paths\["\/a"\]\["\$ref"\] is in the way/,
      ],
      [
        "responses that are none",
        own({ "/a": { get: { responses: [] } } }),
        /^document\.paths\["\/a"\]\["get"\]\.responses is no object/,
      ],
      [
        "a server beside the route",
        own({}, { servers: [{ url: "https://api.example/v2" }] }),
        /^document\.servers\[0\]\.url begins with the path \/v2, and the route \/a is not below it: set discovery\.path/,
      ],
    ] as const) {
      it(`refusing ${what}, by name`, async () => {
        const error: unknown = await documentOf(
          [{ pricing: [dollars], discovery: { path: "/a", method: "GET" } }],
          {},
          document,
        ).catch((thrown: unknown) => thrown);
        expect(error).to.be.instanceOf(ConfigError);
        expect((error as Error).message).to.match(message);
      });
    }

    const cyclic: Record<string, unknown> = { ...own({}) };
    cyclic["x-self"] = cyclic;
    const unreadable = Object.defineProperty({ ...own({}) }, "x-own", {
      enumerable: true,
      get() {
        throw new Error("no such file");
      },
    });
    for (const [what, document, message] of [
      ["a list", [], /^document is a list/],
      ["Swagger 2", { swagger: "2.0", info: INFO }, /^document\.openapi is undefined: convert/],
      ["another version", { ...own({}), openapi: "2.0" }, /^document\.openapi is "2\.0"/],
      ["no title", { ...own({}), info: { version: "1" } }, /^document\.info\.title is no text/],
      ["paths in a list", { ...own({}), paths: [] }, /^document\.paths is no object/],
      ["a path without operations", own({ "/a": null }), /^document\.paths\["\/a"\] is no object/],
      ["an operation that is none", own({ "/a": { get: [] } }), /^document\.paths\["\/a"\]\["get"\] is no object/],
      ["servers that are none", own({}, { servers: {} }), /^document\.servers is no list/],
      ["what is within itself", cyclic, /^document is no JSON/],
      ["a bigint", own({}, { "x-price": 1n }), /^document is no JSON: .*BigInt/],
      ["what cannot be read", unreadable, /^document is no JSON: no such file/],
    ] as const) {
      it(`refusing ${what} where it is passed`, () => {
        expect(() => start().openApi(document as never)).to.throw(ConfigError, message);
      });
    }
  });

  for (const [what, discovery, message] of [
    ["a method without a path", { method: "GET" }, /^discovery\.method is set without discovery\.path/],
    ["a method that OpenAPI lacks", { method: "QUERY", path: "/a" }, /^discovery\.method is "QUERY"/],
    [
      "a path of another notation",
      { path: "/users/{id}" },
      /^discovery\.path "\/users\/\{id\}" has what is no plain path/,
    ],
    ["a path that is none", { path: "users" }, /^discovery\.path "users" must have a path/],
    ["a path that is no text", { path: 5 }, /^discovery\.path is /],
    ["a misspelt field", { pth: "/a" }, /^discovery has pth/],
  ] as const) {
    it(`refuses ${what} at start-up`, () => {
      const gate = { pricing: [dollars], discovery } as unknown as GateOptions;
      expect(() => start().gate(gate)).to.throw(ConfigError, message);
    });
  }

  it("changes no 402: where a gate is, is no extension", async () => {
    const { provider } = createTestProvider();
    const headerOf = async (discovery?: object) => {
      const gate = provider.gate({ pricing: [dollars], ...(discovery && { discovery }) } as GateOptions);
      const answer = await fetchGate(gate)(() => new Response())(new Request("http://localhost/report"));
      const text = Buffer.from(answer.headers.get("payment-required") ?? "", "base64").toString();
      return Object.keys((JSON.parse(text) as { extensions: object }).extensions);
    };
    expect(await headerOf({ path: "/report", method: "GET" })).to.deep.equal(await headerOf());
    expect(await headerOf({ path: "/report", queryParams: {} })).to.include("bazaar");
  });
});
