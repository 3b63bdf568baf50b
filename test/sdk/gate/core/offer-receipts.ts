/** HA31 and HA32: the extension offer-receipt. Its statements are read as the reference defines them. */
import { expect } from "chai";
import type { GateOptions, OfferReceiptOptions, Provider } from "turnpike/gate";
import {
  offerTypedData,
  receiptTypedData,
  recoverSigner,
  type SignedOffer,
  type SignedReceipt,
  signDigest,
  type TypedData,
  typedDataDigest,
} from "turnpike/protocol";
import {
  type Answer,
  addressOf,
  headerOf,
  keyOf,
  NOW,
  ONE_TIME,
  PAY_TO,
  proofOf,
  quoteOf,
  RESERVING,
  type SmallFacilitator,
  send,
  startSmallFacilitator,
  TOKEN,
  testProvider,
} from "../../../support/gate";
import { bare, highS } from "../../../support/signature-forms";
import { ADAPTERS, type AdapterServer, type Handled, PREFIX } from "../support/frameworks";
import { requiredIn, v2Headers } from "../support/standard";

const KEY = { key: keyOf("statements") };
const SIGNER = addressOf("statements");
const NETWORK = "eip155:31337";

type Statement<T> = Extract<T, { format: "eip712" }>;

const offersIn = (answer: Answer): readonly (Statement<SignedOffer> & { acceptIndex: number })[] => {
  const extension = requiredIn(answer).extensions["offer-receipt"] as { info: { offers: never[] } } | undefined;
  return extension?.info.offers ?? [];
};

function reportIn(answer: Answer, name = "payment-response") {
  const text = answer.headers[name];
  return text === undefined ? undefined : JSON.parse(Buffer.from(String(text), "base64").toString());
}

const receiptIn = (answer: Answer): Statement<SignedReceipt> | undefined =>
  reportIn(answer)?.extensions?.["offer-receipt"].info.receipt;

