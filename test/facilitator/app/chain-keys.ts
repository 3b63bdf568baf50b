/** One route on two chains of one Facilitator, and one Idempotency-Key for a payment on each. */
import { expect } from "chai";
import { Wallet } from "ethers";
import { createProvider, memoryClaims } from "turnpike/gate";
import {
  type AcceptEntryWire,
  addressOfKey,
  encodeJsonHeader,
  encodePaymentProof,
  HEADER,
  type Hex,
} from "turnpike/protocol";
import { authorize, signPayment } from "../../../scripts/sandbox/by-hand";
import { exactPayload, identified, requiredIn, v1Headers } from "../../sdk/gate/support/standard";
import { testKey } from "../../support/chain";
import { addressOf, FRAMEWORKS, keyOf, quoteOf, send, type TestServer } from "../../support/gate";
import { type SeveralService, startTwoChains, type TwoChains } from "../support/chains";
import type { ServiceWorld } from "../support/service";

type Headers = Readonly<Record<string, string>>;

const KEY: Headers = { [HEADER.idempotencyKey]: "one-key-for-both-of-the-chains" };

describe("Facilitator: one Idempotency-Key for a payment on each of two chains", function () {
  this.timeout(300_000);
  const wallet = new Wallet(keyOf("payer"));
  const closers: (() => Promise<unknown>)[] = [];
  let chains: TwoChains;
  let service: SeveralService;
  let worlds: readonly [ServiceWorld, ServiceWorld];
  let server: TestServer;
  let served = 0;

  before(async () => {
    chains = await startTwoChains();
    worlds = [chains.a, chains.b];
    service = await chains.start({ RENEWALS: "false" });
    for (const world of worlds) await world.contracts.mint(addressOf("payer"), 1_000_000_000n);
    const entryOf = ({ contracts, chain, payee: payTo }: ServiceWorld) => ({
      network: contracts.network,
      rpcUrl: chain.rpcUrl,
      token: { address: contracts.token, name: contracts.tokenName, version: contracts.tokenVersion },
      payTo,
      facilitator: { url: service.url, signers: [addressOfKey(testKey("proof signer") as Hex)] },
    });
    const provider = createProvider({
      ...entryOf(chains.a),
      secret: "a secret of these tests, long enough to be one",
      claims: memoryClaims({ warn: false }),
      pollMs: 50,
    });
    const prices = [{ amount: 500_000n }, { ...entryOf(chains.b), amount: 500_000n }];
    const gate = { pricing: [{ type: "one-time", prices }] } as never;
    const handle = () => ({ body: `{"answer":${++served}}` });
    server = await FRAMEWORKS.express(provider, [{ path: "/x", gate, handle }]);
    closers.push(
      () => server.stop(),
      () => provider.close(),
    );
    await provider.ready();
  });
  after(async () => {
    for (const close of closers) await close();
    await chains?.stop();
  });

  const moved = () =>
    Promise.all(
      worlds.map(async (world) => (await world.transfers()).filter(({ from }) => from === wallet.address).length),
    );
  /** The payer's transfers on each chain in the course of an act. */
  const moving = async (act: () => Promise<void>) => {
    const before = await moved();
    await act();
    return (await moved()).map((count, place) => count - (before[place] ?? 0));
  };
  const proof = async (entry: AcceptEntryWire, place: number): Promise<Headers> => {
    const { chain } = worlds[place] as ServiceWorld;
    const paid = await authorize(service.url, await signPayment(wallet, chain.chainId, entry));
    return { [HEADER.payment]: encodePaymentProof(paid) };
  };
  const payload = (entry: AcceptEntryWire, place: number): Promise<Headers> =>
    v1Headers(entry, {}, { world: worlds[place] as ServiceWorld });

  for (const name of ["native", "x402 version 1"] as const)
    it(`C21 both payments buy, and each has its own answer again: ${name}`, async () => {
      const url = `${server.url}/x/${name.slice(0, 4)}`;
      const present = (payment: Headers) => send(url, { headers: { ...KEY, ...payment } });
      const payments: Headers[] = [];
      const answers: string[] = [];
      const charged = await moving(async () => {
        for (const [place, entry] of (await quoteOf(url, { headers: KEY })).accepts.entries())
          payments.push(await (name === "native" ? proof : payload)(entry as AcceptEntryWire, place));
        for (const { status, text } of await Promise.all(payments.map(present))) {
          expect(status, text).to.equal(200);
          answers.push(text);
        }
      });
      expect(charged).to.deep.equal([1, 1]);
      expect(new Set(answers).size, "two runs, two answers").to.equal(2);
      const again = await moving(async () => {
        for (const [place, payment] of payments.entries()) {
          const { text, headers } = await present(payment);
          expect([text, headers["idempotency-replayed"]]).to.deep.equal([answers[place], "true"]);
        }
      });
      expect(again).to.deep.equal([0, 0]);
    });

  it("C21 a client that has lost its state pays on neither chain a second time", async () => {
    const url = `${server.url}/x/lost`;
    const buy = async () => {
      const answers: string[] = [];
      for (const [place, entry] of (await quoteOf(url, { headers: KEY })).accepts.entries()) {
        const { text } = await send(url, { headers: { ...KEY, ...(await proof(entry as AcceptEntryWire, place)) } });
        answers.push(text);
      }
      return answers;
    };
    const first = await buy();
    expect(
      await moving(async () => {
        expect(await buy()).to.deep.equal(first);
      }),
    ).to.deep.equal([0, 0]);
  });

  it("C21 a payment-identifier names one payment, whatever its chain: the other one is not charged", async () => {
    const url = `${server.url}/x/identified`;
    const required = requiredIn(await send(url));
    const extensions = { ...required.extensions, ...identified("one-id-for-both-of-the-chains") };
    const payments = await Promise.all(
      required.accepts.map(async (accepted, place) => {
        const terms = { to: accepted.payTo, value: BigInt(accepted.amount) };
        const signed = await exactPayload(terms, { world: worlds[place] as ServiceWorld });
        const body = { x402Version: 2, payload: signed, accepted, extensions, resource: required.resource };
        return { "PAYMENT-SIGNATURE": encodeJsonHeader(body) };
      }),
    );
    const statuses: number[] = [];
    const charged = await moving(async () => {
      for (const headers of [...payments, ...payments]) statuses.push((await send(url, { headers })).status);
    });
    expect(statuses).to.deep.equal([200, 409, 200, 409]);
    expect(charged).to.deep.equal([1, 0]);
  });
});
