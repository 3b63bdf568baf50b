/** An agent at servers that sell by MPP, alone or beside x402. */
import { expect } from "chai";
import { challengesIn } from "../../../sdk/src/protocol/payment-auth";
import { type ChallengeChange, digestOf, type MppOptions, startMppServer } from "./support/mpp-server";
import { rejection } from "./support/rejection";
import { closeAll } from "./support/servers";
import { addressOf, agentFor, CHAIN_ID, Chain, TOKEN, TOKEN_DOMAIN, transfersSigned } from "./support/world";

const KNOWN = { tokens: [{ chainId: CHAIN_ID, address: TOKEN, ...TOKEN_DOMAIN }] };

const UNKNOWN_CHAIN = { methodDetails: { chainId: 999_999 } };

describe("servers that sell by MPP", () => {
  let chain: Chain;
  beforeEach(() => {
    chain = new Chain();
    chain.nowSec = Math.floor(Date.now() / 1_000);
  });
  afterEach(closeAll);

  const agentOn = (overrides: object = {}) => agentFor("http://127.0.0.1:1", { ...KNOWN, ...overrides });

  it("are paid by one credential, with the transaction in the receipt", async () => {
    const server = await startMppServer(chain);
    const subject = agentOn();
    const response = await subject.agent.pay(`${server.url}/weather?city=x`);
    expect([response.status, await response.text()]).to.deep.equal([200, '{"weather":"fine"}']);
    expect(response.receipt).to.deep.include({ amount: 10_000n, dialect: "mpp", token: TOKEN });
    expect(response.receipt?.transaction).to.match(/^0x[0-9a-f]{64}$/);
    const [credential] = server.credentials;
    expect(credential?.challenge).to.include({
      id: "challenge-0",
      method: "evm",
      description: 'a "quoted" price, for one',
    });
    expect(credential?.challenge).to.have.all.keys(
      ...["id", "realm", "method", "intent", "request", "expires", "opaque", "description"],
    );
    expect(credential?.payload).to.include({ type: "authorization", value: "10000", validAfter: "0" });
    expect(Number(credential?.payload.validBefore)).to.be.at.most(chain.nowSec + 300);
    expect(credential?.source).to.equal(`did:pkh:eip155:${CHAIN_ID}:${credential?.payload.from}`);
    expect([server.credentials.length, chain.transfers.length, transfersSigned(subject)]).to.deep.equal([1, 1, 1]);
  });

  it("are paid in Payment-Authorization where the challenge says so, and the caller's Authorization stays", async () => {
    const headers = { Authorization: "Bearer of-the-caller" };
    const plain = await startMppServer(chain);
    expect((await rejection(agentOn().agent.pay(plain.url, { headers }))).reason).to.equal("header");
    expect(plain.credentials).to.deep.equal([]);
    const server = await startMppServer(chain, { challenges: [{ header: "Payment-Authorization" }] });
    expect((await agentOn().agent.pay(server.url, { headers })).status).to.equal(200);
    expect(server.paid).to.deep.equal({ authorization: 0, "payment-authorization": 1, "payment-signature": 0 });
    expect(server.seen.every((seen) => seen.headers.authorization === headers.Authorization)).to.equal(true);
    expect(server.credentials[0]?.challenge.header).to.equal("Payment-Authorization");
  });

  it("are paid by x402 where they offer both, and never by both", async () => {
    const server = await startMppServer(chain, { beside: {} });
    const response = await agentOn().agent.pay(server.url);
    expect([response.status, response.receipt?.dialect]).to.deep.equal([200, "x402-v2"]);
    expect(server.paid).to.deep.equal({ authorization: 0, "payment-authorization": 0, "payment-signature": 1 });
    expect(chain.transfers).to.have.length(1);
  });

  it("are refused where x402 and MPP name different payees for one token", async () => {
    const server = await startMppServer(chain, { beside: { payTo: addressOf("somebody else") } });
    const subject = agentOn();
    expect((await rejection(subject.agent.pay(server.url))).reason).to.equal("contradictory");
    expect([subject.signed, server.credentials]).to.deep.equal([[], []]);
  });

  it("are paid on the chain that the agent knows, and the others are skipped", async () => {
    for (const challenges of [
      [UNKNOWN_CHAIN, {}],
      [{ ...UNKNOWN_CHAIN, amount: "1" }, { currency: `0x${"99".repeat(20)}`, amount: "1" }, {}],
      [{ method: "tempo" }, { intent: "session" }, {}],
    ] satisfies ChallengeChange[][]) {
      const server = await startMppServer(chain, { challenges });
      expect((await agentOn().agent.pay(server.url)).status).to.equal(200);
      expect(server.credentials).to.have.length(1);
      expect(server.credentials[0]?.challenge.id).to.equal(`challenge-${challenges.length - 1}`);
    }
  });

  for (const [what, options, reason] of [
    ["another chain alone", { challenges: [UNKNOWN_CHAIN] }, "network"],
    ["no credential types", { challenges: [{ methodDetails: { credentialTypes: undefined } }] }, "credential_type"],
    [
      "other credential types",
      { challenges: [{ methodDetails: { credentialTypes: ["permit2"] } }] },
      "credential_type",
    ],
    ["splits", { challenges: [{ methodDetails: { splits: [] } }] }, "splits"],
    ["other decimals", { challenges: [{ methodDetails: { decimals: 18 } }] }, "decimals"],
    ["a header of its own", { challenges: [{ header: "Cookie" }] }, "header"],
    ["another body's digest", { challenges: [{ digest: `sha-256=:${digestOf("other")}:` }] }, "digest"],
    ["an end that has passed", { challenges: [{ expires: "2020-01-01T00:00:00Z" }] }, "window"],
    ["an end that is no time", { challenges: [{ expires: "soon" }] }, "malformed"],
    ["an end without its zone", { challenges: [{ expires: "2999-01-01T00:00:00" }] }, "malformed"],
    ["an end on no day", { challenges: [{ expires: "2999-02-30T00:00:00Z" }] }, "malformed"],
    ["an end that is a day", { challenges: [{ expires: "2999-01-01" }] }, "malformed"],
    ["an amount that is none", { challenges: [{ amount: "-1" }] }, "malformed"],
    ["a price above the policy", { challenges: [{ amount: "900000000" }] }, "limit"],
    ["other protocols alone", { challenges: [{ method: "tempo" }] }, "quote"],
  ] satisfies [string, MppOptions, string][]) {
    it(`are not paid for a challenge with ${what}`, async () => {
      const server = await startMppServer(chain, options);
      const subject = agentOn();
      const error = await rejection(subject.agent.pay(server.url, { method: "POST", body: "asked" }));
      expect([error.code, error.reason]).to.deep.equal(["PolicyRefused", reason]);
      expect([subject.signed, server.credentials, chain.transfers]).to.deep.equal([[], [], []]);
    });
  }

  it("are paid with the body that a digest names, in both of its spellings", async () => {
    for (const digest of [`sha-256=:${digestOf("asked")}:`, `sha-256=${digestOf("asked")}`]) {
      const server = await startMppServer(chain, { challenges: [{ digest }] });
      const response = await agentOn().agent.pay(server.url, { method: "POST", body: "asked" });
      expect(response.status).to.equal(200);
      expect(server.credentials[0]?.challenge.digest).to.equal(digest);
    }
  });

  it("are paid without a body where a digest names none", async () => {
    const server = await startMppServer(chain, { challenges: [{ digest: `sha-256=:${digestOf("")}:` }] });
    expect((await agentOn().agent.pay(server.url)).status).to.equal(200);
  });

  it("are paid in any zone of time, and with long texts beside the price", async () => {
    const at = new Date((chain.nowSec + 300 + 7_200) * 1_000).toISOString();
    const change = { expires: at.replace("Z", "+02:00"), description: "long ".repeat(1_200) };
    const server = await startMppServer(chain, { challenges: [change] });
    expect((await agentOn().agent.pay(server.url)).status).to.equal(200);
    expect(server.credentials[0]?.challenge).to.include(change);
    expect(Number(server.credentials[0]?.payload.validBefore)).to.be.at.most(chain.nowSec + 300);
  });

  it("that lose the answer, or have none yet, get the same credential again", async () => {
    const server = await startMppServer(chain, { steps: ["503", "settle_then_drop", "402", "in_flight"] });
    const subject = agentOn();
    expect((await subject.agent.pay(server.url)).status).to.equal(200);
    expect(new Set(server.credentials.map((each) => JSON.stringify(each))).size).to.equal(1);
    expect([transfersSigned(subject), server.credentials.length, chain.transfers.length]).to.deep.equal([1, 5, 1]);
  });

  it("that keep asking again are not paid a second time", async () => {
    const steps = Array.from({ length: 40 }, () => "402" as const);
    const server = await startMppServer(chain, { steps });
    const subject = agentOn();
    for (let call = 0; call < 2; call++) {
      expect((await rejection(subject.agent.pay(server.url))).code).to.equal("InvalidPaymentProof");
    }
    expect([transfersSigned(subject), chain.transfers.length]).to.deep.equal([1, 0]);
  });

  it("that say that a payment is used are heeded once it has moved", async () => {
    const server = await startMppServer(chain, { steps: ["used", "used", "used"] });
    const subject = agentOn();
    for (let call = 0; call < 3; call++) await subject.agent.pay(server.url).catch(() => undefined);
    expect([transfersSigned(subject), chain.transfers.length]).to.deep.equal([1, 0]);
    expect((await subject.agent.pay(server.url)).status).to.equal(200);
    expect([transfersSigned(subject), chain.transfers.length]).to.deep.equal([1, 1]);
  });

  it("are read among the challenges of other schemes", async () => {
    for (const before of [
      'Bearer realm="a, Payment id=", ',
      "Negotiate, ",
      "Negotiate dG9rZW4=, ",
      'Basic realm="x",',
    ]) {
      const server = await startMppServer(chain, { before });
      expect((await agentOn().agent.pay(server.url)).status, before).to.equal(200);
    }
  });

  it("get no credential from a caller who sends one already", async () => {
    const server = await startMppServer(chain);
    const headers = { Authorization: "Payment e30" };
    expect((await rejection(agentOn().agent.pay(server.url, { headers }))).code).to.equal("InvalidRequest");
  });
});

