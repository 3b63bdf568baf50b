import { createServer } from "node:http";
import { expect } from "chai";
import { createDiscoveryClient, type Listing } from "turnpike/facilitator";
import { createProvider, memoryClaims } from "turnpike/gate";
import { nodeGate } from "turnpike/gate/node";
import { addressOfKey, type Hex } from "turnpike/protocol";
import { testKey } from "../../../scripts/sandbox/chain";
import { until } from "../../support/facilitator";
import { closeServer, listen } from "../../support/gate";
import { useService } from "../support/http-service";
import { expectProblem } from "../support/problem";

const PER_PROVIDER = 3;

describe("Facilitator: listings", function () {
  this.timeout(120_000);
  const http = useService({ ALLOW_PRIVATE_LISTINGS: "true", LISTINGS_PER_PROVIDER: String(PER_PROVIDER) });
  let key: string;
  before(async () => {
    key = await http.service.apiKey({ scopes: ["listings"] });
  });
  afterEach(async () => {
    const client = clientOf(key);
    const own = await client.listings();
    if (own.kind === "found") for (const { id } of own.value) await client.unlist(id);
  });
  const clientOf = (apiKey?: string) => createDiscoveryClient({ url: http.service.url, ...(apiKey && { apiKey }) });
  const create = (body: object, apiKey = key) => http.call("/discovery/listings", { key: apiKey, body });

  it("lists what a gate sells, and removes it", async () => {
    const { world, service } = http;
    const { network, turnpike, token: address, tokenName: name, tokenVersion: version } = world.contracts;
    const provider = createProvider({
      network,
      turnpike,
      rpcUrl: world.chain.rpcUrl,
      token: { address, name, version },
      payTo: world.provider.address,
      secret: "s".repeat(32),
      claims: memoryClaims({ warn: false }),
      facilitator: { url: service.url, signers: [addressOfKey(testKey("proof signer") as Hex)] },
    });
    const gate = nodeGate(
      provider.gate({
        pricing: [{ type: "one-time", amount: 50_000n }],
        description: "Weather of a city",
        discovery: { output: { example: { celsius: 4 } } },
      }),
    );
    const server = createServer((request, response) => gate(request, response, () => response.end("{}")));
    const base = await listen(server);
    try {
      const client = clientOf(key);
      const made = await client.list({ url: `${base}/weather/{city}`, sample: { city: "bern" } });
      if (made.kind === "refused") throw made.error;
      const { id } = made.listing;
      const listed = await until(async () => {
        const found = await client.listing(id);
        return found.kind === "found" && found.value.state !== "pending" && found.value;
      }, "it was checked");
      expect([listed.state, listed.problem]).to.deep.equal(["listed", undefined]);
      const found = await clientOf().search("weather", { x402Version: 2 });
      if (found.kind === "refused") throw found.error;
      const [item] = found.value.resources;
      expect(item).to.include({ resource: `${base}/weather/{city}`, description: "Weather of a city" });
      expect(item?.accepts[0]).to.include({ amount: "50000", payTo: world.provider.address });
      expect(item?.extensions?.bazaar).to.deep.include({ routeTemplate: "/weather/:city" });
      expect(await client.unlist(id)).to.deep.equal({ kind: "found", value: { deleted: true } });
      const left = await clientOf().resources();
      if (left.kind === "refused") throw left.error;
      expect(left.value).to.deep.equal({ x402Version: 2, items: [], pagination: { limit: 20, offset: 0, total: 0 } });
    } finally {
      await closeServer(server);
      await provider.close();
    }
  });

  it("repeats a listing without another one, and accepts a bounded number of each provider, also at once", async () => {
    const wanted = { url: "http://127.0.0.1:9/a/{id}", sample: { id: "1" } };
    const first = (await (await create(wanted)).json()) as Listing;
    const again = await create({ ...wanted, sample: { id: "2" } });
    expect(again.status).to.equal(200);
    expect(await again.json()).to.deep.include({ id: first.id, sample: { id: "2" } });
    const answers = await Promise.all([1, 2, 3, 4].map((n) => create({ url: `http://127.0.0.1:9/${n}` })));
    expect(answers.map(({ status }) => status).sort()).to.deep.equal([201, 201, 400, 400]);
    const message = await (await create({ url: "http://127.0.0.1:9/5" })).json();
    expect(message).to.include({ code: "InvalidRequest", message: "a provider may have 3 listings: remove one first" });
    const other = await http.service.apiKey({ wallet: await http.world.payer(0n), scopes: ["listings"] });
    expect((await create(wanted, other)).status).to.equal(201);
  });

  it("B52 gives no key another provider's listings, and none without its scope", async () => {
    const { id } = (await (await create({ url: "http://127.0.0.1:9/mine" })).json()) as Listing;
    const other = await http.service.apiKey({ wallet: await http.world.payer(0n), scopes: ["listings"] });
    expect(await clientOf(other).listings()).to.deep.equal({ kind: "found", value: [] });
    const path = `/discovery/listings/${id}`;
    await expectProblem(await http.call(path, { key: other }), 404, "UnknownObject");
    await expectProblem(await http.call(path, { key: other, method: "DELETE" }), 404, "UnknownObject");
    const reader = await http.service.apiKey({ scopes: ["read"] });
    await expectProblem(await http.call(path, { key: reader, method: "DELETE" }), 403, "ScopeMissing");
    await expectProblem(await http.call(path, { method: "DELETE" }), 401, "InvalidApiKey");
    expect((await http.call(path, { key })).status).to.equal(200);
  });

  it("B52 accepts route templates alone: no query, no other origin, nothing that a client decodes", async () => {
    const host = "http://127.0.0.1:9";
    for (const url of [
      ...[`${host}/x?key=secret`, `${host}/x#part`, "http://user:pass@127.0.0.1:9/x", host, "ftp://127.0.0.1/x"],
      ...[`${host}/../x`, `${host}/a/./b`, `${host}/%2e%2e/x`, `${host}/a%2Fb`, `${host}/a\\b`, `${host}/a b`],
      ...[`${host}/{}`, `${host}/{a`, `${host}/x{id}`, `${host}/{id}/{id}`, `${host}/{other}`, "//127.0.0.1/{id}"],
      ...[`${host}/<script>`, "https://a/{id}@evil/", "http://{id}/x", `${host}/${"x".repeat(600)}`],
    ]) {
      const answer = await create({ url, sample: url.includes("{id}") ? { id: "1" } : {} });
      await expectProblem(answer, 400, "InvalidRequest");
    }
    for (const value of ["..", ".", "a/b", "a?b", "a#b", "%2e", "", "é", "x".repeat(65)]) {
      await expectProblem(await create({ url: `${host}/{id}`, sample: { id: value } }), 400, "InvalidRequest");
    }
    for (const sample of [{}, { id: "1", more: "2" }, JSON.parse('{"__proto__":"1"}') as object]) {
      await expectProblem(await create({ url: `${host}/{id}`, sample }), 400, "InvalidRequest");
    }
    await expectProblem(await create({ url: `${host}/x`, method: "DELETE" }), 400, "InvalidRequest");
  });

  it("bounds pages, and refuses what is no page", async () => {
    const pageOf = async (query: string) => (await (await http.call(`/discovery/resources?${query}`)).json()) as object;
    expect(await pageOf("limit=100000")).to.deep.include({ pagination: { limit: 100, offset: 0, total: 0 } });
    for (const path of ["resources?limit=0", "resources?offset=-1", "resources?payTo=x", "search", "search?query="]) {
      await expectProblem(await http.call(`/discovery/${path}`), 400, "InvalidRequest");
    }
  });
});
