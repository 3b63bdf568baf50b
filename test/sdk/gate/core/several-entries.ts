/** One route sold in several tokens and on several networks: each payment counts for exactly the entry that it paid. */
import { createServer, type Server } from "node:http";
import { json } from "node:stream/consumers";
import { expect } from "chai";
import { AbiCoder, Wallet } from "ethers";
import type { PricingEntry, ProviderOptions } from "turnpike/gate";
import {
  type AcceptEntryWire,
  checksum,
  encodeJsonHeader,
  type Hex,
  keccakText,
  type TurnpikeError,
  transferTypedData,
} from "turnpike/protocol";
import { createTestProvider } from "turnpike/testing";
import {
  addressOf,
  CHAIN_ID,
  closeServer,
  FRAMEWORKS,
  headerOf,
  keyOf,
  listen,
  NOW,
  PAY_TO,
  type ProofFields,
  proofOf,
  quoteOf,
  type SmallFacilitator,
  send,
  signedSettlement,
  startSmallFacilitator,
  TOKEN,
  testProvider,
} from "../../../support/gate";
import { requiredIn } from "../support/standard";

const OTHER_CHAIN = 31_338;
const OTHER_TOKEN = { address: checksum(`0x${"80".repeat(20)}`), name: "Other USD", version: "2", decimals: 18 };
const SECOND_TOKEN = { address: checksum(`0x${"90".repeat(20)}`), name: "Second USD", version: "1" };
const OTHER_PAY_TO = addressOf("treasury elsewhere");
/** Nothing listens there. */
const DEAD = "http://127.0.0.1:1";

interface Signed {
  readonly chainId: number;
  readonly token: { readonly address: string; readonly name: string; readonly version: string };
}

const DOMAINS: Record<string, Signed> = {
  [TOKEN]: { chainId: CHAIN_ID, token: { address: TOKEN, name: "Test USD", version: "1" } },
  [SECOND_TOKEN.address]: { chainId: CHAIN_ID, token: SECOND_TOKEN },
  [OTHER_TOKEN.address]: { chainId: OTHER_CHAIN, token: OTHER_TOKEN },
};

/** The payload of a stock client that pays one entry. */
async function exactOf(
  entry: { readonly payTo: string; readonly amount?: string | undefined },
  signed: Signed,
  n: string,
) {
  const wallet = new Wallet(keyOf("payer"));
  const authorization = {
    from: wallet.address as Hex,
    to: entry.payTo as Hex,
    value: BigInt(entry.amount ?? "0"),
    validAfter: 0n,
    validBefore: BigInt(NOW + 300),
    nonce: keccakText(`several entries ${n}`),
  };
  const { address: token, name, version } = signed.token;
  const typed = transferTypedData({ chainId: signed.chainId, token: token as Hex, name, version }, authorization);
  const signature = await wallet.signTypedData(typed.domain as never, typed.types as never, typed.message);
  const wire = Object.fromEntries(Object.entries(authorization).map(([key, each]) => [key, String(each)]));
  return { signature, authorization: wire };
}

const v1Header = async (entry: AcceptEntryWire, signed: Signed, n: string) => {
  const payload = await exactOf(entry, signed, n);
  return { "X-PAYMENT": encodeJsonHeader({ x402Version: 1, scheme: "exact", network: entry.network, payload }) };
};

const onOther = (fields: ProofFields = {}): ProofFields => ({ chainId: OTHER_CHAIN, signedBy: "elsewhere", ...fields });