describe("gate > offers and receipts", () => {
  let facilitator: SmallFacilitator;
  let provider: Provider;
  let server: AdapterServer;
  let url: string;
  let next: () => Handled;
  const warnings: string[] = [];
  const onWarning = (warning: Error) => warnings.push(`${warning.name} ${warning.message} ${warning.stack}`);

  beforeEach(async () => {
    facilitator = await startSmallFacilitator();
    facilitator.supported = RESERVING;
    next = () => ({ body: "the content" });
    warnings.length = 0;
    process.on("warning", onWarning);
  });
  afterEach(async () => {
    process.off("warning", onWarning);
    await server.stop();
    await provider.close();
    await facilitator.stop();
  });

  async function start(
    offerReceipt: OfferReceiptOptions | undefined,
    { gate = {}, adapter = "node:http" }: { gate?: object; adapter?: string } = {},
  ): Promise<void> {
    const { url: at, signer } = facilitator;
    const refunding = { url: at, signers: [signer], refundsKey: "tpk_of_this_test" };
    provider = testProvider(facilitator, { facilitator: refunding, replay: {}, ...(offerReceipt && { offerReceipt }) });
    const options = { pricing: ONE_TIME, ...gate } as GateOptions<never>;
    server = await (ADAPTERS[adapter] as (typeof ADAPTERS)[string])(provider, [
      { path: "/paid", gate: options, handle: () => next() },
    ]);
    url = `${server.url}${PREFIX}/paid?x=1`;
  }

  const proven = async (headers: object = {}) =>
    send(url, { headers: { ...headerOf(proofOf((await quoteOf(url)).accepts[0] as never)), ...headers } });

  it("are off unless a key or a signer is set", async () => {
    await start(undefined);
    expect(requiredIn(await send(url)).extensions).to.have.all.keys("payment-identifier");
    expect(Object.keys(reportIn(await proven()))).to.deep.equal(["success", "transaction", "network", "payer"]);
  });

  it("sign each entry of the header, in its order, for as long as a quote holds", async () => {
    const entries = { pricing: [...ONE_TIME, { type: "one-time", amount: 7n }] };
    await start(KEY, { gate: entries });
    const answer = await send(url);
    const { accepts } = requiredIn(answer);
    const offers = offersIn(answer);
    expect(accepts).to.have.length(2);
    expect(offers.map(({ acceptIndex }) => acceptIndex)).to.deep.equal([0, 1]);
    offers.forEach(({ format, payload, signature }, i) => {
      expect(format).to.equal("eip712");
      const { amount } = accepts[i] as { amount: string };
      const terms = { version: 1, scheme: "exact", network: NETWORK, asset: TOKEN, payTo: PAY_TO, amount };
      expect(payload).to.deep.equal({ ...terms, resourceUrl: url, validUntil: NOW + 600 });
      expect(recoverSigner(typedDataDigest(offerTypedData(payload)), signature)).to.equal(SIGNER);
    });
    // The rest of the header is what it is without.
    expect(requiredIn(answer).extensions).to.have.all.keys("offer-receipt", "payment-identifier");
    expect(requiredIn(answer).resource.url).to.equal(url);
  });

  for (const [how, pay] of [
    ["a proof", () => proven()],
    ["a standard payload", async () => send(url, { headers: await v2Headers(url) })],
  ] as const) {
    it(`sign a receipt for ${how}, with its transaction`, async () => {
      await start(KEY);
      const answer = await pay();
      expect([answer.status, answer.text]).to.deep.equal([200, "the content"]);
      const receipt = receiptIn(answer);
      const { transaction } = reportIn(answer);
      const facts = { version: 1, network: NETWORK, resourceUrl: url, payer: addressOf("payer"), issuedAt: NOW };
      expect(receipt?.payload).to.deep.equal({ ...facts, transaction });
      const digest = receipt && typedDataDigest(receiptTypedData(receipt.payload));
      expect(recoverSigner(digest as never, String(receipt?.signature))).to.equal(SIGNER);
      expect(Object.keys(reportIn(answer, "x-payment-response"))).to.not.include("extensions");
    });
  }

  it("leave the transaction out where the provider says so", async () => {
    await start({ ...KEY, transaction: false });
    expect(receiptIn(await proven())?.payload.transaction).to.equal("");
  });

  for (const adapter of Object.keys(ADAPTERS)) {
    it(`HA31 sign no receipt for a failed handler, nor for its replay, through ${adapter}`, async () => {
      await start(KEY, { adapter, gate: { settle: "before" } });
      const key = { "Idempotency-Key": "one-purchase-of-this-test" };
      for (const status of [404, 500]) {
        next = () => ({ status, body: "no" });
        const paid = { ...(await v2Headers(url, {}, {}, { sent: { headers: key } })), ...key };
        const answer = await send(url, { headers: paid });
        expect([answer.status, reportIn(answer)?.success]).to.deep.equal([status, true]);
        expect(receiptIn(answer)).to.equal(undefined);
        if (status === 404) expect(receiptIn(await send(url, { headers: paid }))).to.equal(undefined);
      }
      next = () => ({ body: "the content" });
      expect(receiptIn(await send(url, { headers: await v2Headers(url) }))?.payload.payer).to.equal(addressOf("payer"));
    });

    it(`HA31 sign no receipt for a failed handler whose payment is refunded, through ${adapter}`, async () => {
      await start(KEY, { adapter, gate: { settle: "before", refundOnFailure: true } });
      for (const status of [404, 500]) {
        next = () => ({ status, body: "no" });
        const answer = await send(url, { headers: await v2Headers(url) });
        expect([answer.status, reportIn(answer)?.success]).to.deep.equal([status, true]);
        expect(reportIn(answer, "payment-refund")).to.include({ status: "pending" });
        expect(receiptIn(answer)).to.equal(undefined);
      }
      next = () => ({ body: "the content" });
      expect(receiptIn(await send(url, { headers: await v2Headers(url) }))?.payload.payer).to.equal(addressOf("payer"));
    });
  }

  const good = async (data: TypedData) => signDigest(typedDataDigest(data), KEY.key);
  const SIGNERS: Readonly<Record<string, (data: TypedData) => Promise<string>>> = {
    "that throws": async () => {
      throw new Error(`no permission for ${KEY.key}`);
    },
    "that signs as somebody else": async (data) => signDigest(typedDataDigest(data), keyOf("other")),
    "that returns something else": async () => "0x",
    "that signs with a high s": async (data) => highS(await good(data)),
  };
  for (const [kind, signTypedData] of Object.entries(SIGNERS)) {
    it(`HA32 are left out for a signer ${kind}: prices and paid answers leave without`, async () => {
      await start({ signer: { address: SIGNER, signTypedData } });
      expect(offersIn(await send(url))).to.deep.equal([]);
      const answer = await proven();
      expect([answer.status, reportIn(answer).success, receiptIn(answer)]).to.deep.equal([200, true, undefined]);
      await new Promise(setImmediate);
      expect(warnings.filter((warning) => warning.includes("offerReceipt"))).to.have.length.above(1);
      expect(warnings.join()).to.not.include(KEY.key.slice(2));
    });
  }

  it("are signed by a signer object, which is asked once for offers that stay the same", async () => {
    let asked = 0;
    const signTypedData = (data: TypedData) => {
      asked++;
      return good(data);
    };
    await start({ signer: { address: SIGNER, signTypedData } });
    const offers = [offersIn(await send(url)), offersIn(await send(url))];
    expect(offers[0]).to.deep.equal(offers[1]);
    expect([offers[0]?.length, asked]).to.deep.equal([1, 1]);
  });

  it("leave with a v of 27 or 28 where a signer object writes 0 or 1", async () => {
    await start({ signer: { address: SIGNER, signTypedData: async (data: TypedData) => bare(await good(data)) } });
    const statements = [...offersIn(await send(url)), receiptIn(await proven())];
    expect(statements).to.have.length(2);
    for (const statement of statements) expect(statement?.signature).to.match(/1[bc]$/);
  });

  it("need a key or a signer that can sign", async () => {
    await start(undefined);
    const faults: [OfferReceiptOptions, RegExp][] = [
      [{}, /offerReceipt\.key/],
      [{ key: "0x12" }, /offerReceipt\.key .*64 hex digits/],
      [{ key: `0x${"00".repeat(32)}` }, /offerReceipt\.key .*not all zeros/],
      [{ ...KEY, signer: { address: SIGNER, signTypedData: good } }, /name one/],
      [{ signer: { address: "0x12", signTypedData: good } }, /offerReceipt\.signer\.address/],
      [{ signer: { address: SIGNER } as never }, /signTypedData/],
    ];
    for (const [offerReceipt, message] of faults) {
      const make = () => testProvider(facilitator, { offerReceipt });
      expect(make, JSON.stringify(offerReceipt)).to.throw(message);
      expect(make).to.not.throw(KEY.key);
    }
  });
});
