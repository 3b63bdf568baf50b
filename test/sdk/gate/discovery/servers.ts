/** Operations of the application's document that have servers of their own: only those of this gate get its price. */
import { expect } from "chai";
import type { GateOptions, OpenApiDocument, Provider, ProviderOptions } from "turnpike/gate";
import { paymentMiddleware } from "turnpike/gate/express";
import { ConfigError } from "turnpike/protocol";
import { type SmallFacilitator, startSmallFacilitator, TOKEN, testProvider } from "../../../support/gate";

const DOLLARS = { address: TOKEN, name: "Test USD", version: "1", decimals: 6, currency: "USD" } as const;
const HERE = "https://api.example";
const ELSEWHERE = "https://elsewhere.example";
const at = (url: string, more: object = {}) => ({ servers: [{ url, ...more }] });

describe("the servers of an OpenAPI document's operations", () => {
  let facilitator: SmallFacilitator;
  const open: Provider[] = [];
  before(async () => {
    facilitator = await startSmallFacilitator();
  });
  after(async () => {
    for (const provider of open) await provider.close();
    await facilitator.stop();
  });

  interface Asked {
    /** gates as "METHOD /path" */
    readonly gates?: readonly string[];
    /** the patterns of paymentMiddleware */
    readonly patterns?: readonly string[];
    readonly options?: ProviderOptions;
    /** of the whole document */
    readonly more?: object;
  }

  /** Returns the document that is served, and the operations in it that have a price. */
  async function served(paths: object, { gates = [], patterns = [], options = {}, more = {} }: Asked) {
    const provider = testProvider(facilitator, { token: DOLLARS, ...options });
    open.push(provider);
    for (const gate of gates) {
      const [method, path] = gate.split(" ");
      provider.gate({ price: "$0.05", discovery: { method, path } } as GateOptions);
    }
    const routes = Object.fromEntries(patterns.map((pattern) => [pattern, { accepts: { price: "$0.05" } } as const]));
    if (patterns.length > 0) paymentMiddleware(routes, { provider });
    const given = { openapi: "3.1.0", info: { title: "Shop", version: "1" }, paths, ...more } as OpenApiDocument;
    const document = JSON.parse(JSON.stringify(await provider.openApi(given).document()));
    const priced = Object.entries<Record<string, object>>(document.paths).flatMap(([path, item]) =>
      Object.entries<object>(item)
        .filter(([, operation]) => "x-payment-info" in operation)
        .map(([method]) => `${method.toUpperCase()} ${path}`),
    );
    return { document, priced };
  }

  for (const [how, asked] of [
    ["a gate", { gates: ["GET /report"] }],
    ["a gate of every method", { gates: ["* /report"] }],
    ["a pattern", { patterns: ["GET /report"] }],
  ] as const) {
    for (const [whose, operation, item] of [
      ["its own", at(ELSEWHERE), {}],
      ["its path's", {}, at(ELSEWHERE)],
      ["a templated", at("https://{host}", { variables: { host: { default: "elsewhere.example" } } }), {}],
      ["another port's", at(`${HERE}:8443`), {}],
      ["another scheme's", at("http://api.example"), at(HERE)],
      ["a server without a scheme", at("//elsewhere.example/"), {}],
    ] as const) {
      it(`gives no price of ${how} to an operation with ${whose} server elsewhere`, async () => {
        const paths = { "/report": { ...item, get: { operationId: "other", ...operation } } };
        const { document, priced } = await served(paths, { ...asked, options: { publicUrl: HERE } });
        expect(priced).to.deep.equal([]);
        expect(document.paths).to.deep.equal(paths);
      });
    }

    for (const [whose, operation, item, options] of [
      ["of publicUrl", at(HERE), {}, { publicUrl: HERE }],
      ["that is relative", at("/"), {}, { publicUrl: HERE }],
      ["that is relative, where publicUrl is not set", {}, at("/"), {}],
      ["of publicUrl, on a path with another", at(HERE), at(ELSEWHERE), { publicUrl: HERE }],
    ] as const) {
      it(`gives the price of ${how} to an operation with a server ${whose}`, async () => {
        const { priced } = await served({ "/report": { ...item, get: operation } }, { ...asked, options });
        expect(priced).to.deep.equal(["GET /report"]);
      });
    }

    it(`gives no price of ${how} to an operation with an absolute server where nothing says where the gates are`, async () => {
      expect((await served({ "/report": { get: at(HERE) } }, asked)).priced).to.deep.equal([]);
    });

    it(`compares with the document's own server where publicUrl is not set, for ${how}`, async () => {
      const paths = { "/report": { get: at(`${HERE}/`), post: at(ELSEWHERE) } };
      expect((await served(paths, { ...asked, more: at(HERE) })).priced).to.deep.equal(["GET /report"]);
    });
  }

  for (const [how, asked] of [
    ["a gate", { gates: ["GET /v2/report"] }],
    ["a pattern", { patterns: ["GET /v2/*"] }],
  ] as const) {
    it(`finds the operation that ${how} sells below the path of the operation's server`, async () => {
      const paths = { "/report": { get: at("/v2"), head: at("/v1") }, "/v2/report": { get: at("/v3") } };
      const { priced } = await served(paths, { ...asked, options: { publicUrl: HERE } });
      expect(priced.filter((place) => !place.includes("{"))).to.deep.equal(["GET /report"]);
    });
  }

  it("gives an operation that it adds to a path with other servers its own", async () => {
    const paths = { "/report": { ...at(ELSEWHERE), get: {} } };
    const asked = { gates: ["POST /report"], options: { publicUrl: HERE } };
    const { document, priced } = await served(paths, asked);
    expect([priced, document.paths["/report"].post.servers]).to.deep.equal([["POST /report"], [{ url: HERE }]]);
    const without = await served(paths, { gates: ["POST /report"] });
    expect(without.document.paths["/report"].post.servers).to.deep.equal([{ url: "/" }]);
  });

  it("refuses a document whose first server is of another origin than publicUrl", async () => {
    const asked = { gates: ["GET /report"], options: { publicUrl: HERE }, more: at(ELSEWHERE) };
    const error: unknown = await served({}, asked).catch((thrown: unknown) => thrown);
    expect(error).to.be.instanceOf(ConfigError);
    expect((error as Error).message).to.match(
      /^document\.servers\[0\]\.url has another origin than the gates' publicUrl/,
    );
  });
});
