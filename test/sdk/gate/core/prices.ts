/** Prices as people write them, in the pricing of a route. */
import { expect } from "chai";
import type { PricingEntry, ProviderOptions } from "turnpike/gate";
import { createTestProvider } from "turnpike/testing";
import {
  addressOf,
  FRAMEWORKS,
  quoteOf,
  type SmallFacilitator,
  send,
  startSmallFacilitator,
  TOKEN,
  testProvider,
} from "../../../support/gate";

const TOKEN_USD = { address: TOKEN, name: "Test USD", version: "1", decimals: 6, currency: "USD" } as const;
const SYMBOL = { ...TOKEN_USD, symbol: "TUSD" };

describe("prices in decimals", () => {
  let facilitator: SmallFacilitator;
  const open: { stop?(): Promise<void>; close?(): Promise<void> }[] = [];

  before(async () => {
    facilitator = await startSmallFacilitator();
  });
  after(() => facilitator.stop());
  afterEach(async () => {
    for (const each of open.splice(0).reverse()) await (each.stop?.() ?? each.close?.());
  });

  const provider = (more: ProviderOptions = { token: SYMBOL }) => {
    const made = testProvider(facilitator, more);
    open.push(made);
    return made;
  };
  const faultOf = (pricing: unknown, more?: ProviderOptions) => () =>
    void provider(more).gate({ pricing: pricing as PricingEntry[] });

  it("quotes what a price means in the token's base units, fixed or by the request", async () => {
    const routes = [
      { path: "/fixed", gate: { pricing: [{ type: "one-time", price: "$0.05" }] } },
      { path: "/symbol", gate: { pricing: [{ type: "one-time", price: "0.05 TUSD" }] } },
      {
        path: "/computed",
        gate: { pricing: [{ type: "one-time", price: (request: { url: string }) => `$0.${request.url.slice(-2)}` }] },
      },
      { path: "/amount", gate: { pricing: [{ type: "one-time", amount: 50_000 }] } },
    ];
    const server = await FRAMEWORKS.express(provider(), routes as never);
    open.push(server);
    const amounts = await Promise.all(
      ["/fixed", "/symbol", "/computed?n=05", "/amount"].map(async (path) => {
        const [entry] = (await quoteOf(`${server.url}${path}`)).accepts;
        return entry?.amount;
      }),
    );
    expect(amounts).to.deep.equal(["50000", "50000", "50000", "50000"]);
  });

  it("J7 answers 500 and serves nothing where a computed price cannot be paid exactly", async () => {
    for (const price of ["$0.0000001", "0.05 EURC", 0.05, "", undefined]) {
      const gate = { pricing: [{ type: "one-time", price: () => price }] } as never;
      const server = await FRAMEWORKS.express(provider(), [{ path: "/x", gate }]);
      open.push(server);
      expect((await send(`${server.url}/x`)).status, String(price)).to.equal(500);
      expect(server.served.size, String(price)).to.equal(0);
    }
  });

  it("J7 refuses at the start a price that cannot be charged as written, by the name of its field", () => {
    for (const [entry, problem] of [
      [{ price: "$0.0000001" }, 'pricing[0].price is "$0.0000001", which has 7 fraction digits'],
      [{ price: 0.05 }, "pricing[0].price is the number 0.05: a price is text"],
      [{ price: "$0" }, "pricing[0].price is 0"],
      [
        { price: "500000" },
        'pricing[0].price is "500000", which could mean base units or whole tokens: write "$500000"',
      ],
      [{ price: "$1", amount: 1 }, "pricing[0] needs one of `price`"],
      [{}, "pricing[0] needs one of `price`"],
    ] as const) {
      expect(faultOf([{ type: "one-time", ...entry }]), problem).to.throw(problem);
    }
  });

  it("J7 refuses a field that is misspelt, or that a price or a route does not have", () => {
    const one = { type: "one-time", amount: 1_000 };
    for (const [pricing, problem] of [
      [[{ ...one, payto: addressOf("a payee") }], "pricing[0] has payto, which is no option here"],
      [
        [{ type: "one-time", prices: [{ amount: 1_000, payto: addressOf("a payee") }] }],
        "pricing[0].prices[0] has payto",
      ],
      [[{ type: "upto", max: "$1", settle: "before" }], "pricing[0] has settle"],
      [[{ type: "subscription", plan: `0x${"11".repeat(32)}`, price: "$1" }], "pricing[0] has price"],
    ] as const) {
      expect(faultOf(pricing), problem).to.throw(problem);
    }
    const options = { pricing: [one], payTo: addressOf("a payee") };
    expect(() => void provider().gate(options as never)).to.throw("paymentGate has payTo, which is no option here");
  });

  it("J8 refuses dollars for a token that nobody called a dollar", () => {
    const dollars = [{ type: "one-time", price: "$0.05" }];
    const { currency: _, ...plain } = SYMBOL;
    expect(faultOf(dollars, { token: plain })).to.throw("write the price in TUSD");
    expect(faultOf(dollars, { token: TOKEN })).to.throw("TURNPIKE_TOKEN_CURRENCY");
    const other = { network: "base-mainnet", token: addressOf("another token") };
    expect(faultOf(dollars, other)).to.throw("TURNPIKE_TOKEN_CURRENCY");
    expect(faultOf(dollars, { token: { ...SYMBOL, currency: "EUR" as never } })).to.throw('token.currency is "EUR"');
    expect(faultOf(dollars, { token: { ...SYMBOL, decimals: 6.5 } })).to.throw("token.decimals is 6.5");
    expect(faultOf(dollars, { network: "base-mainnet", token: undefined as never })).to.not.throw();
  });

  it("says once at the start that stock version 1 clients cannot read a network's default name", async () => {
    const hints: string[] = [];
    const note = ({ message }: Error) => void (message.includes("TURNPIKE_NETWORK_NAMES") && hints.push(message));
    process.on("warning", note);
    const sell = (more: ProviderOptions) =>
      faultOf([{ type: "one-time", price: "$1" }], { token: undefined as never, ...more })();
    for (const networkNames of ["turnpike", "x402-v1"] as const) sell({ network: "polygon-mainnet", networkNames });
    sell({ network: "base-sepolia" });
    for (let i = 0; i < 2; i++) sell({ network: "polygon-mainnet" });
    await new Promise((resolve) => setImmediate(resolve));
    process.off("warning", note);
    expect(hints).to.have.length(1);
    expect(hints[0]).to.include('"polygon-mainnet"').and.include('to write "polygon"');
  });

  it("reads them in an application's own tests", async () => {
    const { provider: made } = createTestProvider();
    const pricing = [{ type: "one-time", price: "$0.05" }] as const;
    const server = await FRAMEWORKS.express(made, [{ path: "/x", gate: { pricing } }]);
    open.push(server, made);
    expect((await quoteOf(`${server.url}/x`)).accepts[0]?.amount).to.equal("50000");
  });
});
