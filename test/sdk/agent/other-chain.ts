/** An agent without an RPC of its own, whose Facilitator does not serve the payment's chain, or no longer. */
import { expect } from "chai";
import type { AgentOptions } from "turnpike/agent";
import { rejection } from "./support/rejection";
import { closeAll } from "./support/servers";
import {
  agentFor,
  Chain,
  type FacilitatorStandIn,
  type ProviderStandIn,
  startFacilitator,
  startProvider,
  TOKEN,
} from "./support/world";

type Fetch = NonNullable<AgentOptions["fetch"]>;

/** As a Facilitator of other chains refuses the query `network`. */
const REFUSAL = {
  type: "urn:turnpike:error:InvalidRequest",
  title: "Malformed.",
  status: 400,
  code: "InvalidRequest",
  message: "network: this Facilitator does not serve it; use one of base-mainnet",
  retryable: false,
  details: { field: "network", in: "query" },
};

describe("an agent whose Facilitator does not serve the payment's chain", () => {
  let facilitator: FacilitatorStandIn;
  let provider: ProviderStandIn;
  let chain: Chain;

  beforeEach(async () => {
    chain = new Chain();
    facilitator = await startFacilitator(chain);
    provider = await startProvider(chain, facilitator.url);
  });
  afterEach(closeAll);

  /** Answers the questions about an account, from the first one on or after it. */
  const answering = (after: number, answer: (real: Response) => Promise<Response>): Fetch => {
    let asked = 0;
    return async (input, init) => {
      const response = await fetch(input, init);
      return String(input).includes("/accounts/") && ++asked > after ? answer(response) : response;
    };
  };
  const refused = async () => Response.json(REFUSAL, { status: 400 });

  for (const [what, answer] of [
    ["refuses the network", refused],
    [
      "answers about another chain",
      async (real: Response) => Response.json({ ...(await real.json()), chainId: 8_453 }),
    ],
  ] as const) {
    it(`HD38 signs nothing where it ${what}`, async () => {
      const subject = agentFor(facilitator.url, { fetch: answering(0, answer) });
      const error = await rejection(subject.agent.pay(provider.url));
      expect(error).to.include({ code: "PolicyRefused", reason: "network" });
      expect(error.message).to.include(facilitator.url);
      expect(subject.signed).to.deep.equal([]);
    });

    it(`HD38 keeps a refused payment and its budget where it ${what} after the refusal`, async () => {
      const policy = { perPayment: 500_000n, perDay: 500_000n, tokens: [TOKEN] };
      const subject = agentFor(facilitator.url, { fetch: answering(1, answer), policy });
      facilitator.steps.push({ refuse: "PaymentNotAllowed" });
      expect((await rejection(subject.agent.pay(provider.url))).code).to.equal("PaymentNotAllowed");
      expect((await subject.agent.payments()).map(({ state }) => state)).to.deep.equal(["signed"]);
      expect((await subject.agent.budget()).spent).to.equal(500_000n);
    });
  }
});
