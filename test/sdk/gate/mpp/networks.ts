/** A route that MPP sells on two networks: each challenge is paid by its own token, and settled by its own Facilitator. */
import { expect } from "chai";
import type { PricingEntry, Provider } from "turnpike/gate";
import { checksum } from "turnpike/protocol";
import {
  addressOf,
  CHAIN_ID,
  FRAMEWORKS,
  PAY_TO,
  type SmallFacilitator,
  send,
  signedSettlement,
  startSmallFacilitator,
  type TestServer,
  testProvider,
} from "../../../support/gate";
import { type Challenge, challengesIn, chargeIn, credentialOf, headerOf, receiptIn, type Signed } from "../support/mpp";

const OTHER_CHAIN = 31_338;

const OTHER_TOKEN = { address: checksum(`0x${"80".repeat(20)}`), name: "Other USD", version: "2", decimals: 18 };

const OTHER_PAY_TO = addressOf("treasury elsewhere");

const ELSEWHERE: Signed = { chainId: OTHER_CHAIN, token: OTHER_TOKEN };

describe("a route that MPP sells on two networks", () => {
  let here: SmallFacilitator;
  let there: SmallFacilitator;
  let provider: Provider;
  let server: TestServer;
  let url: string;

  beforeEach(async () => {
    here = await startSmallFacilitator();
    there = await startSmallFacilitator();
    const network = { network: `local-${OTHER_CHAIN}`, chainId: OTHER_CHAIN };
    there.supported = { ...there.supported, ...network, proofSigners: [addressOf("elsewhere")] };
    there.settle = (asked) => signedSettlement(asked, `0x${"ef".repeat(32)}`, "elsewhere", OTHER_CHAIN);
    provider = testProvider(here, { mpp: "Authorization" });
    const elsewhere = {
      network: `local-${OTHER_CHAIN}`,
      token: OTHER_TOKEN,
      payTo: OTHER_PAY_TO,
      facilitator: { url: there.url, signers: [addressOf("elsewhere")] },
      amount: 400_000_000_000_000_000n,
    };
    const pricing = [
      { type: "one-time", prices: [{ amount: 500_000n }, elsewhere] },
    ] as unknown as readonly PricingEntry[];
    server = await FRAMEWORKS.express(provider, [{ path: "/x", gate: { pricing } }]);
    await provider.ready();
    url = `${server.url}/x`;
  });
  afterEach(async () => {
    await server.stop();
    await provider.close();
    await Promise.all([here.stop(), there.stop()]);
  });

  async function challenges(): Promise<[cheap: Challenge, dear: Challenge]> {
    return challengesIn(await send(url)) as [Challenge, Challenge];
  }

  it("names each network, the cheaper first, and serves a credential of each", async () => {
    const [cheap, dear] = await challenges();
    expect([cheap, dear].map((each) => chargeIn(each))).to.deep.equal([
      {
        amount: "400000000000000000",
        currency: OTHER_TOKEN.address,
        methodDetails: { chainId: OTHER_CHAIN, credentialTypes: ["authorization"], decimals: 18 },
        recipient: OTHER_PAY_TO,
      },
      {
        ...chargeIn(dear),
        amount: "500000",
        methodDetails: { chainId: CHAIN_ID, credentialTypes: ["authorization"] },
        recipient: PAY_TO,
      },
    ]);
    for (const [challenge, signed, facilitator, chainId] of [
      [cheap, ELSEWHERE, there, OTHER_CHAIN],
      [dear, {}, here, CHAIN_ID],
    ] as const) {
      const answer = await send(url, { headers: headerOf(await credentialOf(challenge, signed)) });
      expect(answer.status, answer.text).to.equal(200);
      expect(receiptIn(answer)).to.include({ chainId, challengeId: challenge.id });
      expect(facilitator.calls.filter(({ path }) => path === "/settle")).to.have.length(1);
    }
  });

  it("takes a challenge of one network for no other's", async () => {
    const [cheap, dear] = await challenges();
    const [own, other] = [await credentialOf(dear), await credentialOf(cheap, ELSEWHERE)];
    for (const lie of [
      { ...own, challenge: { ...dear, request: cheap.request } },
      { ...own, challenge: { ...dear, opaque: cheap.opaque } },
      { ...own, challenge: cheap },
      { ...other, challenge: dear },
    ]) {
      const answer = await send(url, { headers: headerOf(lie) });
      expect([answer.status, answer.json.error]).to.deep.equal([402, "InvalidPaymentProof"]);
    }
    for (const facilitator of [here, there]) expect(facilitator.calls).to.deep.equal([]);
    expect(server.served.size).to.equal(0);
  });
});