describe("a route that is sold in several tokens and on several networks", () => {
  let here: SmallFacilitator;
  let there: SmallFacilitator;
  const open: { stop?(): Promise<void>; close?(): Promise<void> }[] = [];

  beforeEach(async () => {
    here = await startSmallFacilitator();
    there = await startSmallFacilitator();
    const elsewhere = { network: `local-${OTHER_CHAIN}`, chainId: OTHER_CHAIN };
    there.supported = { ...there.supported, ...elsewhere, proofSigners: [addressOf("elsewhere")] };
    there.settle = (asked) => signedSettlement(asked, `0x${"ef".repeat(32)}`, "elsewhere", OTHER_CHAIN);
  });
  afterEach(async () => {
    for (const each of open.splice(0).reverse()) await (each.stop?.() ?? each.close?.());
    await Promise.all([here.stop(), there.stop()]);
  });

  const elsewhere = () => ({
    network: `local-${OTHER_CHAIN}`,
    token: OTHER_TOKEN,
    payTo: OTHER_PAY_TO,
    facilitator: { url: there.url, signers: [addressOf("elsewhere")] },
    amount: 500_000_000_000_000_000n,
  });
  const single = { amount: 500_000n };
  const second = { token: SECOND_TOKEN, amount: 500_000n };

  async function serve(prices: readonly object[], more: ProviderOptions = {}): Promise<string> {
    const provider = testProvider(here, more);
    const pricing = [{ type: "one-time", prices }] as unknown as PricingEntry[];
    const server = await FRAMEWORKS.express(provider, [{ path: "/x", gate: { pricing } }]);
    open.push(provider, server);
    return `${server.url}/x`;
  }

  async function entries(url: string): Promise<[AcceptEntryWire, AcceptEntryWire]> {
    const { accepts } = await quoteOf(url);
    return accepts as unknown as [AcceptEntryWire, AcceptEntryWire];
  }

  it("quotes each with its own network, token, payee, Facilitator and memo, in both versions", async () => {
    const url = await serve([elsewhere(), single]);
    const unpaid = await send(url);
    const [a, b] = unpaid.json.accepts;
    expect([a.network, a.token, a.payTo, a.amount, a.hoodlayer.facilitator, a.extra.name]).to.deep.equal([
      ...[`local-${OTHER_CHAIN}`, OTHER_TOKEN.address, OTHER_PAY_TO, "500000000000000000", there.url, "Other USD"],
    ]);
    expect([b.network, b.token, b.payTo, b.amount, b.hoodlayer.facilitator, b.extra.name]).to.deep.equal([
      ...[`local-${CHAIN_ID}`, TOKEN, PAY_TO, "500000", here.url, "Test USD"],
    ]);
    expect(a.memo).to.not.equal(b.memo);
    const { accepts } = requiredIn(unpaid);
    expect(accepts.map(({ network, payTo }) => [network, payTo])).to.deep.equal([
      [`eip155:${OTHER_CHAIN}`, OTHER_PAY_TO],
      [`eip155:${CHAIN_ID}`, PAY_TO],
    ]);
    // As whole tokens: 0.4 of the token with 18 decimals is the cheapest, whatever the order of the options.
    const cheaper = await serve([single, { ...elsewhere(), amount: 400_000_000_000_000_000n }]);
    expect((await entries(cheaper))[0].network).to.equal(`local-${OTHER_CHAIN}`);
  });

  it("serves a proof, a payload of version 1 and one of version 2 for each", async () => {
    const url = await serve([elsewhere(), single, second]);
    const { accepts } = (await send(url)).json;
    for (const entry of accepts as AcceptEntryWire[]) {
      const isOther = entry.network === `local-${OTHER_CHAIN}`;
      const signed = DOMAINS[String(entry.token)] as Signed;
      const proof = await send(url, { headers: headerOf(proofOf(entry, isOther ? onOther() : {})) });
      expect(proof.status, proof.text).to.equal(200);
      const v1 = await send(url, { headers: await v1Header(entry, signed, `v1 ${entry.token}`) });
      expect(v1.status, v1.text).to.equal(200);
      const receipt = JSON.parse(Buffer.from(String(v1.headers["x-payment-response"]), "base64").toString());
      expect(receipt.network).to.equal(entry.network);
      const required = requiredIn(await send(url));
      const accepted = required.accepts.find((each) => each.payTo === entry.payTo && each.asset === entry.token);
      const payload = await exactOf(entry, signed, `v2 ${entry.token}`);
      const body = { x402Version: 2, payload, accepted, resource: required.resource };
      const v2 = await send(url, { headers: { "PAYMENT-SIGNATURE": encodeJsonHeader(body) } });
      expect(v2.status, v2.text).to.equal(200);
      const asked = (isOther ? there : here).calls.filter(({ path }) => path === "/settle").at(-2);
      const { asset } = (asked as never as { body: { paymentRequirements: { asset: string } } }).body
        .paymentRequirements;
      expect(asset).to.equal(entry.token);
    }
    expect(there.calls.map(({ path }) => path)).to.deep.equal(["/proofs/verify", "/settle", "/settle"]);
  });

  it("C21 refuses a payment of one entry as another's, whichever of its facts are exchanged", async () => {
    const url = await serve([elsewhere(), single]);
    const [a, b] = await entries(url);
    const lies: [string, AcceptEntryWire, ProofFields, string][] = [
      ["the other Facilitator's signature", a, { chainId: OTHER_CHAIN }, "facilitator"],
      ["the other Facilitator's signature here", b, { signedBy: "elsewhere" }, "facilitator"],
      ["the memo of the other entry", { ...b, memo: a.memo as string }, {}, "memo"],
      ["the other network's name", { ...a, network: b.network }, { signedBy: "elsewhere" }, "memo"],
      ["the other network's name and Facilitator", { ...a, network: b.network }, {}, "memo"],
      ["the other token", { ...b, token: a.token as Hex }, {}, "memo"],
      ["the other payee", { ...b, payTo: a.payTo }, {}, "memo"],
      ["the cheaper number of the other token", { ...a, amount: b.amount as string }, onOther(), "memo"],
      ["another chain's signature", a, onOther({ chainId: CHAIN_ID }), "signature"],
      ["a network that is not sold", { ...a, network: "local-1" }, onOther(), "network"],
    ];
    for (const [what, entry, fields, reason] of lies) {
      const answer = await send(url, { headers: headerOf(proofOf(entry, fields)) });
      expect([answer.status, answer.json.reason], what).to.deep.equal([402, reason]);
    }
    const required = requiredIn(await send(url));
    const [first, last] = required.accepts as unknown as [Record<string, unknown>, Record<string, unknown>];
    const payload = await exactOf(a, DOMAINS[OTHER_TOKEN.address] as Signed, "echoes another");
    for (const accepted of [last, { ...first, network: last.network }, { ...first, extra: last.extra }]) {
      const body = { x402Version: 2, payload, accepted, resource: required.resource };
      const answer = await send(url, { headers: { "PAYMENT-SIGNATURE": encodeJsonHeader(body) } });
      expect([answer.status, answer.json.error]).to.deep.equal([402, "InvalidPaymentProof"]);
    }
    for (const facilitator of [here, there]) expect(facilitator.calls).to.deep.equal([]);
  });

  it("C21 serves one payment once, and a used one at neither entry", async () => {
    const url = await serve([elsewhere(), single]);
    const [a, b] = await entries(url);
    const paid = headerOf(proofOf(a, onOther()));
    expect((await send(url, { headers: paid })).status).to.equal(200);
    for (const headers of [paid, headerOf(proofOf({ ...a, network: b.network }, onOther()))]) {
      expect((await send(url, { headers })).status).to.equal(402);
    }
  });

  it("C21 takes a version 1 payload for the token that its signature names, where two cost the same", async () => {
    const url = await serve([single, second]);
    const [a] = await entries(url);
    const answer = await send(url, { headers: await v1Header(a, DOMAINS[SECOND_TOKEN.address] as Signed, "second") });
    expect(answer.status, answer.text).to.equal(200);
    const asked = here.calls.at(-1)?.body as { paymentRequirements: { asset: string } };
    expect(asked.paymentRequirements.asset).to.equal(SECOND_TOKEN.address);
  });

  it("C22 sells and serves the others while one entry's chain or Facilitator is out", async () => {
    const unread = { ...elsewhere(), token: OTHER_TOKEN.address, rpcUrl: DEAD };
    const url = await serve([unread, single]);
    const [a, none] = await entries(url);
    expect([a.network, none]).to.deep.equal([`local-${CHAIN_ID}`, undefined]);
    expect((await send(url, { headers: headerOf(proofOf(a)) })).status).to.equal(200);
    const asked = { network: unread.network, payTo: OTHER_PAY_TO, amount: String(unread.amount) } as AcceptEntryWire;
    const unjudged = await send(url, { headers: await v1Header(asked, DOMAINS[OTHER_TOKEN.address] as Signed, "out") });
    expect([unjudged.status, unjudged.json.error], "an outage is no refusal").to.deep.equal([503, "Unavailable"]);

    const both = await serve([elsewhere(), single]);
    const [theirs, ours] = await entries(both);
    there.mode = "down";
    expect((await send(both, { headers: headerOf(proofOf(theirs, onOther())) })).status).to.equal(503);
    expect((await send(both, { headers: headerOf(proofOf(ours)) })).status).to.equal(200);
    expect((await send(both)).status).to.equal(402);
  });

  it("C22 is 503 where no entry can be quoted", async () => {
    const unread = { ...elsewhere(), token: OTHER_TOKEN.address, rpcUrl: DEAD };
    const unpaid = await send(await serve([unread]));
    expect([unpaid.status, unpaid.json.error]).to.deep.equal([503, "Unavailable"]);
  });

  it("J9 refuses at the start an entry that could not be paid as written, by the name of its field", () => {
    const provider = testProvider(here);
    open.push(provider);
    const whole = elsewhere();
    const wrong = TOKEN.replace("0x70", "0x71");
    const without = (name: string) => Object.fromEntries(Object.entries(whole).filter(([key]) => key !== name));
    const at = "pricing[0].prices[0]";
    const faults: [unknown, string][] = [
      [{ prices: [] }, "pricing[0].prices is empty"],
      [{ prices: [single], amount: 1 }, "pricing[0].amount is set beside `prices`"],
      [{ payTo: PAY_TO, amount: 1 }, "pricing[0].payTo is set outside of `prices`"],
      [{ prices: [without("payTo")] }, `${at}.payTo is not set`],
      [{ prices: [without("facilitator")] }, `${at}.facilitator is not set`],
      [{ prices: [without("token")] }, `${at}.token is not set`],
      [{ prices: [{ ...whole, token: OTHER_TOKEN.address }] }, `${at}.rpcUrl is not set`],
      [{ prices: [{ ...whole, network: "elsewhere" }] }, `${at}.network is "elsewhere"`],
      [{ prices: [{ ...whole, payTo: "0x12" }] }, `${at}.payTo is "0x12"`],
      [{ prices: [{ ...single, token: `0xaB${wrong.slice(4)}` }] }, `${at}.token`],
      [{ prices: [{ ...single, rpcUrl: DEAD }] }, `${at}.rpcUrl is of the provider's own network`],
      [{ prices: [{ ...whole, facilitator: { url: there.url } }] }, "facilitator.signers is empty"],
      [{ prices: [single, { ...single, facilitator: whole.facilitator }] }, "twice, with different settings"],
      [{ prices: Array(17).fill(single) }, "more than 16"],
      [{ prices: [{ ...whole, amount: undefined, price: "$1" }] }, "nothing says that one token is worth one dollar"],
    ];
    for (const [entry, problem] of faults) {
      const start = () => provider.gate({ pricing: [{ type: "one-time", ...(entry as object) }] as never });
      expect(start, problem).to.throw(problem);
    }
  });

  /** A node of a chain on which every token has 6 decimals. */
  async function startNode(chainId: number): Promise<string> {
    const coder = AbiCoder.defaultAbiCoder();
    const answers: Record<string, string> = {
      "0x06fdde03": coder.encode(["string"], ["Other USD"]),
      "0x313ce567": coder.encode(["uint8"], [6]),
    };
    const node: Server = createServer(async (request, response) => {
      const { id, method, params } = (await json(request)) as {
        id: number;
        method: string;
        params: [{ data: string }];
      };
      const result = method === "eth_call" ? (answers[params[0].data] ?? "0x") : `0x${chainId.toString(16)}`;
      response.end(JSON.stringify({ jsonrpc: "2.0", id, result }));
    });
    const rpcUrl = await listen(node);
    open.push({ stop: () => closeServer(node) });
    return rpcUrl;
  }

  for (const [what, chainId, problem] of [
    ["its rpcUrl serves another chain", 8453, `network is chain ${OTHER_CHAIN}, but rpcUrl serves chain 8453`],
    [
      "its token has other decimals on the chain",
      OTHER_CHAIN,
      `token.decimals is 18, but the token ${OTHER_TOKEN.address}`,
    ],
  ] as const) {
    it(`J9 rejects ready() of an entry where ${what}`, async () => {
      const provider = testProvider(here);
      open.push(provider);
      const entry = { ...elsewhere(), rpcUrl: await startNode(chainId) };
      const gate = provider.gate({ pricing: [{ type: "one-time", prices: [single, entry] }] as never });
      const failed = await gate.ready().then(
        () => "ready",
        (error: TurnpikeError) => `${error.code}: ${error.message}`,
      );
      expect(failed).to.include(`ConfigError: ${problem}`);
    });
  }

  it("sells them in an application's own tests", async () => {
    const { provider, pay } = createTestProvider();
    const usdc = {
      network: "base-sepolia",
      payTo: PAY_TO,
      facilitator: { url: DEAD, signers: [PAY_TO] },
      price: "$0.01",
    };
    const pricing = [{ type: "one-time", prices: [usdc, { price: "$0.05" }] }] as const;
    const server = await FRAMEWORKS.express(provider, [{ path: "/x", gate: { pricing } }]);
    open.push(provider, server);
    const unpaid = await quoteOf(`${server.url}/x`);
    expect(unpaid.accepts.map(({ network }) => network)).to.deep.equal(["base-sepolia", `local-${CHAIN_ID}`]);
    expect((await send(`${server.url}/x`, { headers: pay(unpaid) })).status).to.equal(200);
  });
});
