import { expect } from "chai";
import { memoryLedger } from "turnpike/agent";
import { isTurnpikeError } from "turnpike/protocol";
import { agentOf } from "./support/clients";
import type { Served } from "./support/gates";
import { STOCK_FACILITATORS, type StockFacilitator } from "./support/stock-facilitators";
import { STOCK_SERVERS, type StockServer } from "./support/stock-servers";
import { type InteropWorld, startInteropWorld } from "./support/world";

const STOCK_OF: Readonly<Partial<Record<StockServer, string>>> = {
  "x402-express": "x402 1.2.0",
  "x402-hono": "x402 1.2.0",
  "@x402/express": "@x402/core 2.27.0",
  "@x402/hono": "@x402/core 2.27.0",
  "@x402/next, withX402": "@x402/core 2.27.0",
};

// Stock servers with their stock facilitators, paid by this project's agent under its policy and ledger.
describe("interop > agent out", function () {
  // Many real blocks, on machines that may be slow.
  this.timeout(240_000);
  let world: InteropWorld;
  const servers: Served[] = [];
  const facilitators = new Map<string, StockFacilitator>();

  before(async () => {
    world = await startInteropWorld();
  });
  after(async () => {
    for (const server of servers) await server.stop();
    for (const facilitator of facilitators.values()) await facilitator.stop();
    await world.stop();
  });

  async function start(name: StockServer): Promise<Served> {
    const stock = STOCK_OF[name] ?? "";
    const facilitator = facilitators.get(stock) ?? (await STOCK_FACILITATORS[stock]?.(world));
    if (!facilitator) throw new TypeError(`no such facilitator: ${stock}`);
    facilitators.set(stock, facilitator);
    const prices = { "/cheap": "$0.01", "/dear": "$0.11", "/broken": "$0.02" };
    const status = (path: string) => (path === "/broken" ? 500 : 200);
    const server = await STOCK_SERVERS[name](world, facilitator.url, { prices, status });
    servers.push(server);
    return server;
  }

  const codeOf = (error: unknown) =>
    isTurnpikeError(error) ? [error.code, error.reason] : [error instanceof Error ? error.message : error];

  for (const name of Object.keys(STOCK_OF) as StockServer[]) {
    it(`${name}: pays and fetches, within its limits, and writes all down`, async () => {
      const server = await start(name);
      const payer = await world.payer();
      const ledger = memoryLedger();
      const agent = agentOf(world, payer, 100_000n, ledger);
      try {
        const paid = await agent.pay(`${server.url}/cheap`);
        expect(paid.status).to.equal(200);
        expect(paid.receipt).to.include({ amount: 10_000n, dialect: name.startsWith("@") ? "x402-v2" : "x402-v1" });
        const receipt = await world.chain.provider.getTransactionReceipt(String(paid.receipt?.transaction));
        expect(receipt?.status).to.equal(1);
        expect((await agent.fetch(`${server.url}/cheap?again=1`)).status).to.equal(200);

        // Above the limit per payment nothing is signed; fetch hands the 402 back.
        expect(await agent.pay(`${server.url}/dear`).catch(codeOf)).to.deep.equal(["PolicyRefused", "limit"]);
        expect((await agent.fetch(`${server.url}/dear`)).status).to.equal(402);
        expect(await world.transfers(payer.address)).to.deep.equal([10_000n, 10_000n]);

        // A stock server settles only behind a good answer: nothing moved, and the signature is kept, and nothing is signed again.
        expect((await agent.pay(`${server.url}/broken`)).status).to.equal(500);
        expect(await world.transfers(payer.address)).to.have.length(2);
        const kept = await agent.payments();
        expect(kept.map(({ amount, state }) => [amount, state])).to.deep.equal([
          [10_000n, "served"],
          [10_000n, "served"],
          [20_000n, "signed"],
        ]);
      } finally {
        await agent.close();
      }
    });
  }

  it("refuses what was paid for once the day's budget is spent, over servers of both versions", async () => {
    const first = await start("x402-express");
    const second = await start("@x402/hono");
    const payer = await world.payer();
    const agent = agentOf(world, payer, 10_000n);
    try {
      for (let i = 0; i < 5; i++) {
        expect((await agent.pay(`${first.url}/cheap?i=${i}`)).status).to.equal(200);
        expect((await agent.pay(`${second.url}/cheap?i=${i}`)).status).to.equal(200);
      }
      expect(await agent.pay(`${first.url}/cheap?i=5`).catch(codeOf)).to.deep.equal(["PolicyRefused", "per_day"]);
      expect(await world.transfers(payer.address)).to.have.length(10);
    } finally {
      await agent.close();
    }
  });
});
