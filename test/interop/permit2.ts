import { createServer } from "node:http";
import { expect } from "chai";
import { Contract, Interface } from "ethers";
import { Hono } from "hono";
import { createAgent } from "turnpike/agent";
import { isTurnpikeError, PERMIT2 } from "turnpike/protocol";
import { closeServer, listen } from "../support/gate";
import { counter, onFetch, type Served } from "./support/gates";
import { type PaidCell, recordPaid } from "./support/matrix";
import { baseSepolia, type StockReceipt, stockExpress, v2, viem } from "./support/stock";
import { CAIP2, CHAIN_ID, type InteropWorld, type Payer, startInteropWorld } from "./support/world";

const MAX = "50000";

/** path -> what the handler charges; undefined: the whole price */
const CHARGES: Readonly<Record<string, string | undefined>> = {
  "/exact": undefined,
  "/upto": "12345",
  "/percent": "50%",
  "/nothing": "0",
  "/above": "50001",
};

/**
 * Stock servers and clients with this project's Facilitator. Permit2 is the real code; the proxies are doubles at their
 * constant addresses, because their own code is on no registry.
 */
for (const framework of ["express", "hono"] as const) {
  describe(`interop > Permit2: @x402/${framework}, @x402/fetch and this Facilitator`, function () {
    // Many real blocks, on machines that may be slow.
    this.timeout(240_000);
    let world: InteropWorld;
    let server: Served;

    before(async () => {
      world = await startInteropWorld();
      const { x402ResourceServer, paymentMiddleware } = v2[framework]();
      const facilitator = new (v2.server().HTTPFacilitatorClient)({ url: world.facilitatorUrl });
      const resources = new x402ResourceServer(facilitator)
        .register(CAIP2, new (v2.serverScheme().ExactEvmScheme)())
        .register(CAIP2, new (v2.uptoServerScheme().UptoEvmScheme)());
      server = await (framework === "express" ? onExpress : onHono)(paymentMiddleware(routesOf(world), resources));
    });
    after(async () => {
      await server?.stop();
      await world?.stop();
    });

    /** Another charge of the same price is no cell of its own. */
    function cell(at: Omit<PaidCell, "server" | "offer">, path: string, work: () => Promise<void>): Promise<void> {
      if (path === "/percent") return work();
      const offer = path === "/exact" ? "0.05" : "up to 0.05";
      return recordPaid("permit2", { method: "Permit2", ...at, server: `@x402/${framework}`, offer }, work);
    }

    async function pay(
      path: string,
      payer: Payer,
    ): Promise<{ status: number; receipt: StockReceipt & { amount?: string } }> {
      const stock = v2.fetch();
      const chain = viem().createPublicClient({ chain: baseSepolia(), transport: viem().http(world.chain.rpcUrl) });
      const signer = v2.signer().toClientEvmSigner(payer.account, chain);
      const client = new stock.x402Client()
        .register("eip155:*", new (v2.clientScheme().ExactEvmScheme)(signer))
        .register("eip155:*", new (v2.uptoClientScheme().UptoEvmScheme)(signer));
      const answer = await stock.wrapFetchWithPayment(fetch, client)(`${server.url}${path}`);
      const header = answer.headers.get("PAYMENT-RESPONSE");
      return { status: answer.status, receipt: stock.decodePaymentResponseHeader(header ?? "") };
    }

    it("a wallet that approved Permit2 pays exact and upto, each at what is charged", async () => {
      const payer = await world.payer();
      await approve(world, payer);
      const paid: bigint[] = [];
      for (const [path, charged] of [
        ["/exact", 50_000n],
        ["/upto", 12_345n],
        ["/percent", 25_000n],
      ] as const) {
        paid.push(charged);
        await cell({ client: "@x402/fetch" }, path, async () => {
          const { status, receipt } = await pay(path, payer);
          expect([status, receipt.success], path).to.deep.equal([200, true]);
          if (path !== "/exact") expect(receipt.amount).to.equal(`${charged}`);
          expect(await world.transfers(payer.address), path).to.deep.equal(paid);
        });
      }
    });

    it("a wallet without gas and without an allowance pays with its permit", async () => {
      for (const [path, charged] of [
        ["/exact", 50_000n],
        ["/upto", 12_345n],
      ] as const) {
        const payer = await world.payer();
        await cell({ client: "@x402/fetch", method: "Permit2, permit" }, path, async () => {
          expect((await pay(path, payer)).status, path).to.equal(200);
          expect(await world.transfers(payer.address), path).to.deep.equal([charged]);
        });
      }
    });

    it("a charge of nothing is served and moves nothing; one above the maximum is withheld", async () => {
      const payer = await world.payer();
      await approve(world, payer);
      const { status, receipt } = await pay("/nothing", payer);
      expect([status, receipt.success, receipt.transaction, receipt.amount]).to.deep.equal([200, true, "", "0"]);
      expect((await pay("/above", payer)).status).to.equal(402);
      expect(await world.transfers(payer.address)).to.deep.equal([]);
    });

    it("HE24 this project's agent pays exact and upto, and counts what the chain proves", async () => {
      for (const kind of PAYER_KINDS) {
        const payer = await world.payer(kind);
        await approve(world, payer);
        const agent = buyer(payer);
        try {
          for (const [path, charged] of [
            ["/exact", undefined],
            ["/upto", 12_345n],
            ["/percent", 25_000n],
          ] as const) {
            await cell({ client: "turnpike agent", payer: kind }, path, async () => {
              const { status, receipt } = await agent.pay(`${server.url}${path}`);
              const paid = [status, receipt?.amount, receipt?.charged];
              expect(paid, `${kind} ${path}`).to.deep.equal([200, 50_000n, charged]);
            });
          }
          const moved = await world.transfers(payer.address);
          expect(moved).to.deep.equal([50_000n, 12_345n, 25_000n]);
        } finally {
          await agent.close();
        }
      }
    });

    it("HE26 this project's agent pays without gas and without an allowance, by a permit over the maximum", async () => {
      const payer = await world.payer();
      const agent = buyer(payer);
      try {
        for (const path of ["/exact", "/upto"]) {
          await cell({ client: "turnpike agent", method: "Permit2, permit" }, path, async () => {
            expect((await agent.pay(`${server.url}${path}`)).status).to.equal(200);
          });
        }
        expect(await world.transfers(payer.address)).to.deep.equal([50_000n, 12_345n]);
        expect(await allowance(world, payer)).to.equal(50_000n - 12_345n);
      } finally {
        await agent.close();
      }
    });

    it("HE25 this project's agent keeps the maximum counted after a charge of nothing", async () => {
      const payer = await world.payer();
      await approve(world, payer);
      const agent = buyer(payer);
      try {
        const { receipt } = await agent.pay(`${server.url}/nothing`);
        expect(receipt).to.include({ amount: 50_000n, charged: undefined, reported: 0n });
        expect(await world.transfers(payer.address)).to.deep.equal([]);
      } finally {
        await agent.close();
      }
    });

    it("HE27 this project's agent without an RPC names the missing approval, and pays after it", async () => {
      const payer = await world.payer();
      const agent = buyer(payer, {});
      try {
        const refused = await agent.pay(`${server.url}/upto`).catch((error: unknown) => error);
        expect(isTurnpikeError(refused) && refused.code).to.equal("InsufficientApproval");
        await approve(world, payer);
        expect((await agent.pay(`${server.url}/upto`)).status).to.equal(200);
        expect(await world.transfers(payer.address)).to.deep.equal([12_345n]);
      } finally {
        await agent.close();
      }
    });

    /** @param rpc default: the chain's */
    const buyer = (payer: Payer, rpc: Readonly<Record<number, string>> = { [CHAIN_ID]: world.chain.rpcUrl }) =>
      createAgent({
        wallet: payer.account as never,
        policy: { perPayment: 50_000n, perDay: 500_000n, tokens: [world.usdc.address], methods: ["permit2", "upto"] },
        facilitators: [],
        rpc,
      });
  });
}

