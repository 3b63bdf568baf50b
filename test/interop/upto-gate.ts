import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { expect } from "chai";
import { Contract, Wallet } from "ethers";
import { type AgentPolicy, createAgent, type PaidResponse, walletFromKey } from "turnpike/agent";
import { uptoProxyInterface } from "turnpike/chain";
import { gated, type PaidRequest, type Provider } from "turnpike/gate";
import { addressOfKey, type Hex, PERMIT2, UPTO_PERMIT2_PROXY } from "turnpike/protocol";
import { testKey } from "../../scripts/sandbox/chain";
import { closeServer, listen, send } from "../support/gate";
import { recordPaid } from "./support/matrix";
import { baseSepolia, type StockReceipt, v2, viem } from "./support/stock";
import { CHAIN_ID, type InteropWorld, type Payer, startInteropWorld } from "./support/world";

const MAX = 50_000n;
const STATEMENT_KEY = testKey("interop statements of upto gates") as Hex;

/** What each route moves where the handler charges 12345. */
const ROUTES = [
  { path: "/upto", offer: "up to 0.05", scheme: "upto", moved: 12_345n },
  { path: "/exact", offer: "0.05", scheme: "exact", moved: MAX },
] as const;

const AT_GATE = { server: "turnpike node:http", method: "Permit2" } as const;

interface Paid {
  readonly status: number;
  readonly text: string;
  readonly receipt: (StockReceipt & { readonly amount?: string }) | undefined;
  /** what the client sent to pay */
  readonly headers: Record<string, string>;
}

