import { createServer } from "node:http";
import { expect } from "chai";
import { Wallet } from "ethers";
import express from "express";
import { expressGate } from "turnpike/gate/express";
import { type Address, encodeJsonHeader } from "turnpike/protocol";
import { createTestProvider } from "turnpike/testing";
import { closeServer, keyOf, listen, send } from "../../../support/gate";
import { bare, highS } from "../../../support/signature-forms";
import { answerTo, challengeOf, extensionsIn } from "../support/sign-in";

const PLAN = `0x${"5a".repeat(32)}`;
const OTHER = `0x${"5b".repeat(32)}`;

describe("sign-in-with-x", () => {
  const test = createTestProvider();
  const app = express();
  const server = createServer(app);
  let url: string;
  let wallet: Wallet;
  let people = 0;

  before(async () => {
    const plan = { type: "subscription", plan: PLAN } as const;
    const gateOf = (...pricing: never[]) => expressGate(test.provider.gate({ pricing }));
    const one = { type: "one-time", amount: 500_000 } as const;
    const answer = (request: express.Request, response: express.Response) =>
      void response.json({ paid: request.payment?.kind });
    app.use("/feed", gateOf(plan as never, one as never), answer);
    app.use("/only", gateOf(plan as never), answer);
    app.use("/single", gateOf(one as never), answer);
    await test.provider.ready();
    url = await listen(server);
  });
  after(() => closeServer(server));
  beforeEach(() => {
    wallet = new Wallet(keyOf(`someone ${people++}`));
    test.setDown(false);
  });

  const subscribe = (planId = PLAN) => test.subscribe({ planId, subscriber: wallet.address as Address });
  const reasonOf = async (headers: Record<string, string>, path = "/feed", method = "GET") => {
    const answer = await send(`${url}${path}`, { headers, method });
    return answer.status === 200 ? "served" : (answer.json.reason ?? answer.json.error);
  };

  it("accepts the wallet that owns a subscription, once per challenge", async () => {
    subscribe();
    for (const path of ["/feed", "/only"]) {
      const headers = await answerTo(await challengeOf(`${url}${path}`), wallet);
      const answer = await send(`${url}${path}`, { headers });
      expect(answer.json, answer.text).to.deep.equal({ paid: "subscription" });
      expect(answer.headers["cache-control"]).to.equal("private, no-store");
      expect(answer.headers.vary).to.contain("SIGN-IN-WITH-X");
      expect(await reasonOf(headers, path)).to.equal("sign_in_replayed");
    }
  });

  it("accepts a signature with a v of 0 or 1, once in either form, and none with a high s", async () => {
    subscribe();
    const whole = await answerTo(await challengeOf(`${url}/feed`), wallet);
    const signedAs = (form: (signature: string) => string) => {
      const signed = JSON.parse(Buffer.from(whole["SIGN-IN-WITH-X"], "base64").toString());
      return { "SIGN-IN-WITH-X": encodeJsonHeader({ ...signed, signature: form(signed.signature) }) };
    };
    for (const form of [highS, (signature: string) => bare(highS(signature))])
      expect(await reasonOf(signedAs(form))).to.equal("sign_in_signature");
    expect(await reasonOf(signedAs(bare))).to.equal("served");
    expect([await reasonOf(whole), await reasonOf(signedAs(bare))]).to.deep.equal(Array(2).fill("sign_in_replayed"));
  });

  it("C1 accepts one of many identical sign-ins", async () => {
    subscribe();
    const headers = await answerTo(await challengeOf(`${url}/feed`), wallet);
    const reasons = await Promise.all(Array.from({ length: 20 }, () => reasonOf(headers)));
    expect(reasons.filter((reason) => reason === "served")).to.have.length(1);
  });

  it("is offered only on routes with plans, and keeps PAYMENT-REQUIRED within its limit for a long URL", async () => {
    expect(extensionsIn(await send(`${url}/feed`))).to.have.all.keys(
      "payment-identifier",
      "sign-in-with-x",
      "hoodlayer",
    );
    expect(extensionsIn(await send(`${url}/only`))).to.have.all.keys("sign-in-with-x", "hoodlayer");
    expect(extensionsIn(await send(`${url}/single`))).to.have.all.keys("payment-identifier");
    const long = await send(`${url}/feed?q=${"x".repeat(1_500)}`);
    expect(long.status).to.equal(402);
    expect(String(long.headers["payment-required"]).length).to.be.below(3_073);
  });

  it("refuses a sign-in that was made for another purpose", async () => {
    subscribe();
    const challenge = await challengeOf(`${url}/feed`);
    const { info } = challenge;
    const foreign = await challengeOf(`${url}/only`);
    const wrong: [string, Promise<Record<string, string>>][] = [
      ["sign_in_domain", answerTo(challenge, wallet, { say: { domain: "evil.example" } })],
      ["sign_in_uri", answerTo(challenge, wallet, { say: { uri: "https://evil.example/feed" } })],
      ["sign_in_uri", answerTo(foreign, wallet)],
      ["sign_in_chain", answerTo(challenge, wallet, { say: { chainId: "eip155:1" } })],
      ["sign_in_nonce", answerTo(challenge, wallet, { say: { nonce: "0".repeat(56) } })],
      ["sign_in_nonce", answerTo(challenge, wallet, { say: { nonce: foreign.info.nonce } })],
      ["sign_in_nonce", answerTo(challenge, wallet, { say: { issuedAt: new Date(0).toISOString() } })],
      ["sign_in_expired", answerTo(challenge, wallet, { say: { expirationTime: new Date(0).toISOString() } })],
      ["sign_in_expired", answerTo(challenge, wallet, { say: { notBefore: "2999-01-01T00:00:00.000Z" } })],
      ["sign_in_signature", answerTo(challenge, wallet, { swap: { address: new Wallet(keyOf("mallory")).address } })],
      ["sign_in_signature", answerTo(challenge, wallet, { swap: { statement: "Something else." } })],
      ["sign_in_signature", answerTo(challenge, wallet, { swap: { signature: `0x${"11".repeat(65)}` } })],
      ["sign_in_malformed", answerTo(challenge, wallet, { swap: { statement: "two\nlines" } })],
      ["sign_in_malformed", answerTo(challenge, wallet, { swap: { nonce: info.nonce.replace(/^./, "\n") } })],
      ["sign_in_malformed", answerTo(challenge, wallet, { swap: { type: "ed25519" } })],
      ["sign_in_malformed", Promise.resolve({ "SIGN-IN-WITH-X": "e30=" })],
      ["sign_in_malformed", Promise.resolve({ "SIGN-IN-WITH-X": "%%%" })],
    ];
    for (const [reason, headers] of wrong) expect(await reasonOf(await headers)).to.equal(reason);
    // The same challenge, answered correctly afterwards, still works: the refusals did not use it.
    expect(await reasonOf(await answerTo(challenge, wallet))).to.equal("served");
  });

  it("binds a challenge to the method", async () => {
    subscribe();
    const headers = await answerTo(await challengeOf(`${url}/feed`), wallet);
    expect(await reasonOf(headers, "/feed", "POST")).to.equal("sign_in_nonce");
  });

  it("accepts an answer for five minutes, and not a second longer", async () => {
    subscribe();
    const early = await challengeOf(`${url}/feed`);
    const late = await challengeOf(`${url}/feed`);
    test.clock.advance(299);
    expect(await reasonOf(await answerTo(early, wallet))).to.equal("served");
    test.clock.advance(1);
    expect(await reasonOf(await answerTo(late, wallet))).to.equal("sign_in_expired");
  });

  it("reports what is wrong with the wallet's subscription", async () => {
    const ask = async () => reasonOf(await answerTo(await challengeOf(`${url}/feed`), wallet));
    expect(await ask()).to.equal("sign_in_no_subscription");
    const other = subscribe(OTHER);
    expect(await ask()).to.equal("sign_in_no_subscription");
    const { id } = subscribe();
    expect(await ask()).to.equal("served");
    test.change(id, { paused: true });
    expect(await ask()).to.equal("paused");
    // Another subscription of the same wallet serves meanwhile.
    subscribe();
    expect(await ask()).to.equal("served");
    expect(other.id).to.not.equal(id);
  });

  it("never reports an outage as a refusal, and still judges a payment", async () => {
    const signed = await answerTo(await challengeOf(`${url}/feed`), wallet);
    const quote = await send(`${url}/feed`);
    test.setDown(true);
    const answer = await send(`${url}/feed`, { headers: signed });
    expect([answer.status, answer.json.error]).to.deep.equal([503, "Unavailable"]);
    test.setDown(false);
    const both = await send(`${url}/feed`, { headers: { ...signed, ...test.pay(quote.json) } });
    expect(both.json).to.deep.equal({ paid: "one-time" });
  });

  it("C7 refuses two sign-ins in one request", async () => {
    const headers = await answerTo(await challengeOf(`${url}/feed`), wallet);
    const twice = { "SIGN-IN-WITH-X": [headers["SIGN-IN-WITH-X"], headers["SIGN-IN-WITH-X"]] };
    expect((await send(`${url}/feed`, { headers: twice })).status).to.equal(400);
  });
});
