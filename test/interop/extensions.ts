import { expect } from "chai";
import type { Provider } from "turnpike/gate";
import { personalDigest, signInMessage } from "turnpike/protocol";
import { agentOf, v2Client } from "./support/clients";
import { ADAPTERS, type Served } from "./support/gates";
import { recordPaid } from "./support/matrix";
import { v2 } from "./support/stock";
import { type InteropWorld, type Payer, startInteropWorld } from "./support/world";

interface Required {
  readonly accepts: object[];
  readonly extensions: Record<string, { info: Record<string, unknown>; supportedChains?: object[]; schema: object }>;
}

const SIGNING_IN = {
  client: "@x402/fetch, which signs in",
  server: "turnpike express",
  offer: "0.05 or a subscription",
} as const;

// The extensions of version 2, spoken with the stock package of extensions.
describe("interop > extensions of version 2", function () {
  // Many real blocks, on machines that may be slow.
  this.timeout(240_000);
  let world: InteropWorld;
  let provider: Provider;
  let server: Served;

  before(async () => {
    world = await startInteropWorld();
    provider = world.provider();
    const plan = { type: "subscription", plan: world.planId } as const;
    const one = { type: "one-time", amount: 50_000n } as const;
    const start = ADAPTERS.express;
    if (!start) throw new TypeError("no Express");
    server = await start(provider, {
      "/choice": {
        pricing: [plan, one],
        discovery: { queryParams: { symbol: "ABC" }, output: { type: "json", example: { answer: 42 } } },
      },
      "/plan": { pricing: [plan] },
    });
  });
  after(async () => {
    await server.stop();
    await provider.close();
    await world.stop();
  });

  async function requiredOf(path: string): Promise<Required> {
    const answer = await fetch(`${server.url}${path}`);
    return v2.http().decodePaymentRequiredHeader(String(answer.headers.get("PAYMENT-REQUIRED"))) as never;
  }

  async function subscribed(payer: Payer): Promise<void> {
    const agent = agentOf(world, payer, 5_000_000n);
    await agent.subscribe({ planId: world.planId });
    await agent.close();
  }

  it("are in a header that the stock schema takes whole", async () => {
    const required = await requiredOf("/choice");
    v2.schemas().validatePaymentRequired(required);
    expect(required.extensions).to.have.all.keys("payment-identifier", "sign-in-with-x", "hoodlayer", "bazaar");
    expect(required.extensions.hoodlayer?.info).to.deep.include({ facilitator: world.facilitatorUrl });
  });

  it("payment-identifier: the stock client's id is bound to its payment", async () => {
    const { validatePaymentIdentifier, appendPaymentIdentifierToExtensions } = v2.paymentIdentifier();
    expect(validatePaymentIdentifier((await requiredOf("/choice")).extensions["payment-identifier"])).to.include({
      valid: true,
    });
    const payer = await world.payer();
    const id = "pay_7d5d747be160e280504c099d984bcfe0";
    const payOnce = () => {
      const stock = v2.fetch();
      const client = v2Client(stock, payer.account).onAfterPaymentCreation(async ({ paymentPayload }) => {
        appendPaymentIdentifierToExtensions(paymentPayload.extensions as object, id);
      });
      return stock.wrapFetchWithPayment(fetch, client)(`${server.url}/choice`);
    };
    const before = server.runs();
    expect((await payOnce()).status).to.equal(200);
    expect((await payOnce()).status).to.equal(409);
    expect(await world.transfers(payer.address)).to.deep.equal([50_000n]);
    expect(server.runs() - before).to.equal(1);
  });

  it("bazaar: a stock catalogue can read how to call the resource from what clients echo", async () => {
    const { validateDiscoveryExtension, extractDiscoveryInfo } = v2.bazaar();
    const { extensions, accepts } = await requiredOf("/choice");
    const verdict = validateDiscoveryExtension(extensions.bazaar);
    expect(verdict.valid, JSON.stringify(verdict.errors)).to.equal(true);
    const echoed = { x402Version: 2, resource: { url: `${server.url}/choice` }, accepted: accepts[0], extensions };
    const found = extractDiscoveryInfo({ ...echoed, payload: {} }, accepts[0] as object);
    expect(found).to.include({ method: "GET", resourceUrl: `${server.url}/choice` });
  });

  for (const kind of ["key", "EIP-7702"] as const) {
    it(`sign-in-with-x: the stock wrapper lets a subscriber in (${kind}), and everyone else pays or is refused`, async () => {
      const { wrapFetchWithSIWx, createSIWxClientExtension } = v2.signIn();
      const payer = await world.payer(kind);
      const stranger = await world.payer();
      const url = `${server.url}/choice`;
      const refused = await wrapFetchWithSIWx(fetch, stranger.account)(url);
      expect([refused.status, (await refused.json()).reason]).to.deep.equal([402, "sign_in_no_subscription"]);
      await subscribed(payer);
      expect((await wrapFetchWithSIWx(fetch, payer.account)(url)).status).to.equal(200);

      // The same inside the paying client: it signs in where it can, and pays where it cannot.
      const stock = v2.fetch();
      for (const [who, moved] of [
        [payer, []],
        [stranger, [50_000n]],
      ] as const) {
        const already = (await world.transfers(who.address)).length;
        const extension = createSIWxClientExtension({ signers: [who.account] });
        const client = v2Client(stock, who.account).registerExtension(extension);
        const pays = async () => {
          expect((await stock.wrapFetchWithPayment(fetch, client)(url)).status).to.equal(200);
          expect((await world.transfers(who.address)).slice(already)).to.deep.equal(moved);
        };
        await (who === stranger && kind === "key" ? recordPaid("extensions", SIGNING_IN, pays) : pays());
      }
    });
  }

  it("HB6 sign-in-with-x: both stock sign-ins let a subscriber in where only plans are sold, and nobody pays", async () => {
    const url = `${server.url}/plan`;
    v2.schemas().validatePaymentRequired(await requiredOf("/plan"));
    const { wrapFetchWithSIWx, createSIWxClientExtension } = v2.signIn();
    const stock = v2.fetch();
    const payer = await world.payer();
    const stranger = await world.payer();
    await subscribed(payer);
    const before = await world.transfers(payer.address);
    const payingFetch = (who: Payer) => {
      const extension = createSIWxClientExtension({ signers: [who.account] });
      const client = v2Client(stock, who.account, { unlimited: true }).registerExtension(extension);
      return stock.wrapFetchWithPayment(fetch, client);
    };
    expect((await wrapFetchWithSIWx(fetch, payer.account)(url)).status).to.equal(200);
    expect((await payingFetch(payer)(url)).status).to.equal(200);
    expect(await world.transfers(payer.address)).to.deep.equal(before);

    const refused = await wrapFetchWithSIWx(fetch, stranger.account)(url);
    expect([refused.status, (await refused.json()).reason]).to.deep.equal([402, "sign_in_no_subscription"]);
    await payingFetch(stranger)(url).catch(() => undefined);
    expect(await world.transfers(stranger.address)).to.deep.equal([]);
  });

  it("sign-in-with-x: the signed text is the stock package's, to the byte", async () => {
    const payer = await world.payer();
    const { info, supportedChains } = (await requiredOf("/plan")).extensions["sign-in-with-x"] ?? {};
    const said: string[] = [];
    const spy = {
      address: payer.address,
      signMessage: async ({ message }: { message: string }) => {
        said.push(message);
        return payer.account.signMessage({ message } as never);
      },
    };
    const more = [
      {},
      { requestId: "request-1", notBefore: "2026-01-01T00:00:00.000Z", resources: ["https://a.example/x", "ipfs://y"] },
      { statement: undefined },
    ];
    for (const fields of more) {
      const asked = { ...info, ...supportedChains?.[0], ...fields };
      const payload = await v2.signIn().createSIWxPayload(asked, spy as never, `${server.url}/plan`);
      expect(signInMessage(payload as never)).to.equal(said.at(-1));
    }
    expect(personalDigest("")).to.equal("0x5f35dce98ba4fba25530a026ed80b2cecdaa31091ba4958b99b52ea1d068adad");
  });
});