/** Stock clients and this project's agent at gates that charge what a request cost, with this project's Facilitator and Permit2's real code. */
describe("interop > Permit2: @x402/fetch and the agent at this project's gates", function () {
  // Many real blocks, on machines that may be slow.
  this.timeout(240_000);
  let world: InteropWorld;
  let providers: Provider[];
  let urls: string[];
  const stops: (() => Promise<unknown>)[] = [];
  let runs = 0;
  let handle: (request: PaidRequest, response: ServerResponse) => unknown;

  /** A gate with claims of its own: another provider, as far as the payment is concerned. */
  async function open(): Promise<string> {
    const { usdc } = world;
    const verify = "onchain" as const;
    const offerReceipt = { key: STATEMENT_KEY };
    const provider = world.provider({ token: { ...usdc, currency: "USD" }, verify, offerReceipt });
    const over = world.provider({ token: { ...usdc, transferMethod: "permit2" }, verify, offerReceipt });
    providers.push(provider, over);
    const gates = {
      "/upto": provider.paymentGate({ pricing: [{ type: "upto", max: "$0.05" }] }),
      "/exact": over.paymentGate({ pricing: [{ type: "one-time", amount: MAX }] }),
      "/choice": provider.paymentGate({
        pricing: [
          { type: "upto", max: "$0.05" },
          { type: "one-time", price: "$0.06" },
        ],
      }),
    };
    const listeners = Object.entries(gates).map(
      ([path, gate]) =>
        [
          path,
          gated(gate, (request, response) => {
            runs++;
            return handle(request, response);
          }),
        ] as const,
    );
    const find = (request: IncomingMessage) => listeners.find(([path]) => request.url === path)?.[1];
    const server = createServer((request, response) => find(request)?.(request, response));
    for (const gate of Object.values(gates)) await gate.ready();
    stops.push(() => closeServer(server));
    return listen(server);
  }

  before(async () => {
    world = await startInteropWorld();
    providers = [];
    urls = [await open(), await open()];
  });
  after(async () => {
    for (const stop of stops) await stop();
    for (const provider of providers ?? []) await provider.close();
    await world?.stop();
  });
  beforeEach(() => {
    runs = 0;
    handle = (request, response) => {
      request.payment?.charge(12_345);
      response.end("the content");
    };
  });

  async function pay(path: string, payer: Payer): Promise<Paid> {
    const stock = v2.fetch();
    const chain = viem().createPublicClient({ chain: baseSepolia(), transport: viem().http(world.chain.rpcUrl) });
    const signer = v2.signer().toClientEvmSigner(payer.account, chain);
    const client = new stock.x402Client()
      .register("eip155:*", new (v2.clientScheme().ExactEvmScheme)(signer))
      .register("eip155:*", new (v2.uptoClientScheme().UptoEvmScheme)(signer));
    let headers: Record<string, string> = {};
    const watched: typeof fetch = async (input, init) => {
      const request = new Request(input, init);
      const signature = request.headers.get("PAYMENT-SIGNATURE");
      if (signature) headers = { "PAYMENT-SIGNATURE": signature };
      return fetch(request);
    };
    const answer = await stock.wrapFetchWithPayment(watched, client)(`${urls[0]}${path}`);
    const receipt = answer.headers.get("PAYMENT-RESPONSE");
    const decoded = receipt === null ? undefined : stock.decodePaymentResponseHeader(receipt);
    return { status: answer.status, text: await answer.text(), receipt: decoded, headers };
  }

  async function approved(): Promise<Payer> {
    const payer = await world.payer();
    await world.chain.provider.send("hardhat_setBalance", [payer.address, "0x3635c9adc5dea00000"]);
    const abi = ["function approve(address spender, uint256 amount) returns (bool)"];
    const token = new Contract(world.usdc.address, abi, new Wallet(payer.key, world.chain.provider));
    await (await token.getFunction("approve")(PERMIT2, 10n ** 9n)).wait();
    return payer;
  }

  it("HU1 a stock client pays what the handler charges, and exact over Permit2", async () => {
    const payer = await approved();
    await recordPaid("upto-gate", { ...AT_GATE, client: "@x402/fetch", offer: "up to 0.05" }, async () => {
      const upto = await pay("/upto", payer);
      expect([upto.status, upto.text, upto.receipt?.amount]).to.deep.equal([200, "the content", "12345"]);
      expect(await world.transfers(payer.address)).to.deep.equal([12_345n]);
    });
    await recordPaid("upto-gate", { ...AT_GATE, client: "@x402/fetch", offer: "0.05" }, async () => {
      const exact = await pay("/exact", payer);
      expect([exact.status, exact.receipt?.success]).to.deep.equal([200, true]);
      expect(await world.transfers(payer.address)).to.deep.equal([12_345n, MAX]);
    });
  });

  it("a stock client without gas and without an allowance pays by its permit", async () => {
    for (const { path, offer, moved } of ROUTES) {
      const payer = await world.payer();
      const at = { ...AT_GATE, client: "@x402/fetch", offer, method: "Permit2, permit" } as const;
      await recordPaid("upto-gate", at, async () => {
        expect((await pay(path, payer)).status, path).to.equal(200);
        expect(await world.transfers(payer.address), path).to.deep.equal([moved]);
      });
    }
  });

  for (const method of ["Permit2", "Permit2, permit"] as const) {
    it(`the agent pays what the handler charges, and exact, against signed receipts (${method})`, async () => {
      for (const { path, offer, scheme, moved } of ROUTES) {
        const payer = method === "Permit2" ? await approved() : await world.payer();
        await recordPaid("upto-gate", { ...AT_GATE, client: "turnpike agent", offer, method }, async () => {
          const { status, receipt } = await payByAgent(path, payer, { methods: ["permit2", "upto"] });
          const charged = scheme === "upto" ? moved : undefined;
          expect([status, receipt?.amount, receipt?.charged], path).to.deep.equal([200, MAX, charged]);
          expect(receipt?.signedOffer?.payload, path).to.include({ scheme, amount: `${MAX}` });
          const { transaction, payer: named } = receipt?.signedReceipt?.payload ?? {};
          expect([transaction, named], path).to.deep.equal([receipt?.transaction, payer.address]);
          expect(await world.transfers(payer.address), path).to.deep.equal([moved]);
        });
      }
    });
  }

  it("the agent chooses between upto and a transfer by its policy", async () => {
    const payer = await approved();
    const methods = ["eip3009", "upto"] as const;
    await payByAgent("/choice", payer, { methods });
    await payByAgent("/choice", payer, { methods, prefer: { methods: ["upto"] } });
    expect(await world.transfers(payer.address)).to.deep.equal([60_000n, 12_345n]);
  });

  /** Rejects where offer or receipt are not signed as the policy requires. */
  async function payByAgent(
    path: string,
    payer: Payer,
    policy: Pick<AgentPolicy, "methods" | "prefer">,
  ): Promise<PaidResponse> {
    const [origin = ""] = urls;
    const receiptSigners = { [origin]: [addressOfKey(STATEMENT_KEY)] };
    const limits = { perPayment: 60_000n, perDay: 600_000n, tokens: [world.usdc.address] };
    const agent = createAgent({
      wallet: walletFromKey(payer.key),
      policy: { ...limits, requireReceipt: true, receiptSigners, ...policy },
      facilitators: [world.facilitatorUrl],
      deployments: [{ chainId: CHAIN_ID, turnpike: world.contracts.turnpike }],
      rpc: world.chain.rpcUrl,
    });
    try {
      return await agent.pay(`${origin}${path}`);
    } finally {
      await agent.close();
    }
  }

  it("HU9 one payload buys at one of two gates, whichever charges first, and once", async () => {
    const payer = await approved();
    const { headers } = await pay("/upto", payer);
    const again = await send(`${urls[0]}/upto`, { headers });
    expect([again.status, again.json.error]).to.deep.equal([402, "PaymentAlreadyUsed"]);
    const elsewhere = await send(`${urls[1]}/upto`, { headers });
    expect(elsewhere.status).to.equal(402);
    expect([runs, await world.transfers(payer.address)]).to.deep.equal([1, [12_345n]]);
  });

  it("HU3 a charge of nothing moves nothing, and is not served again at either gate", async () => {
    const payer = await approved();
    handle = (request, response) => {
      request.payment?.charge("$0.00");
      response.end("the content");
    };
    const { status, receipt, headers } = await pay("/upto", payer);
    expect([status, receipt?.success, receipt?.transaction, receipt?.amount]).to.deep.equal([200, true, "", "0"]);
    for (const url of urls) expect((await send(`${url}/upto`, { headers })).status).to.equal(402);
    expect([runs, await world.transfers(payer.address)]).to.deep.equal([1, []]);
  });

  it("HU2 a charge above the maximum is a 500, charges nothing, and leaves the balance free", async () => {
    const payer = await approved();
    handle = (request, response) => {
      request.payment?.charge(MAX + 1n);
      response.end("the content");
    };
    expect((await pay("/upto", payer)).status).to.equal(500);
    expect(await world.transfers(payer.address)).to.deep.equal([]);
  });

  it("HU8 a stranger that submits a payment first moves nothing, and one that expires meanwhile gives nothing", async () => {
    const payer = await approved();
    let reverted: unknown;
    handle = async (request, response) => {
      reverted = await submitFirst(request).catch((error: Error) => error.message);
      request.payment?.charge(12_345);
      response.end("the content");
    };
    expect((await pay("/upto", payer)).status).to.equal(200);
    expect(reverted).to.be.a("string").and.include("revert");
    expect(await world.transfers(payer.address)).to.deep.equal([12_345n]);

    const late = await approved();
    handle = async (_request, response) => {
      await world.chain.provider.send("evm_increaseTime", [400]);
      await world.chain.provider.send("evm_mine", []);
      response.end("the content");
    };
    const answer = await pay("/upto", late);
    expect(answer.status, answer.text).to.be.oneOf([402, 503]);
    expect(answer.text).not.to.include("the content");
    expect(await world.transfers(late.address)).to.deep.equal([]);
  });

  /** Calls the proxy with what the payer has signed, for the whole maximum. */
  async function submitFirst({ headers }: IncomingMessage): Promise<unknown> {
    const { payload } = JSON.parse(Buffer.from(String(headers["payment-signature"]), "base64").toString());
    const { permitted, nonce, deadline, from, witness } = payload.permit2Authorization;
    const permit = [[permitted.token, permitted.amount], nonce, deadline];
    const terms = [witness.to, witness.facilitator, witness.validAfter];
    const data = uptoProxyInterface.encodeFunctionData("settle", [permit, MAX, from, terms, payload.signature]);
    const stranger = await world.chain.wallet("a stranger");
    return stranger.call({ to: UPTO_PERMIT2_PROXY, data });
  }
});