const PAYER_KINDS = ["key", "ERC-1271", "EIP-7702"] as const;

function routesOf({ payTo, usdc }: InteropWorld): object {
  const { address: asset, name, version } = usdc;
  const price = { amount: MAX, asset, extra: { name, version, assetTransferMethod: "permit2" } };
  const routes = Object.keys(CHARGES).map((path) => {
    const scheme = path === "/exact" ? "exact" : "upto";
    const accepts = { scheme, network: CAIP2, payTo, price };
    const extensions = v2.gasSponsoring().declareEip2612GasSponsoringExtension();
    return [`GET ${path}`, { accepts, description: "A route", extensions }];
  });
  return Object.fromEntries(routes);
}

async function onExpress(middleware: unknown): Promise<Served> {
  const count = counter();
  const app = (stockExpress() as () => { use(one: unknown): void; get(path: string, handler: unknown): void })();
  app.use(middleware);
  for (const [path, amount] of Object.entries(CHARGES)) {
    app.get(path, (_request: unknown, response: { json(body: object): void }) => {
      count.add();
      if (amount) v2.express().setSettlementOverrides(response, { amount });
      response.json({ answer: 42 });
    });
  }
  const server = createServer(app as never);
  return { url: await listen(server), runs: count.read, stop: () => closeServer(server) };
}

async function onHono(middleware: unknown): Promise<Served> {
  const count = counter();
  const app = new Hono();
  app.use(middleware as never);
  for (const [path, amount] of Object.entries(CHARGES)) {
    app.get(path, (c) => {
      count.add();
      if (amount) v2.hono().setSettlementOverrides(c, { amount });
      return c.json({ answer: 42 });
    });
  }
  return onFetch(app.fetch as never, count);
}

const TOKEN = new Interface([
  "function approve(address spender, uint256 amount) returns (bool)",
  "function allowance(address owner, address spender) view returns (uint256)",
]);

/** Sent in the payer's name, since a contract wallet has no key of its own. */
async function approve({ chain, usdc }: InteropWorld, { address: from }: Payer): Promise<void> {
  const { provider } = chain;
  await provider.send("hardhat_setBalance", [from, "0x3635c9adc5dea00000"]);
  await provider.send("hardhat_impersonateAccount", [from]);
  const data = TOKEN.encodeFunctionData("approve", [PERMIT2, 10n ** 9n]);
  const hash = await provider.send("eth_sendTransaction", [{ from, to: usdc.address, data }]);
  expect((await provider.waitForTransaction(hash))?.status).to.equal(1);
}

async function allowance({ chain, usdc }: InteropWorld, { address }: Payer): Promise<bigint> {
  return (await new Contract(usdc.address, TOKEN, chain.provider).getFunction("allowance")(address, PERMIT2)) as bigint;
}
