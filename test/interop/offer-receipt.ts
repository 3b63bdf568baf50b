import { secp256k1 } from "@noble/curves/secp256k1";
import { expect } from "chai";
import { createAgent, walletFromKey } from "turnpike/agent";
import type { Provider } from "turnpike/gate";
import { addressOfKey, type Hex, sha256, toBase64Url, utf8ToBytes } from "turnpike/protocol";
import { testKey } from "../../scripts/sandbox/chain";
import { testAccount, v2Client } from "./support/clients";
import { ADAPTERS, type Served } from "./support/gates";
import { v2 } from "./support/stock";
import { STOCK_SERVERS, type StockServer } from "./support/stock-servers";
import { CHAIN_ID, type InteropWorld, type Payer, startInteropWorld } from "./support/world";

const KEY = testKey("interop statements") as Hex;
const SIGNER = addressOfKey(KEY);

// The extension offer-receipt, both ways, with the stock package's own issuers and verifiers.
describe("interop > offers and receipts", function () {
  // Many real blocks, on machines that may be slow.
  this.timeout(240_000);
  let world: InteropWorld;
  let provider: Provider;
  const servers: Served[] = [];

  before(async () => {
    world = await startInteropWorld();
    provider = world.provider({ offerReceipt: { key: KEY } });
  });
  after(async () => {
    for (const server of servers) await server.stop();
    await provider.close();
    await world.stop();
  });

  async function startGate(adapter: string): Promise<string> {
    const one = (amount: bigint) => ({ type: "one-time", amount }) as const;
    const start = ADAPTERS[adapter];
    if (!start) throw new TypeError(`no such adapter: ${adapter}`);
    const server = await start(provider, {
      "/after": { pricing: [one(10_000n), one(20_000n)] },
      "/before": { pricing: [one(10_000n)], settle: "before" },
    });
    servers.push(server);
    return server.url;
  }

  const agentOf = (payer: Payer, origin: string, receiptSigners: readonly string[]) =>
    createAgent({
      wallet: walletFromKey(payer.key),
      policy: {
        perPayment: 100_000n,
        perDay: 1_000_000n,
        tokens: [world.usdc.address],
        requireReceipt: true,
        receiptSigners: { [origin]: receiptSigners },
      },
      facilitators: [world.facilitatorUrl],
      deployments: [{ chainId: CHAIN_ID, turnpike: world.contracts.turnpike }],
      rpc: world.chain.rpcUrl,
    });

  for (const adapter of ["express", "hono"]) {
    it(`HA30 the stock package verifies what the gate signs, through ${adapter}`, async () => {
      const stock = v2.offerReceipt();
      const origin = await startGate(adapter);
      for (const path of ["/after", "/before"]) {
        const url = `${origin}${path}?symbol=ABC`;
        const asked = await fetch(url);
        const required = v2.http().decodePaymentRequiredHeader(String(asked.headers.get("PAYMENT-REQUIRED")));
        v2.schemas().validatePaymentRequired(required);
        const { accepts } = required as unknown as { accepts: object[] };
        const offers = stock.decodeSignedOffers(stock.extractOffersFromPaymentRequired(required));
        expect(offers).to.have.length(accepts.length);
        for (const [i, offer] of offers.entries()) {
          expect((await stock.verifyOfferSignatureEIP712(offer.signedOffer)).signer).to.equal(SIGNER);
          expect(stock.findAcceptsObjectFromSignedOffer(offer, accepts)).to.deep.equal(accepts[i]);
        }

        const payer = await world.payer();
        const client = v2.fetch();
        const paid = await client.wrapFetchWithPayment(fetch, v2Client(client, payer.account))(url);
        expect(paid.status).to.equal(200);
        const receipt = stock.extractReceiptFromResponse(paid) ?? {};
        const { signer, payload } = await stock.verifyReceiptSignatureEIP712(receipt);
        const { transaction } = client.decodePaymentResponseHeader(String(paid.headers.get("PAYMENT-RESPONSE")));
        expect([signer, payload.transaction]).to.deep.equal([SIGNER, transaction]);
        expect(stock.verifyReceiptMatchesOffer(receipt, offers[0] ?? {}, [payer.address])).to.equal(true);
        expect(stock.verifyReceiptMatchesOffer(receipt, offers[0] ?? {}, [world.payTo])).to.equal(false);
      }
    });
  }

  it("the agent requires and gets the gate's receipt for a native payment", async () => {
    const origin = await startGate("node:http");
    const payer = await world.payer();
    const agent = agentOf(payer, origin, [SIGNER]);
    const { receipt } = await agent.pay(`${origin}/after`);
    expect(receipt).to.include({ dialect: "turnpike" });
    expect(receipt?.signedReceipt).to.include({ signer: SIGNER, trustedBy: "policy" });
    expect(receipt?.signedReceipt?.payload?.transaction).to.equal(receipt?.transaction);
    await agent.close();
  });

  /** What a stock server signs with, and whom the agent is to trust. */
  const ISSUERS: Readonly<Record<string, () => { issuer: object; signers: readonly string[]; by: string }>> = {
    "EIP-712 by the payee's key": () => {
      const account = testAccount(testKey("interop seller") as Hex);
      const sign = (data: never) => account.signTypedData(data);
      const issuer = v2.offerReceipt().createEIP712OfferReceiptIssuer(`did:pkh:eip155:1:${account.address}`, sign);
      return { issuer, signers: [], by: "payTo" };
    },
    "EIP-712 by another key": () => {
      const account = testAccount(KEY);
      const sign = (data: never) => account.signTypedData(data);
      const issuer = v2.offerReceipt().createEIP712OfferReceiptIssuer(`did:pkh:eip155:1:${account.address}`, sign);
      return { issuer, signers: [SIGNER], by: "policy" };
    },
    "JWS with did:jwk": () => {
      const point = secp256k1.getPublicKey(KEY.slice(2), false);
      const jwk = { kty: "EC", crv: "secp256k1", x: toBase64Url(point.slice(1, 33)), y: toBase64Url(point.slice(33)) };
      const did = `did:jwk:${toBase64Url(utf8ToBytes(JSON.stringify(jwk)))}`;
      const sign = async (bytes: Uint8Array) =>
        toBase64Url(secp256k1.sign(sha256(bytes), KEY.slice(2)).toCompactRawBytes());
      const signer = { kid: `${did}#0`, format: "jws", algorithm: "ES256K", sign };
      const issuer = v2.offerReceipt().createJWSOfferReceiptIssuer(signer.kid, signer);
      return { issuer, signers: [did], by: "policy" };
    },
  };
  for (const name of ["@x402/express", "@x402/hono"] as StockServer[]) {
    for (const [kind, make] of Object.entries(ISSUERS)) {
      it(`HA30 the agent verifies what ${name} signs: ${kind}`, async () => {
        const { issuer, signers, by } = make();
        const server = await STOCK_SERVERS[name](world, world.facilitatorUrl, {
          prices: { "/r": "$0.01" },
          offerReceipt: issuer,
        });
        servers.push(server);
        const agent = agentOf(await world.payer(), server.url, signers);
        const { receipt } = await agent.pay(`${server.url}/r?symbol=ABC`);
        expect([receipt?.signedOffer?.fault, receipt?.signedReceipt?.fault]).to.deep.equal([undefined, undefined]);
        expect([receipt?.signedOffer?.trustedBy, receipt?.signedReceipt?.trustedBy]).to.deep.equal([by, by]);
        await agent.close();
      });
    }
  }
});