describe("challenges of MPP", () => {
  const text = 'Payment id="a", realm="b", method="evm", intent="charge", request="e30"';

  it("are read one by one, with what was escaped", () => {
    const found = challengesIn(
      `${text}, PAYMENT id=c,realm="d\\"e, Payment f=g" , method="evm",intent="x",request=e30`,
    );
    expect(found).to.deep.equal([
      { id: "a", realm: "b", method: "evm", intent: "charge", request: "e30" },
      { id: "c", realm: 'd"e, Payment f=g', method: "evm", intent: "x", request: "e30" },
    ]);
  });

  it("are read with what mppx writes for characters that no header holds", () => {
    const realm = String.raw`realm="\u20ac \"x\" C:\\u0041"`;
    const [challenge] = challengesIn(text.replace(/realm="[^"]*"/, () => realm));
    expect(challenge?.realm).to.equal(String.raw`€ "x" C:\u0041`);
  });

  it("are none where a parameter is doubled, missing or not closed", () => {
    expect(challengesIn(`${text}, id="other"`)).to.deep.equal([undefined]);
    expect(challengesIn('Payment id="a"')).to.deep.equal([undefined]);
    expect(challengesIn(`${text}, opaque="never closed`)).to.have.length(1);
    expect(challengesIn("")).to.deep.equal([]);
    expect(challengesIn(`Basic ${"a".repeat(20_000)}, ${text}`)).to.deep.equal([]);
  });

  it("take a time in proportion to their length", () => {
    const begun = process.cpuUsage();
    for (const piece of ['a="\\', 'Payment a="', "a ", ", ", 'a="b"x', "Payment ", "\\\\"]) {
      challengesIn(piece.repeat(16_384).slice(0, 16_384));
    }
    expect(process.cpuUsage(begun).user).to.be.below(2_000_000);
  });
});
