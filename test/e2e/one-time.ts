import { expect } from "chai";
import { createFacilitatorClient } from "turnpike/facilitator";
import { encodePaymentProof, HEADER, paymentRequiredSchema, proofToWire } from "turnpike/protocol";
import { authorize, buyProof, oneTimeOption, present, quoteOf, signPayment } from "../../scripts/sandbox/by-hand";
import { codeOf, spentBy, startSandbox, type TestAgent, UNIT, until, type World } from "../support/sandbox";
import { testSettlingAfter } from "./support/settle-after";

const PRICE = UNIT / 2n;

describe("end to end > one-time payments", function () {
  this.timeout(120_000);
  let world: World;
  let ada: TestAgent;
  let count = 0;
  /** A URL that nobody has bought yet. */
  const freshUrl = () => `${world.provider.url}/quote?symbol=T${++count}`;
  const hand = () => ({ wallet: ada.wallet, chainId: world.contracts.chainId, facilitator: world.facilitator.url });
  const get = (url: string, payment: string) => fetch(url, { headers: { [HEADER.payment]: payment } });

  before(async () => {
    world = await startSandbox();
    ada = await world.agent("ada");
  });
  after(() => world.stop());

  describe("the 402", () => {
    it("offers the price in the words of the service and of x402 version 1", async () => {
      const url = freshUrl();
      const response = await fetch(url);
      expect(response.status).to.equal(402);
      expect(response.headers.get("content-type")).to.contain("application/json");
      expect(response.headers.get("cache-control")).to.contain("no-store");
      const body = await response.json();
      expect(body).to.deep.include({ version: "1", x402Version: 1 });
      expect(paymentRequiredSchema.safeParse(body).success).to.equal(true);
      const [entry] = (body as { accepts: Record<string, unknown>[] }).accepts;
      expect(entry).to.include({
        scheme: "exact",
        network: "local-31337",
        token: world.contracts.token,
        amount: "500000",
        payTo: world.providerAccount.address,
        maxAmountRequired: "500000",
        asset: world.contracts.token,
        resource: url,
      });
      expect(entry?.hoodlayer).to.deep.equal({ facilitator: world.facilitator.url });
    });

    it("is what a route answers to any method without payment, and never the free one", async () => {
      expect((await fetch(`${world.provider.url}/complete`, { method: "POST" })).status).to.equal(402);
      expect((await fetch(`${world.provider.url}/free`)).status).to.equal(200);
    });
  });

  describe("agent.pay", () => {
    it("buys one answer for exactly its price, without any gas of its own", async () => {
      const url = freshUrl();
      const before = await world.contracts.balanceOf(world.providerAccount.address);
      const spent = await spentBy(world, ada.address, async () => {
        const response = await ada.agent.pay(url);
        expect(response.status).to.equal(200);
        expect(await response.json()).to.include({ price: "1234.56" });
        expect(response.receipt).to.include({ amount: PRICE, payTo: world.providerAccount.address, resource: url });
        const receipt = await world.chain.provider.getTransactionReceipt(response.receipt?.transaction ?? "");
        expect(receipt).to.include({ status: 1, from: world.facilitator.relayer });
      });
      expect(spent).to.equal(PRICE);
      expect((await world.contracts.balanceOf(world.providerAccount.address)) - before).to.equal(PRICE);
      expect(await world.chain.provider.getBalance(ada.address)).to.equal(0n);
    });

    it("S13 moves money once for one purchase that is retried ten times at once", async () => {
      const url = freshUrl();
      const spent = await spentBy(world, ada.address, async () => {
        const tries = Array.from({ length: 10 }, () =>
          ada.agent.pay(url, { idempotencyKey: "one order of the e2e test" }).then(
            ({ status }) => status,
            (error: { code: string }) => error.code,
          ),
        );
        expect(await Promise.all(tries)).to.include(200);
      });
      expect(spent).to.equal(PRICE);
    });

    it("D17 moves money once for one purchase key when the agent has lost all it knew", async () => {
      const url = freshUrl();
      const idempotencyKey = "the same order after a fire";
      const again = await world.agent("ada", { tokens: 0n });
      const spent = await spentBy(world, ada.address, async () => {
        expect((await ada.agent.pay(url, { idempotencyKey })).status).to.equal(200);
        const replayed = await again.agent.pay(url, { idempotencyKey });
        expect(replayed.headers.get("idempotency-replayed"), "HA6 the answer that was paid for").to.equal("true");
        expect(await replayed.json()).to.include({ price: "1234.56" });
      });
      expect(spent).to.equal(PRICE);
    });

    it("rejects with InsufficientFunds, and nothing reaches the chain", async () => {
      const poor = await world.agent("poor", { tokens: PRICE - 1n });
      const relayed = () => world.chain.provider.getTransactionCount(world.facilitator.relayer);
      const before = await relayed();
      expect(await codeOf(poor.agent.pay(freshUrl()))).to.equal("InsufficientFunds");
      expect(await relayed()).to.equal(before);
    });
  });

  describe("a proof", () => {
    it("C1 is good for one request, however many ask at once", async () => {
      const url = freshUrl();
      const proof = await buyProof(hand(), url);
      const answers = await Promise.all(Array.from({ length: 8 }, () => present(url, proof)));
      const isReplay = (answer: Response) => answer.headers.get("idempotency-replayed") === "true";
      expect(answers.filter((answer) => answer.status === 200 && !isReplay(answer))).to.have.length(1);
      expect(answers.filter(({ status }) => status !== 200 && status !== 409)).to.deep.equal([]);
      expect(isReplay(await present(url, proof)), "HA6").to.equal(true);
    });

    it("C2 opens no other query, route or provider", async () => {
      const proof = await buyProof(hand(), freshUrl());
      for (const url of [freshUrl(), `${world.provider.url}/choice`, `${world.specialist.url}/advice`]) {
        const response = await present(url, proof);
        expect(response.status, url).to.equal(402);
        expect(await response.json()).to.include({ error: "InvalidPaymentProof" });
      }
    });

    it("C3 C17 is refused when any field or its signature is not the Facilitator's", async () => {
      const url = freshUrl();
      const proof = await buyProof(hand(), url);
      const wire = proofToWire(proof);
      const stranger = await world.agent("stranger", { tokens: 0n });
      const forgeries = [
        { ...proof, amount: 1n },
        { ...proof, payer: stranger.address },
        { ...proof, expiresAt: proof.expiresAt + 1 },
        { ...proof, facilitator: stranger.address },
        {
          ...proof,
          signature: `${proof.signature.slice(0, -2)}${wire.signature.endsWith("1b") ? "1c" : "1b"}` as const,
        },
      ];
      for (const forged of forgeries) {
        expect((await get(url, encodePaymentProof(forged as typeof proof))).status).to.equal(402);
      }
      expect((await present(url, proof)).status).to.equal(200);
    });

    it("C8 that is no proof at all is a 402 with a fresh body", async () => {
      for (const junk of ["!!!", Buffer.from("[]").toString("base64"), Buffer.from('{"a":1}').toString("base64")]) {
        const response = await get(freshUrl(), junk);
        expect(response.status).to.equal(402);
        expect(((await response.json()) as { accepts: unknown[] }).accepts).to.have.length(1);
      }
    });

    it("B1 is the same however often the payment is posted", async () => {
      const payment = await signPayment(ada.wallet, world.contracts.chainId, oneTimeOption(await quoteOf(freshUrl())));
      const proofs = await Promise.all(Array.from({ length: 10 }, () => authorize(world.facilitator.url, payment)));
      expect(new Set(proofs.map(encodePaymentProof))).to.have.property("size", 1);
    });
  });

  it("C6 answers an outage with 503, never with 402, and serves the same proof afterwards", async () => {
    const url = freshUrl();
    const proof = await buyProof(hand(), url);
    await world.facilitator.stop();
    try {
      const response = await present(url, proof);
      expect(response.status).to.equal(503);
      expect(response.headers.get("retry-after")).to.match(/^[0-9]+$/);
      expect((await fetch(url)).status, "without a credential").to.equal(402);
    } finally {
      await world.facilitator.start();
    }
    expect((await present(url, proof)).status).to.equal(200);
  });

  it("returns a payment's status by its id, without proof or resource", async () => {
    const url = freshUrl();
    const { receipt } = await ada.agent.pay(url);
    const client = createFacilitatorClient({ url: world.facilitator.url });
    const id = receipt?.paymentId ?? "0x";
    await until("the settlement", async () => {
      const answer = await client.payment(id);
      return answer.kind === "found" && answer.value.status === "settled";
    });
    const raw = await (await fetch(`${world.facilitator.url}/payments/${id}`)).text();
    expect(raw).to.contain(receipt?.transaction).and.not.contain("symbol");
  });

  describe("standard payments that settle after the handler", () => testSettlingAfter(() => world));
});
