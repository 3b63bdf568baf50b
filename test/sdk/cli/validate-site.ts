/** `validate --openapi`: a site's document, and whether the 402 of each priced operation agrees with it. */
import { createServer, type Server } from "node:http";
import { expect } from "chai";
import { paymentGate } from "turnpike/gate/node";
import { encodeJsonHeader } from "turnpike/protocol";
import { createTestProvider } from "turnpike/testing";
import { OPENAPI_PROBLEMS } from "../../../sdk/src/cli/validate/problem";
import { closeServer, listen } from "../../support/gate";
import { type Answer, closeAll, type Seen, serve } from "../agent/support/servers";
import { expectCode, removeTerminals, terminal } from "./support/run";

const USDC = "0x036CbD53842c5426634e7929541eC2318f3dCF7e";
const PAYEE = "0x1111111111111111111111111111111111111111";

const ENTRY = {
  ...{ scheme: "exact", network: "eip155:84532", amount: "50000", asset: USDC, payTo: PAYEE, maxTimeoutSeconds: 60 },
  extra: { name: "USDC", version: "2" },
};

const accepts = (more: object = {}) => ({
  protocols: [
    {
      x402: {
        accepts: [{ scheme: "exact", network: "eip155:84532", asset: USDC, payTo: PAYEE, amount: "50000", ...more }],
      },
    },
  ],
});

const FIXED = { mode: "fixed", currency: "USD", amount: "0.05" };

const PAID = { responses: { "402": { description: "Payment Required" } } };

const operation = (info: unknown, more: object = {}) => ({ ...PAID, "x-payment-info": info, ...more });

const documentOf = (paths: object, more: object = {}) => ({
  openapi: "3.1.0",
  info: { title: "Site", version: "1" },
  paths,
  ...more,
});

/** A 402 of version 2 for whatever was asked, at 0.05 USDC. */
const sells = ({ headers, url }: Seen): Answer => ({
  status: 402,
  json: {},
  headers: {
    "cache-control": "no-store",
    "payment-required": encodeJsonHeader({
      x402Version: 2,
      resource: { url: `http://${headers.host}${url}` },
      accepts: [ENTRY],
    }),
  },
});

/** What is wrong with each document, and where. */
const WRONG: readonly (readonly [code: string, where: string, document: unknown])[] = [
  ["no_document", "", "<h1>Not here</h1>"],
  ["no_document", "", { swagger: "2.0", paths: {} }],
  ["no_price", "", documentOf({ "/free": { get: PAID } })],
  ["payment_info", "GET /a", documentOf({ "/a": { get: operation("0.05") } })],
  ["payment_info", "GET /a.price", documentOf({ "/a": { get: operation({ price: { mode: "fixed", amount: 5 } }) } })],
  ["payment_info", "GET /a.price", documentOf({ "/a": { get: operation({ price: { mode: "dynamic", max: "-1" } }) } })],
  ["payment_info", "GET /a.offers", documentOf({ "/a": { get: operation({ offers: [], price: FIXED }) } })],
  [
    "payment_info",
    "GET /a.offers",
    documentOf({
      "/a": { get: operation({ offers: [{ intent: "charge", method: "evm", amount: "1" }], amount: "1" }) },
    }),
  ],
  [
    "payment_info",
    "GET /a.offers[0]",
    documentOf({ "/a": { get: operation({ offers: [{ intent: "charge", method: "evm", amount: "01" }] }) } }),
  ],
  ["no_402", "GET /a", documentOf({ "/a": { get: { "x-payment-info": { price: FIXED } } } })],
  [
    "price_disagrees",
    "GET /a.price",
    documentOf({ "/a": { get: operation({ price: { ...FIXED, amount: "0.01" } }) } }),
  ],
  [
    "price_disagrees",
    "GET /a.price",
    documentOf({ "/a": { get: operation({ price: { mode: "dynamic", min: "0.051" } }) } }),
  ],
  ["price_disagrees", "GET /a.x402.accepts[0]", documentOf({ "/a": { get: operation(accepts({ amount: "49999" })) } })],
  ["price_disagrees", "GET /a.x402.accepts[0]", documentOf({ "/a": { get: operation(accepts({ payTo: USDC })) } })],
  [
    "price_disagrees",
    "GET /a.offers[0]",
    documentOf({
      "/a": { get: operation({ offers: [{ intent: "charge", method: "evm", amount: "7", currency: USDC }] }) },
    }),
  ],
  [
    "other_origin",
    "GET /a",
    documentOf({ "/a": { get: operation({ price: FIXED }) } }, { servers: [{ url: "https://elsewhere.example" }] }),
  ],
  [
    "other_origin",
    "GET /a",
    documentOf({ "/a": { get: operation({ price: FIXED }, { servers: [{ url: "//evil.example" }] }) } }),
  ],
  ["method_not_called", "DELETE /a", documentOf({ "/a": { delete: operation({ price: FIXED }) } })],
  [
    "too_many",
    "",
    documentOf(
      Object.fromEntries(Array.from({ length: 51 }, (_, n) => [`/${n}`, { get: operation({ price: FIXED }) }])),
    ),
  ],
];

