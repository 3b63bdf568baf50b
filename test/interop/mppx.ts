import { expect } from "chai";
import type { Provider, ProviderOptions } from "turnpike/gate";
import { expectCode, removeTerminals, terminal } from "../sdk/cli/support/run";
import { agentOf, type CountingMppClient, clientsOf, mppClientOf } from "./support/clients";
import { ADAPTERS, counter, onFetch, type Routes, type Served } from "./support/gates";
import { recordPaid } from "./support/matrix";
import { accounts, mppx } from "./support/stock";
import { CHAIN_ID, type InteropWorld, type Payer, startInteropWorld } from "./support/world";

const PRICE = 100_000n;

const one = { type: "one-time", amount: PRICE } as const;

const ROUTES: Routes = {
  "/after": { pricing: [one] },
  "/before": { pricing: [one], settle: "before" },
};

/** The stock client of MPP at this project's gates, with this project's Facilitator. */
describe("interop > MPP: mppx at this project's gates", function () {
  // Many real blocks, on machines that may be slow.
  this.timeout(240_000);
  let world: InteropWorld;
  const providers: Provider[] = [];
  const servers: Served[] = [];

  before(async () => {
    world = await startInteropWorld();
  });
  after(async () => {
    for (const server of servers) await server.stop();
    for (const provider of providers) await provider.close();
    await world.stop();
  });

  async function open(adapter = "express", options: ProviderOptions = {}): Promise<Served> {
    const provider = world.provider({ mpp: "Authorization", ...options });
    const server = await (ADAPTERS[adapter] as (typeof ADAPTERS)[string])(provider, ROUTES);
    providers.push(provider);
    servers.push(server);
    await provider.ready();
    return server;
  }

  const clientOf = (payer: Payer, send?: typeof fetch): CountingMppClient => mppClientOf(world, payer, send);

  for (const adapter of Object.keys(ADAPTERS)) {
    for (const path of Object.keys(ROUTES)) {
      it(`pays ${path} of a gate on ${adapter} by one transfer, and reads its receipt`, async () => {
        const server = await open(adapter);
        const payer = await world.payer();
        const client = clientOf(payer);
        const flow = path === "/before" ? "upfront" : "authorization";
        const at = { client: "mppx", server: `turnpike ${adapter}`, offer: "0.10", flow } as const;
        await recordPaid("mppx", at, async () => {
          const response = await client.fetch(`${server.url}${path}`);
          expect([response.status, await response.text()]).to.deep.equal([200, '{"answer":42}']);
          const receipt = mppx.receipts().fromResponse(response);
          expect(receipt).to.include({ method: "evm", status: "success" });
          const found = await world.chain.provider.getTransactionReceipt(receipt.reference);
          expect(found?.status).to.equal(1);
          expect([await world.transfers(payer.address), server.runs(), client.signed()]).to.deep.equal([[PRICE], 1, 1]);
        });
      });
    }
  }

  it("is sold beside x402: every client pays the same route, in its own dialect", async () => {
    const server = await open();
    const url = `${server.url}/after`;
    for (const client of Object.values(clientsOf(world))) {
      const payer = await world.payer();
      const paid = await client.pay(url, payer);
      expect([paid.status, await world.transfers(payer.address)], client.name).to.deep.equal([200, [PRICE]]);
    }
  });

  it("signs nothing more once money may have moved", async () => {
    const server = await open();
    const url = `${server.url}/after`;
    const payer = await world.payer();
    const credentials: string[] = [];
    const lossy: typeof fetch = async (input, init) => {
      const value = new Headers(init?.headers).get("authorization");
      if (value === null) return fetch(input, init);
      // The answer to the first presentation is lost, and the client's own network sends it again.
      if (credentials.push(value) === 1) await (await fetch(input, init)).arrayBuffer();
      return fetch(input, init);
    };
    const client = clientOf(payer, lossy);
    const response = await client.fetch(url);
    expect([response.status, client.signed(), credentials.length]).to.deep.equal([409, 1, 1]);
    expect([await world.transfers(payer.address), server.runs()]).to.deep.equal([[PRICE], 1]);
  });

  it("pays once for one Idempotency-Key, and gets the kept answer", async () => {
    const server = await open();
    const url = `${server.url}/after`;
    const payer = await world.payer();
    const headers = { "Idempotency-Key": "one-purchase-of-mppx" };
    const first = await clientOf(payer).fetch(url, { headers });
    const second = await clientOf(payer).fetch(url, { headers });
    expect([first.status, second.status, second.headers.get("idempotency-replayed")]).to.deep.equal([200, 200, "true"]);
    expect(await second.text()).to.equal(await first.text());
    expect([await world.transfers(payer.address), server.runs()]).to.deep.equal([[PRICE], 1]);
  });

  it("pays in Payment-Authorization beside the application's own Authorization", async () => {
    const server = await open("express", { mpp: "Payment-Authorization" });
    const payer = await world.payer();
    const headers = { Authorization: "Bearer of-the-application" };
    const response = await clientOf(payer).fetch(`${server.url}/after`, { headers });
    expect([response.status, await world.transfers(payer.address)]).to.deep.equal([200, [PRICE]]);
  });

  it("moves nothing for a payer without funds, and pays by x402 where a proxy has taken the challenge", async () => {
    const server = await open();
    const url = `${server.url}/after`;
    const payer = await world.payer();
    const poor = { ...payer, account: accounts().privateKeyToAccount(`0x${"5a".repeat(32)}`) };
    const refused = await clientOf(poor).fetch(url);
    expect([refused.status, server.runs()]).to.deep.equal([402, 0]);
    const stripping: typeof fetch = async (input, init) => {
      const answer = await fetch(input, init);
      const headers = new Headers(answer.headers);
      headers.delete("www-authenticate");
      return new Response(answer.body, { status: answer.status, headers });
    };
    const response = await clientOf(payer, stripping).fetch(url);
    expect([response.status, await world.transfers(payer.address)]).to.deep.equal([200, [PRICE]]);
  });
});

