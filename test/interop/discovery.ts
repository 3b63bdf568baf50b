import { expect } from "chai";
import { createDiscoveryClient, type DiscoveryClient } from "turnpike/facilitator";
import type { Provider } from "turnpike/gate";
import { until } from "../support/facilitator";
import { v2Client } from "./support/clients";
import { ADAPTERS, type Served } from "./support/gates";
import { type StockItem, v1, v2 } from "./support/stock";
import { STOCK_SERVERS } from "./support/stock-servers";
import { CAIP2, type InteropWorld, startInteropWorld, V1_NETWORK } from "./support/world";

// The catalogue, read by the stock clients of both versions; in it what stock servers and this project's gate sell.
describe("interop > discovery", function () {
  // Many real blocks, on machines that may be slow.
  this.timeout(240_000);
  let world: InteropWorld;
  let provider: Provider;
  let own: DiscoveryClient;
  const servers: Served[] = [];
  /** resource -> what sells it */
  const listed = new Map<string, string>();

  before(async () => {
    world = await startInteropWorld();
    provider = world.provider();
    own = createDiscoveryClient({ url: world.facilitatorUrl, apiKey: await world.sellerKey() });
    const start = ADAPTERS.express;
    if (!start) throw new TypeError("no Express");
    const pricing = [{ type: "one-time", amount: 50_000n }] as const;
    const discovery = { queryParams: { symbol: "ABC" }, output: { type: "json", example: { answer: 42 } } };
    const gate = await start(provider, { "/quote/:market": { pricing, discovery, description: "Market quotes" } });
    servers.push(gate);
    await list(`${gate.url}/quote/{market}`, "gate", { market: "nyse" });
    for (const kind of ["x402-express", "@x402/express"] as const) {
      const server = await STOCK_SERVERS[kind](world, world.facilitatorUrl, { prices: { "/news": "$0.05" } });
      servers.push(server);
      await list(`${server.url}/news`, kind);
    }
  });
  after(async () => {
    for (const server of servers) await server.stop();
    await provider.close();
    await world.stop();
  });

  async function list(url: string, by: string, sample: Record<string, string> = {}): Promise<void> {
    const outcome = await own.list({ url, sample });
    if (outcome.kind === "refused") throw outcome.error;
    const { id } = outcome.listing;
    const checked = await until(async () => {
      const found = await own.listing(id);
      return found.kind === "found" && found.value.state !== "pending" && found.value;
    }, `${by} was checked`);
    expect(checked.state, `${by}: ${checked.problem}`).to.equal("listed");
    listed.set(url, by);
  }

  const sellersOf = (items: readonly StockItem[]) =>
    items.map(({ resource, x402Version }) => `${listed.get(resource)} ${x402Version}`);
  const bazaar = () =>
    v2.bazaar().withBazaar(new (v2.server().HTTPFacilitatorClient)({ url: world.facilitatorUrl })).extensions.bazaar;

  it("is read by the stock client of version 2: pages, filters, search", async () => {
    const all = await bazaar().listResources({ type: "http" });
    expect(sellersOf(all.items)).to.deep.equal(["gate 2", "gate 1", "x402-express 1", "@x402/express 2"]);
    expect(all.pagination).to.deep.equal({ limit: 20, offset: 0, total: 4 });
    const page = await bazaar().listResources({ limit: 1, offset: 3 });
    expect([sellersOf(page.items), page.pagination.total]).to.deep.equal([["@x402/express 2"], 4]);
    const filter = { network: CAIP2, scheme: "exact", payTo: world.payTo, extensions: "bazaar" };
    const second = await bazaar().listResources(filter);
    expect(sellersOf(second.items)).to.deep.equal(["gate 2", "@x402/express 2"]);
    for (const { accepts, extensions } of second.items) {
      for (const accept of accepts) v2.schemas().PaymentRequirementsV2Schema.parse(accept);
      expect(accepts[0]).to.include({ amount: "50000", payTo: world.payTo, asset: world.usdc.address });
      expect(v2.bazaar().validateDiscoveryExtension(extensions?.bazaar).valid).to.equal(true);
    }
    const found = await bazaar().search({ query: "quotes of a market", network: CAIP2 });
    expect(sellersOf(found.resources)).to.deep.equal(["gate 2"]);
    expect(found.resources[0]?.extensions?.bazaar).to.deep.include({ routeTemplate: "/quote/:market" });
  });

  it("is read by the stock client of version 1, whose schema takes its items", async () => {
    const { items, pagination } = await v1.verify().useFacilitator({ url: world.facilitatorUrl }).list({ limit: 10 });
    expect(pagination.total).to.equal(4);
    const first = items.filter(({ x402Version }) => x402Version === 1);
    expect(sellersOf(first)).to.deep.equal(["gate 1", "x402-express 1"]);
    for (const item of first) {
      // The schema wants a date where JSON has text.
      v1.types().DiscoveredResourceSchema.parse({ ...item, lastUpdated: new Date(item.lastUpdated) });
      expect(item.accepts[0]).to.include({ network: V1_NETWORK, maxAmountRequired: "50000", resource: item.resource });
    }
  });

  it("B51 takes nothing from payments: a payload that echoes another template lists nothing", async () => {
    const payer = await world.payer();
    const [item] = (await bazaar().listResources({ network: CAIP2 })).items;
    const accepted = item?.accepts[0] ?? {};
    const resource = { url: "https://victim.example/paid" };
    const client = v2Client(v2.fetch(), payer.account, { unlimited: true });
    const payload = await client.createPaymentPayload({ x402Version: 2, resource, accepts: [accepted] });
    const echoed = { ...payload, resource, extensions: { bazaar: item?.extensions?.bazaar } };
    const facilitator = new (v2.server().HTTPFacilitatorClient)({ url: world.facilitatorUrl });
    expect((await facilitator.settle(echoed, accepted)).success).to.equal(true);
    expect((await bazaar().listResources()).pagination.total).to.equal(4);
  });
});
