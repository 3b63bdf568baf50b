/** Credentials of MPP that were changed, or taken elsewhere: none buys anything, and none moves money. */
import { createHash } from "node:crypto";
import { expect } from "chai";
import type { Provider } from "turnpike/gate";
import { encodeJsonHeader, keccakText } from "turnpike/protocol";
import {
  type Answer,
  addressOf,
  CHAIN_ID,
  FRAMEWORKS,
  NOW,
  ONE_TIME,
  RESERVING,
  type SmallFacilitator,
  send,
  startSmallFacilitator,
  type TestServer,
  testClock,
  testProvider,
} from "../../../support/gate";
import {
  type Credential,
  challengeOf,
  challengesIn,
  credentialOf,
  decoded,
  encoded,
  headerOf,
  paying,
} from "../support/mpp";
import { requiredIn, v2Headers } from "../support/standard";

const PROBLEM = "https://paymentauth.org/problems/";

describe("attacks on credentials of MPP", () => {
  let facilitator: SmallFacilitator;
  let provider: Provider;
  let server: TestServer;
  let url: string;
  const clock = testClock();

  before(async () => {
    facilitator = await startSmallFacilitator();
    facilitator.supported = RESERVING;
    provider = testProvider(facilitator, { mpp: "Authorization", clock });
    server = await FRAMEWORKS.express(provider, [
      { path: "/report", gate: { pricing: ONE_TIME } },
      { path: "/other", gate: { pricing: ONE_TIME } },
      { path: "/dear", gate: { pricing: [{ type: "one-time", amount: 900_000n }] } },
      { path: "/body", gate: { pricing: ONE_TIME, bind: "body" } },
    ]);
    await provider.ready();
    url = `${server.url}/report`;
  });
  beforeEach(() => {
    clock.sec = NOW;
    facilitator.calls.length = 0;
    server.served.clear();
  });
  after(async () => {
    await server.stop();
    await provider.close();
    await facilitator.stop();
  });

  const ask = (credential: unknown, at = url) => send(at, { headers: headerOf(credential) });

  /** Nothing was bought, nothing was sent, and another challenge is there. */
  function expectRefused(answer: Answer, problem: string, what?: string): void {
    expect([answer.status, answer.json.type], what).to.deep.equal([402, `${PROBLEM}${problem}`]);
    expect(challengesIn(answer), what).to.have.length(1);
    expect(facilitator.calls, what).to.deep.equal([]);
    expect(server.served.size, what).to.equal(0);
  }

  const changed = (credential: Credential, challenge: object): object => ({
    ...credential,
    challenge: { ...credential.challenge, ...challenge },
  });

  it("refuses a credential for another resource, query or method", async () => {
    const credential = await credentialOf(await challengeOf(url));
    for (const place of ["/other", "/dear", "/report?a=1", "/report/more"]) {
      expectRefused(await ask(credential, `${server.url}${place}`), "invalid-challenge", place);
    }
    expectRefused(await send(url, { method: "POST", headers: headerOf(credential) }), "invalid-challenge");
    const posted = await credentialOf(await challengeOf(url, { method: "POST" }));
    expectRefused(await ask(posted), "invalid-challenge");
    expect((await ask(credential)).status).to.equal(200);
  });

  it("refuses a credential for another body, or another type of it", async () => {
    const at = `${server.url}/body`;
    const json = { "Content-Type": "application/json" };
    const sent = { method: "POST", headers: json, body: '{"a":1}' };
    const headers = { ...json, ...headerOf(await credentialOf(await challengeOf(at, sent))) };
    expectRefused(await send(at, { ...sent, headers, body: '{"a":2}' }), "invalid-challenge");
    expectRefused(await send(at, { ...sent, headers, body: "" }), "invalid-challenge");
    expectRefused(
      await send(at, { ...sent, headers: { ...headers, "Content-Type": "text/plain" } }),
      "invalid-challenge",
    );
    expect((await send(at, { ...sent, headers })).status).to.equal(200);
  });

  it("names the body that it quotes for in `digest`, and refuses another", async () => {
    const at = `${server.url}/body`;
    const sent = { method: "POST", body: '{"a":1}' };
    const challenge = await challengeOf(at, sent);
    expect(challenge.digest).to.equal(`sha-256=:${createHash("sha256").update(sent.body).digest("base64")}:`);
    expect(await challengeOf(at)).to.not.have.property("digest");
    expect(await challengeOf(url, sent)).to.not.have.property("digest");
    const credential = await credentialOf(challenge);
    const other = `sha-256=:${createHash("sha256").update("{}").digest("base64")}:`;
    for (const [digest, body] of [
      [challenge.digest, "{}"],
      [other, "{}"],
      [other, sent.body],
      [undefined, sent.body],
    ]) {
      const answer = await send(at, { ...sent, body, headers: headerOf(changed(credential, { digest })) });
      expectRefused(answer, "invalid-challenge", `${digest} of ${body}`);
    }
    expect((await send(at, { ...sent, headers: headerOf(credential) })).status).to.equal(200);
  });

  it("refuses a credential of another realm, and a challenge of another provider", async () => {
    const options = { mpp: "Authorization", clock } as const;
    const others = [
      { publicUrl: "https://api.example" },
      { secret: "another provider's secret, long enough to be one" },
      { payTo: addressOf("another treasury") },
    ];
    for (const more of others) {
      const other = testProvider(facilitator, { ...options, ...more });
      const elsewhere = await FRAMEWORKS.express(other, [{ path: "/report", gate: { pricing: ONE_TIME } }]);
      await other.ready();
      const credential = await credentialOf(await challengeOf(`${elsewhere.url}/report`));
      expectRefused(await ask(credential), "invalid-challenge", JSON.stringify(more));
      const own = await credentialOf(await challengeOf(url));
      const answer = await ask(own, `${elsewhere.url}/report`);
      expect([answer.status, answer.json.type]).to.deep.equal([402, `${PROBLEM}invalid-challenge`]);
      await elsewhere.stop();
      await other.close();
    }
  });

  it("refuses a challenge of which any parameter was changed, left out or added", async () => {
    const credential = await credentialOf(await challengeOf(url));
    const other = await challengeOf(url);
    const { request, expires, opaque } = credential.challenge;
    const asked = decoded(request) as { amount: string };
    for (const change of [
      { id: other.id },
      { id: `${credential.challenge.id}A` },
      { realm: "api.example" },
      { method: "tempo" },
      { intent: "session" },
      { request: encoded({ ...asked, amount: "1" }) },
      { request: encoded({ ...asked, recipient: addressOf("attacker") }) },
      { request: encoded({ ...asked, more: 1 }) },
      { expires: new Date((NOW + 600) * 1_000).toISOString() },
      { expires: undefined },
      { expires: "soon" },
      { expires: expires.replace("Z", "+00:00") },
      { opaque: other.opaque },
      { opaque: undefined },
      { opaque: encoded({ mac: "" }) },
      { opaque: encoded({ mac: (decoded(opaque) as { mac: string }).mac.slice(0, -2) }) },
      { header: "Payment-Authorization" },
      { digest: "sha-256=:AAAA:" },
    ]) {
      expectRefused(await ask(changed(credential, change)), "invalid-challenge", JSON.stringify(change));
    }
    expect((await ask(credential)).status).to.equal(200);
  });

  it("refuses an authorization that is not its challenge's", async () => {
    const challenge = await challengeOf(url);
    const other = await challengeOf(url);
    for (const authorization of [
      { nonce: keccakText("of its own") },
      { nonce: keccakText(`${other.id}${other.realm}`) },
      { to: addressOf("attacker") },
      { value: "1" },
      { value: "500001" },
    ]) {
      const credential = await credentialOf(challenge, { authorization });
      expectRefused(await ask(credential), "verification-failed", JSON.stringify(authorization));
    }
    const elsewhere = `did:pkh:eip155:${CHAIN_ID}:${addressOf("somebody else")}`;
    expectRefused(await ask(await credentialOf(challenge, { source: elsewhere })), "verification-failed");
    expectRefused(
      await ask(await credentialOf(challenge, { source: `did:pkh:eip155:1:${addressOf("payer")}` })),
      "verification-failed",
    );
    const { source: _left, ...anonymous } = await credentialOf(challenge);
    expect((await ask(anonymous)).status, "a source may be left out").to.equal(200);
  });

  it("refuses other expiries: of challenges that are over, and of windows that are over or too long", async () => {
    const challenge = await challengeOf(url);
    for (const validBefore of [NOW, NOW + 5, NOW + 3_600]) {
      const credential = await credentialOf(challenge, { authorization: { validBefore: String(validBefore) } });
      expectRefused(await ask(credential), "payment-expired", String(validBefore - NOW));
    }
    const credential = await credentialOf(challenge);
    const open = await credentialOf(challenge, { authorization: { validBefore: String(NOW + 330) } });
    clock.sec = NOW + 300;
    expectRefused(await ask(credential), "payment-expired");
    expectRefused(await ask(open), "payment-expired");
    clock.sec = NOW + 300 + 86_400;
    const late = await ask(credential);
    expect([late.status, challengesIn(late)]).to.deep.equal([409, []]);
  });

  it("refuses truncated and malformed credentials, each with what is wrong", async () => {
    const credential = await credentialOf(await challengeOf(url));
    const whole = encoded(credential);
    for (let length = 0; length < whole.length; length += 97) {
      const answer = await send(url, { headers: { Authorization: `Payment ${whole.slice(0, length)}` } });
      expectRefused(answer, "malformed-credential", String(length));
    }
    const { payload } = credential;
    for (const [what, value] of Object.entries({
      "another type": { ...credential, payload: { ...payload, type: "transaction" } },
      "no payload": { ...credential, payload: undefined },
      "no challenge": { ...credential, challenge: undefined },
      "a number as amount": { ...credential, payload: { ...payload, value: 500_000 } },
      "no signature": { ...credential, payload: { ...payload, signature: "0x" } },
      "a request that is an object": changed(credential, { request: decoded(credential.challenge.request) }),
    })) {
      const answer = await ask(value);
      expectRefused(answer, "malformed-credential", what);
      expect(answer.json.message, what).to.match(/^Authorization holds a malformed Payment credential: field \w/);
    }
    const twice = Buffer.from(`${JSON.stringify(credential).slice(0, -1)},"source":"did:pkh:eip155:1:0x0"}`);
    const doubled = await send(url, { headers: { Authorization: `Payment ${twice.toString("base64url")}` } });
    expectRefused(doubled, "malformed-credential");
    const large = await send(url, { headers: { Authorization: `Payment ${"A".repeat(9_000)}` } });
    expect([large.status, large.json.error]).to.deep.equal([400, "AmbiguousCredentials"]);
  });

  it("refuses a forged signature", async () => {
    const credential = await credentialOf(await challengeOf(url), { payer: "attacker" });
    const forged = { ...credential.payload, from: addressOf("payer") };
    facilitator.verify = () => ({ isValid: false, invalidReason: "invalid_exact_evm_signature" });
    const answer = await ask({ challenge: credential.challenge, payload: forged });
    expect([answer.status, answer.json.type]).to.deep.equal([402, `${PROBLEM}verification-failed`]);
    expect(server.served.size).to.equal(0);
    Reflect.set(facilitator, "verify", honest);
  });

  it("refuses two credentials at once, in one header or in those of two dialects", async () => {
    const first = headerOf(await credentialOf(await challengeOf(url))).Authorization as string;
    const second = headerOf(await credentialOf(await challengeOf(url))).Authorization as string;
    for (const headers of [
      { Authorization: `${first}, ${second}` },
      { Authorization: `Bearer a.b.c, ${second}` },
      { Authorization: first, ...(await v2Headers(url)) },
    ]) {
      const answer = await send(url, { headers });
      expect([answer.status, answer.json.error]).to.deep.equal([400, "AmbiguousCredentials"]);
      expect(answer.headers).to.not.have.property("www-authenticate");
    }
    expect(facilitator.calls).to.deep.equal([]);
    const beside = { Authorization: "Payment garbage!", ...(await v2Headers(url)) };
    expect((await send(url, { headers: beside })).status, "garbage beside a payment").to.equal(200);
  });

  it("reads no credential in the other dialect's header", async () => {
    const credential = await credentialOf(await challengeOf(url));
    const mpp = encodeJsonHeader(credential);
    for (const name of ["X-PAYMENT", "PAYMENT-SIGNATURE"]) {
      const answer = await send(url, { headers: { [name]: mpp } });
      expect([answer.status, answer.json.reason], name).to.deep.equal([402, "malformed"]);
    }
    const payload = (await v2Headers(url))["PAYMENT-SIGNATURE"];
    expectRefused(await send(url, { headers: { Authorization: `Payment ${payload}` } }), "malformed-credential");
    // An x402 payload whose entry repeats what MPP has quoted: its memo is of no quote.
    const [accepted] = requiredIn(await send(url)).accepts;
    const memo = (decoded(credential.challenge.opaque) as { mac: string }).mac;
    const { type: _type, signature, ...authorization } = credential.payload;
    const body = {
      x402Version: 2,
      payload: { signature, authorization },
      accepted: { ...accepted, extra: { ...accepted?.extra, memo } },
    };
    const answer = await send(url, { headers: { "PAYMENT-SIGNATURE": encodeJsonHeader(body) } });
    expect([answer.status, answer.json.reason]).to.deep.equal([402, "memo"]);
    expect(server.served.size).to.equal(0);
  });

  it("refuses two credentials in two headers of one name, as raw HTTP can send them", async () => {
    const first = headerOf(await credentialOf(await challengeOf(url))).Authorization as string;
    const second = headerOf(await credentialOf(await challengeOf(url))).Authorization as string;
    for (const Authorization of [
      [first, second],
      ["Bearer a.b.c", second],
      [first, "Bearer a.b.c"],
    ]) {
      const answer = await send(url, { headers: { Authorization } });
      expect([answer.status, answer.json.error]).to.deep.equal([400, "AmbiguousCredentials"]);
    }
    expect([facilitator.calls, server.served.size]).to.deep.equal([[], 0]);
  });

  it("is paid in the dialect that a proxy has left", async () => {
    const quoted = await send(url);
    expect((await send(url, { headers: await v2Headers(url) })).status, "without WWW-Authenticate").to.equal(200);
    expect(requiredIn(quoted).accepts).to.have.length(1);
    expect((await send(url, { headers: await paying(url) })).status, "without PAYMENT-REQUIRED").to.equal(200);
    const stripped = await send(url, { headers: {} });
    expect([stripped.status, stripped.json.error], "without Authorization").to.deep.equal([402, "PaymentRequired"]);
  });

  const honest = (asked: { grant?: { id: string } }) => ({ isValid: true, ...(asked.grant && { reserved: true }) });
});