/** This project's agent at the stock server of MPP, which settles through this project's Facilitator. */
describe("interop > MPP: the agent at a stock server of mppx", function () {
  // Many real blocks, on machines that may be slow.
  this.timeout(240_000);
  let world: InteropWorld;
  const servers: Served[] = [];

  before(async () => {
    world = await startInteropWorld();
  });
  after(async () => {
    removeTerminals();
    for (const server of servers) await server.stop();
    await world.stop();
  });

  /** @param more of the server's options @param isAlone whether PAYMENT-REQUIRED is taken off: it speaks MPP alone */
  async function open(more: object = {}, isAlone = true): Promise<Served> {
    const { Mppx, evm } = mppx.server();
    const { address: currency, name, version, decimals } = world.usdc;
    const charge = evm.charge({
      ...{ currency, chainId: CHAIN_ID, decimals, authorization: { name, version }, recipient: world.payTo },
      x402: { facilitator: world.facilitatorUrl },
      ...more,
    });
    const stock = Mppx.create({ methods: [charge], secretKey: "a secret of this test, long enough", realm: "stock" });
    const count = counter();
    const server = await onFetch(async (request) => {
      const amount = new URL(request.url).pathname === "/dear" ? "0.11" : "0.01";
      const result = await stock.charge({ amount })(request);
      if (result.status === 402) {
        const headers = new Headers(result.challenge.headers);
        if (isAlone) headers.delete("PAYMENT-REQUIRED");
        return new Response(result.challenge.body, { status: 402, headers });
      }
      count.add();
      return result.withReceipt(Response.json({ answer: 42 }));
    }, count);
    servers.push(server);
    return server;
  }

  it("pays within its policy, once each, with the receipt's transaction", async () => {
    const server = await open();
    const payer = await world.payer();
    const agent = agentOf(world, payer);
    try {
      await recordPaid("mppx", { client: "turnpike agent", server: "mppx", offer: "0.01" }, async () => {
        const paid = await agent.pay(`${server.url}/cheap`);
        expect([paid.status, await paid.text()]).to.deep.equal([200, '{"answer":42}']);
        expect(paid.receipt).to.include({ amount: 10_000n, dialect: "mpp" });
        const found = await world.chain.provider.getTransactionReceipt(String(paid.receipt?.transaction));
        expect(found?.status).to.equal(1);
        expect(await world.transfers(payer.address)).to.deep.equal([10_000n]);
      });
      const error = await agent.pay(`${server.url}/dear`).catch((thrown: unknown) => thrown);
      expect(error).to.include({ code: "PolicyRefused", reason: "limit" });
      expect([await world.transfers(payer.address), server.runs()]).to.deep.equal([[10_000n], 1]);
    } finally {
      await agent.close();
    }
  });

  for (const isAlone of [true, false]) {
    it(`is well-formed for validate, with challenges ${isAlone ? "alone" : "beside x402"}`, async () => {
      const { url } = await open({}, isAlone);
      const ran = await terminal().run("validate", `${url}/cheap`, "--json");
      const { versions, problems } = ran.json();
      expect(versions).to.deep.equal({ v1: "absent", v2: isAlone ? "absent" : "valid", mpp: "valid" });
      expect(problems).to.deep.equal([]);
      expectCode(ran, 0);
    });
  }

  it("signs nothing for a server of another chain", async () => {
    const server = await open({ chainId: 8_453 });
    const agent = agentOf(world, await world.payer());
    try {
      const error = await agent.pay(`${server.url}/cheap`).catch((thrown: unknown) => thrown);
      expect(error).to.include({ code: "PolicyRefused", reason: "network" });
      expect(server.runs()).to.equal(0);
    } finally {
      await agent.close();
    }
  });
});
