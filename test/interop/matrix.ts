import { expect } from "chai";
import type { Provider } from "turnpike/gate";
import { type Client, clientsOf } from "./support/clients";
import { ADAPTERS, type Routes, type Served } from "./support/gates";
import { type Cell, expectedCells, type Offer, type Result, rowOf, tryCell } from "./support/matrix";
import { recordRow } from "./support/matrix-page";
import { STOCK_FACILITATORS, type StockFacilitator } from "./support/stock-facilitators";
import { STOCK_SERVERS, type StockPrice, type StockServer } from "./support/stock-servers";
import { type InteropWorld, startInteropWorld } from "./support/world";

const WIDE = 10n ** 17n;

/** Each offer is a route of the same name on every server that can make it. */
const OFFERS: Readonly<Record<string, Offer>> = {
  "0.10": { name: "/price-0-10", amount: 100_000n, token: "usdc" },
  "0.10, settled before the handler": { name: "/first", amount: 100_000n, token: "usdc", flow: "upfront" },
  "0.100001": { name: "/price-0-100001", amount: 100_001n, token: "usdc" },
  "1.00": { name: "/price-1", amount: 1_000_000n, token: "usdc" },
  "1.000001": { name: "/price-1-000001", amount: 1_000_001n, token: "usdc" },
  "1.00, no limit": { name: "/price-1", amount: 1_000_000n, token: "usdc", unlimited: true },
  "0.10 or a subscription": { name: "/choice", amount: 100_000n, token: "usdc" },
  "a subscription only (5.00), no limit": { name: "/plan", amount: 5_000_000n, token: "usdc", unlimited: true },
  "0.10 of a token with 18 decimals": { name: "/wide", amount: WIDE, token: "wide" },
  "0.10 of a token with 18 decimals, no limit": { name: "/wide", amount: WIDE, token: "wide", unlimited: true },
};

const DOLLARS: Readonly<Record<string, StockPrice>> = {
  "/first": "$0.10",
  "/price-0-10": "$0.10",
  "/price-0-100001": "$0.100001",
  "/price-1": "$1.00",
  "/price-1-000001": "$1.000001",
  "/wide": { amount: WIDE.toString(), token: "wide" },
};

describe("interop > matrix", function () {
  // Many real blocks, on machines that may be slow.
  this.timeout(240_000);
  const cells = expectedCells();
  const servers = new Map<string, Served>();
  const facilitators = new Map<string, StockFacilitator>();
  const providers: Provider[] = [];
  let world: InteropWorld;
  let clients: Readonly<Record<string, Client>>;

  before(async () => {
    world = await startInteropWorld();
    clients = clientsOf(world);
  });
  after(async () => {
    for (const server of servers.values()) await server.stop();
    for (const facilitator of facilitators.values()) await facilitator.stop();
    for (const provider of providers) await provider.close();
    await world.stop();
  });

  async function facilitatorUrl(name: string): Promise<string> {
    if (name === "turnpike") return world.facilitatorUrl;
    const running = facilitators.get(name) ?? (await STOCK_FACILITATORS[name]?.(world));
    if (!running) throw new TypeError(`no such facilitator: ${name}`);
    facilitators.set(name, running);
    return running.url;
  }

  async function serverOf({ server, facilitator }: Cell): Promise<Served> {
    const key = `${server} ${facilitator}`;
    const running = servers.get(key);
    if (running) return running;
    const url = await facilitatorUrl(facilitator);
    const trustUnsigned = facilitator !== "turnpike";
    const started = await (server.startsWith("turnpike ")
      ? startGate(server.slice("turnpike ".length), { url, trustUnsigned })
      : STOCK_SERVERS[server as StockServer](world, url, { prices: DOLLARS, upfront: ["/first"] }));
    servers.set(key, started);
    return started;
  }

  async function startGate(adapter: string, at: { url: string; trustUnsigned: boolean }): Promise<Served> {
    const facilitator = { ...at, signers: [world.facilitatorSigner] };
    const provider = world.provider({ facilitator });
    const wide = world.provider({ facilitator, token: world.wide });
    providers.push(provider, wide);
    const one = (amount: bigint) => ({ type: "one-time", amount }) as const;
    const plan = { type: "subscription", plan: world.planId } as const;
    const routes: Routes = {
      "/price-0-10": { pricing: [one(100_000n)] },
      "/first": { pricing: [one(100_000n)], settle: "before" },
      "/price-0-100001": { pricing: [one(100_001n)] },
      "/price-1": { pricing: [one(1_000_000n)] },
      "/price-1-000001": { pricing: [one(1_000_001n)] },
      "/choice": { pricing: [plan, one(100_000n), one(2_000_000n)] },
      "/plan": { pricing: [plan] },
    };
    const start = ADAPTERS[adapter];
    if (!start) throw new TypeError(`no such adapter: ${adapter}`);
    const narrow = await start(provider, routes);
    const other = await start(wide, { "/wide": { pricing: [one(WIDE)] } });
    return {
      url: narrow.url,
      runs: () => narrow.runs() + other.runs(),
      at: (path) => (path === "/wide" ? other.url : narrow.url),
      async stop() {
        await narrow.stop();
        await other.stop();
      },
    };
  }

  for (const cell of cells) {
    const { client: name, server: serverName, facilitator, payer: kind, offer: offerName, expected } = cell;
    it(`${name} -> ${serverName} (${facilitator}), ${kind}, ${offerName}: ${expected}`, async () => {
      const offer = OFFERS[offerName];
      const client = clients[name];
      if (!offer || !client) throw new TypeError("the cell names an unknown offer or client");
      let result: Result | "failed" = "failed";
      try {
        const server = await serverOf(cell);
        const payer = await world.payer(kind);
        const url = `${server.at?.(offer.name) ?? server.url}${offer.name}`;
        result = await tryCell({ world, client, server, url, offer, payer });
      } finally {
        recordRow("matrix", rowOf(cell, offer, result));
      }
      expect(result).to.equal(expected);
    });
  }
});