describe("command line > validate --openapi", () => {
  const servers: Server[] = [];
  afterEach(async () => {
    removeTerminals();
    await closeAll();
    await Promise.all(servers.splice(0).map(closeServer));
  });

  const site = (document: unknown, answer: (seen: Seen) => Answer = sells) =>
    serve((seen) => (seen.url === "/openapi.json" ? { status: 200, json: document } : answer(seen)));

  it("finds nothing wrong with what this project's gate serves", async () => {
    const { provider } = createTestProvider();
    const gates = ["/report", "/users/:id"].map((path) =>
      paymentGate({ provider, price: "$0.05", discovery: { method: "GET", path } }),
    );
    const handler = provider.openApi();
    const server = createServer((request, response) => {
      if (request.url === "/openapi.json") void handler(request, response);
      else void gates[request.url === "/report" ? 0 : 1]?.(request, response, () => response.end());
    });
    servers.push(server);
    const url = await listen(server);
    const ran = await terminal().run("validate", url, "--openapi", "--require", "v1,v2", "--json");
    expectCode(ran, 0);
    const { document, operations, problems } = ran.json();
    expect(document).to.equal(`${url}/openapi.json`);
    const listed = {
      method: "GET",
      price: { currency: "USD", min: "0.05", max: "0.05" },
      protocols: ["x402"],
      status: 402,
      versions: { v1: "valid", v2: "valid", mpp: "absent" },
    };
    expect(operations).to.deep.equal([
      { ...listed, path: "/report" },
      { ...listed, path: "/users/{id}" },
    ]);
    // Stock version 1 clients know the test network by no name.
    expect(problems.filter(({ code }: { code: string }) => code !== "unknown_network")).to.deep.equal([]);
    const shown = await terminal().run("validate", url, "--openapi");
    expect(shown.out).to.include("GET /users/{id}: 0.05 USD, x402, HTTP 402, v1 valid, v2 valid");
  });

  for (const [code, where, document] of WRONG) {
    it(`names the problem ${code}${where === "" ? "" : ` at ${where}`}`, async () => {
      const { url } = await site(document);
      const ran = await terminal().run("validate", url, "--openapi", "--json");
      const { level, about } = OPENAPI_PROBLEMS[code as keyof typeof OPENAPI_PROBLEMS];
      expect(ran.json().problems).to.deep.include({ level, part: "openapi", code, where, about });
      expectCode(ran, level === "error" ? 1 : 0);
    });
  }

  it("has a document for every problem", () => {
    expect(new Set(WRONG.map(([code]) => code))).to.deep.equal(new Set(Object.keys(OPENAPI_PROBLEMS)));
  });

  it("finds nothing wrong with prices that agree, in every form", async () => {
    const { url } = await site(
      documentOf({
        "/a": { get: operation({ price: FIXED, ...accepts() }) },
        "/b": { get: operation({ price: "0.05", protocols: ["x402"] }) },
        "/c": { get: operation({ price: { mode: "dynamic", min: "0", max: "0.050" } }) },
        "/d": { get: operation({ price: { mode: "dynamic" }, ...accepts({ amount: undefined }) }) },
        "/e": { get: operation({ intent: "charge", method: "tempo", amount: "5", currency: "usd" }) },
        "/f": {
          get: operation({
            offers: [{ intent: "charge", method: "evm", amount: null }],
            price: { mode: "fixed", currency: "EUR", amount: "9" },
          }),
        },
      }),
    );
    const ran = await terminal().run("validate", url, "--openapi", "--json");
    expect(ran.json().problems).to.deep.equal([]);
    expectCode(ran, 0);
  });

  it("calls each operation once, as the document describes, without a credential or a redirect", async () => {
    const schema = { type: "object", required: ["text"], properties: { text: { type: "string", minLength: 3 } } };
    const { url, seen } = await site(
      documentOf(
        {
          "/users/{id}": {
            parameters: [{ $ref: "#/components/parameters/id" }],
            get: operation(
              { price: FIXED },
              { parameters: [{ in: "query", name: "q", required: true, example: "a b" }] },
            ),
          },
          "/send": {
            post: operation({ price: FIXED }, { requestBody: { content: { "application/json": { schema } } } }),
          },
          "/moved": { get: operation({ price: FIXED }) },
        },
        { components: { parameters: { id: { in: "path", name: "id", schema: { enum: ["x/1"] } } } } },
      ),
      (asked) => (asked.url === "/moved" ? { status: 302, headers: { location: "/elsewhere" } } : sells(asked)),
    );
    const ran = await terminal().run("validate", url, "--openapi", "--json", "--header", "X-Trace: 1");
    expect(seen.map(({ method, url: target, body }) => [method, target, body])).to.deep.equal([
      ["GET", "/openapi.json", ""],
      ["GET", "/users/x%2F1?q=a+b", ""],
      ["POST", "/send", '{"text":"xxx"}'],
      ["GET", "/moved", ""],
    ]);
    for (const { headers } of seen) {
      expect(headers).to.include({ "x-trace": "1" });
      expect(headers).to.not.have.any.keys("authorization", "x-payment", "payment-signature", "cookie");
    }
    const { level, part, code, where } = ran.json().problems[0];
    expect({ level, part, code, where }).to.deep.equal({
      level: "error",
      part: "http",
      code: "redirect",
      where: "GET /moved",
    });
  });

  it("takes the URL of a document of another name", async () => {
    const { url } = await serve((seen) =>
      seen.url === "/docs/api.json"
        ? { status: 200, json: documentOf({ "/a": { get: operation({ price: FIXED }) } }) }
        : sells(seen),
    );
    expectCode(await terminal().run("validate", `${url}/docs/api.json`, "--openapi"), 0);
    expectCode(await terminal().run("validate", url, "--openapi"), 1);
  });

  describe("of a hostile site", () => {
    const lists = (items: object): object => ({ type: "array", minItems: 1_000_000, items });

    for (const [what, document] of [
      ["references in a circle", documentOf({ "/a": { $ref: "#/paths/~1b" }, "/b": { $ref: "#/paths/~1a" } })],
      ["references to itself", documentOf({ "/a": { $ref: "#" } })],
      [
        "a schema of a million lists in lists",
        documentOf({
          "/a": {
            post: operation(
              { price: FIXED },
              { requestBody: { content: { "application/json": { schema: lists(lists(lists(lists({})))) } } } },
            ),
          },
        }),
      ],
      [
        "names of Object's prototype",
        JSON.parse(
          `{"openapi":"3.1.0","info":{},"paths":{"/a":{"get":{"__proto__":{"x-payment-info":{}},"constructor":1},"__proto__":{"post":{}}}}}`,
        ),
      ],
      [
        "members of other kinds",
        documentOf(
          {
            "/a": {
              get: operation({ price: [], protocols: {}, offers: "x" }, { parameters: {}, servers: 5, responses: [] }),
              post: [],
            },
            "/b": 5,
            "/c": null,
            x: {},
          },
          { servers: "x", components: null },
        ),
      ],
      [
        "a price of a million digits",
        documentOf({ "/a": { get: operation({ price: { mode: "fixed", amount: "9".repeat(1_000_000) } }) } }),
      ],
      [
        "paths that leave it",
        documentOf(
          {
            "//evil.example/a": { get: operation({ price: FIXED }) },
            "/..//evil.example": { get: operation({ price: FIXED }) },
            "/a?b#c\\": { get: operation({ price: FIXED }) },
            "@evil.example": { get: operation({}) },
          },
          { servers: [{ url: "" }] },
        ),
      ],
      [
        "an operation on a terminal",
        documentOf({
          "/\u001b[2J": { get: operation({ price: FIXED, protocols: ["\u001b[31m"] }, { summary: "\u001b]0;x" }) },
        }),
      ],
    ] as const) {
      it(`ends soon, and asks nobody else: ${what}`, async () => {
        const { url, seen } = await site(document);
        const ran = await terminal().run("validate", url, "--openapi");
        expect([0, 1]).to.include(ran.code);
        // biome-ignore lint/suspicious/noControlCharactersInRegex: a terminal obeys them
        expect(`${ran.out}${ran.err}`).to.not.match(/[\u0000-\u0009\u000b-\u001f]/);
        for (const { headers } of seen) expect(headers.host).to.equal(new URL(url).host);
      });
    }

    it("reads no more than 4 MiB of a document, and no redirect of it", async () => {
      const large = await site(documentOf({}, { "x-fill": "x".repeat(4_200_000) }));
      const moved = await serve(() => ({ status: 302, headers: { location: `${large.url}/openapi.json` } }));
      for (const { url } of [large, moved]) {
        const ran = await terminal().run("validate", url, "--openapi", "--json");
        expect(ran.json().problems.map(({ code }: { code: string }) => code)).to.deep.equal(["no_document"]);
      }
      expect(large.seen).to.have.length(1);
    });
  });

  for (const flags of [["--mcp"], ["--method", "POST"], ["--data", "x"]]) {
    it(`refuses ${flags[0]} beside it`, async () => {
      const ran = await terminal().run("validate", "https://api.example", "--openapi", ...flags);
      expectCode(ran, 2);
    });
  }
});
