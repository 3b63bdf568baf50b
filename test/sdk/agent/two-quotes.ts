/** A 402 whose header and body differ: the agent pays the lower price, and no payee that only one of them names. */
import { expect } from "chai";
import { caip2Of, encodeJsonHeader } from "turnpike/protocol";
import { rejection } from "./support/rejection";
import { closeAll, serve } from "./support/servers";
import { type StandardPayload, settleStandard } from "./support/standard-server";
import { addressOf, agentFor, CHAIN_ID, Chain, NETWORK, TOKEN, TOKEN_DOMAIN } from "./support/world";

interface Terms {
  readonly amount?: string;
  readonly payTo?: string;
  readonly asset?: string;
}

describe("a 402 whose header and body differ", () => {
  let chain: Chain;
  beforeEach(() => {
    chain = new Chain();
    chain.nowSec = Math.floor(Date.now() / 1_000);
  });
  afterEach(closeAll);

  /** A server that speaks both versions. */
  async function shop(body: readonly Terms[], header: readonly Terms[]) {
    const paid: { readonly amount: string; readonly payTo: string; readonly version: number }[] = [];
    let url = "";
    const server = await serve((request) => {
      const value = request.headers["x-payment"] ?? request.headers["payment-signature"];
      if (typeof value === "string") {
        const payload = JSON.parse(atob(value)) as StandardPayload;
        const { to, value: amount } = payload.payload.authorization;
        paid.push({ amount, payTo: to, version: payload.x402Version });
        settleStandard(chain, payload.payload, { amount, redeems: true });
        return { status: 200, json: {} };
      }
      const common = {
        scheme: "exact",
        payTo: addressOf("provider"),
        asset: TOKEN,
        extra: TOKEN_DOMAIN,
        maxTimeoutSeconds: 60,
      };
      const first = body.map(({ amount = "10000", ...terms }) => ({
        ...common,
        network: NETWORK,
        maxAmountRequired: amount,
        resource: url,
        description: "",
        mimeType: "",
        ...terms,
      }));
      const second = header.map((terms) => ({ ...common, network: caip2Of(CHAIN_ID), amount: "10000", ...terms }));
      const required = { x402Version: 2, error: "", resource: { url }, accepts: second };
      return {
        status: 402,
        json: { x402Version: 1, error: "", accepts: first },
        headers: { "PAYMENT-REQUIRED": encodeJsonHeader(required) },
      };
    });
    url = `${server.url}/`;
    const subject = agentFor("http://127.0.0.1:1");
    return { pay: () => subject.agent.pay(url), quote: () => subject.agent.quote(url), paid, subject };
  }

  const provider = addressOf("provider");
  const attacker = addressOf("attacker");

  for (const [where, body, header, version] of [
    ["header", "20000", "5000", 2],
    ["body", "5000", "20000", 1],
  ] as const) {
    it(`pays the lower price, of the ${where}`, async () => {
      const { pay, paid } = await shop([{ amount: body }], [{ amount: header }]);
      expect((await pay()).status).to.equal(200);
      expect(paid).to.deep.equal([{ amount: "5000", payTo: provider, version }]);
    });

    it(`signs nothing where the ${where} names another payee, also for less`, async () => {
      const [ours, theirs] = [[{}], [{ amount: "1", payTo: attacker }]];
      const { pay, subject } = await (where === "header" ? shop(ours, theirs) : shop(theirs, ours));
      const error = await rejection(pay());
      expect([error.code, error.reason]).to.deep.equal(["PolicyRefused", "contradictory"]);
      expect(subject.signed).to.deep.equal([]);
    });

    it(`pays what both name where the ${where} adds a cheaper offer of another payee`, async () => {
      const [ours, theirs] = [[{}], [{}, { amount: "1", payTo: attacker }]];
      const { pay, paid } = await (where === "header" ? shop(ours, theirs) : shop(theirs, ours));
      expect((await pay()).status).to.equal(200);
      expect(paid.map(({ amount, payTo }) => [amount, payTo])).to.deep.equal([["10000", provider]]);
    });
  }

  it("lists an offer that both name once", async () => {
    const { quote } = await shop([{}, { amount: "30000" }], [{}]);
    expect((await quote()).options.map(({ amount }) => amount)).to.deep.equal([10_000n, 30_000n]);
  });

  it("pays by the one that can be paid where the other asks for another token", async () => {
    const { pay, paid } = await shop([{ asset: `0x${"99".repeat(20)}`, amount: "1" }], [{}]);
    expect((await pay()).status).to.equal(200);
    expect(paid).to.deep.equal([{ amount: "10000", payTo: provider, version: 2 }]);
  });
});
