/** `agent.find`: the priced routes of a site, as its document lists them. */
import { expect } from "chai";
import { createProvider } from "turnpike/gate";
import { closeServer, fetchServer, listen, startSmallFacilitator, TOKEN, testOptions } from "../../support/gate";
import { rejection } from "./support/rejection";
import { closeAll, serve } from "./support/servers";
import { agentFor } from "./support/world";

const agent = () => agentFor("https://pay.example").agent;

const priced = { "x-payment-info": { price: { mode: "fixed", currency: "USD", amount: "0.05" }, protocols: ["x402"] } };

const documentOf = (paths: object, more: object = {}) => ({ openapi: "3.1.0", info: {}, paths, ...more });

describe("agent.find", () => {
  afterEach(closeAll);

  it("lists what a gate serves, to be asked for its price", async () => {
    const facilitator = await startSmallFacilitator();
    const token = { address: TOKEN, name: "Test USD", version: "1", decimals: 6, currency: "USD" } as const;
    const provider = createProvider(testOptions(facilitator, { token, mpp: "Authorization" }));
    provider.gate({
      price: "$0.05",
      description: "Weather of a city",
      discovery: { path: "/weather/:city", method: "GET" },
    });
    const handler = provider.openApi();
    const server = fetchServer((request) => handler(request));
    const url = await listen(server);
    const buyer = agent();
    const found = await buyer.find(url);
    await Promise.all([buyer.close(), provider.close(), closeServer(server), facilitator.stop()]);
    expect(found?.document).to.equal(`${url}/openapi.json`);
    const [route, ...more] = found?.resources ?? [];
    expect(more).to.deep.equal([]);
    expect(route).to.deep.include({
      resource: `${url}/weather/{city}`,
      method: "GET",
      description: "Weather of a city",
      price: { currency: "USD", min: "0.05", max: "0.05" },
      protocols: ["x402", "mpp"],
      offers: [{ asset: TOKEN, amount: "50000" }],
    });
    expect(route?.accepts[0]).to.deep.include({ network: "eip155:31337", asset: TOKEN, amount: "50000" });
  });

  it("follows redirects within the site, and none that leaves it", async () => {
    const other = await serve(() => ({ status: 200, json: documentOf({ "/evil": { get: priced } }) }));
    const site = await serve(({ url }) =>
      url === "/openapi.json"
        ? { status: 301, headers: { location: "/v2/openapi.json" } }
        : url === "/v2/openapi.json"
          ? { status: 200, json: documentOf({ "/a": { get: priced } }, { servers: [{ url: "/v2" }] }) }
          : { status: 302, headers: { location: `${other.url}/openapi.json` } },
    );
    const buyer = agent();
    expect((await buyer.find(site.url))?.resources.map(({ resource }) => resource)).to.deep.equal([`${site.url}/v2/a`]);
    expect(await buyer.find(`${site.url}/away.json`)).to.equal(undefined);
    expect(other.seen).to.deep.equal([]);
    await buyer.close();
  });

  it("lists no route of another origin, however the document names it", async () => {
    const site = await serve(() => ({
      status: 200,
      json: documentOf({
        "/a": { get: { ...priced, servers: [{ url: "https://evil.example" }] } },
        "/b": { get: { ...priced, servers: [{ url: "//evil.example/" }] } },
        "/c": { servers: [{ url: "https://{host}", variables: { host: { default: "evil.example" } } }], get: priced },
        "/d": { get: { ...priced, servers: [{ url: "javascript:alert(1)" }] } },
        "//evil.example/e": { get: priced },
        "/f": { get: priced },
      }),
    }));
    const buyer = agent();
    const found = await buyer.find(site.url);
    await buyer.close();
    expect(found?.resources.map(({ resource }) => resource)).to.deep.equal([
      `${site.url}//evil.example/e`,
      `${site.url}/f`,
    ]);
  });

  it("finds each route below the nearest servers: of its operation, its path or the document", async () => {
    const at = (url: string) => ({ servers: [{ url }, { url: "https://elsewhere.example" }] });
    const site = await serve(({ headers }) => ({
      status: 200,
      json: documentOf(
        {
          "/a": { get: priced },
          "/b": { ...at("/path"), get: priced, post: { ...priced, ...at(`http://${headers.host}/operation/`) } },
        },
        at("/document"),
      ),
    }));
    const buyer = agent();
    const found = await buyer.find(site.url);
    await buyer.close();
    expect(found?.resources.map(({ method, resource }) => `${method} ${resource}`)).to.deep.equal([
      `GET ${site.url}/document/a`,
      `GET ${site.url}/path/b`,
      `POST ${site.url}/operation/b`,
    ]);
  });

  it("returns undefined where there is no document, and throws during an outage", async () => {
    const answers = [
      { status: 404 },
      { status: 200, json: "text" },
      { status: 200, json: { swagger: "2.0" } },
      { status: 200, json: documentOf({}, { "x-fill": "x".repeat(4_200_000) }) },
    ];
    const buyer = agent();
    for (const answer of answers) expect(await buyer.find((await serve(() => answer)).url)).to.equal(undefined);
    const down = await serve(() => ({ status: 503 }));
    expect(await rejection(buyer.find(down.url))).to.include({ code: "Unavailable" });
    expect(await rejection(buyer.find("/openapi.json"))).to.include({ code: "InvalidRequest" });
    await buyer.close();
  });

  it("bounds what it takes from a document, and trusts no name in it", async () => {
    const paths = Object.fromEntries(
      Array.from({ length: 1_500 }, (_, n) => [`/${n}`, { get: { ...priced, summary: "x".repeat(2_000) } }]),
    );
    const large = await serve(() => ({ status: 200, json: documentOf(paths) }));
    const odd = JSON.parse(
      '{"openapi":"3.1.0","paths":{"/a":{"$ref":"#/__proto__"},"/b":{"__proto__":{"get":{"x-payment-info":{}}}},"/c":{"$ref":"#/paths/~1c"}}}',
    ) as object;
    const strange = await serve(() => ({ status: 200, json: odd }));
    const buyer = agent();
    const found = await buyer.find(large.url);
    expect(found?.resources).to.have.length(1_000);
    expect(found?.resources[0]?.description).to.have.length(1_000);
    expect((await buyer.find(strange.url))?.resources).to.deep.equal([]);
    await buyer.close();
  });
});
