/** HA30: what a server signs about the payment of a tool call (the extension offer-receipt), judged by the agent. */
import type { CallToolRequest } from "@modelcontextprotocol/sdk/types.js";
import { expect } from "chai";
import type { AgentPolicy } from "turnpike/agent";
import { receiptOf, wrapMcpClientWithPayment } from "turnpike/mcp/client";
import type { ReceiptRejected } from "turnpike/protocol";
import { rejection } from "../../agent/support/rejection";
import type { Statements } from "../../agent/support/standard-server";
import { signedOffer, signedReceipt } from "../../agent/support/statements";
import { addressOf, agentFor, Chain, TOKEN, transfersSigned } from "../../agent/support/world";
import { connectInMemory, type SpecServerOptions, specServer } from "../support/spec-server";

const weather: CallToolRequest["params"] = { name: "weather", arguments: { city: "Oslo" } };

const honest: Required<Statements> = {
  offers: (terms) => [signedOffer(terms)],
  receipt: (facts) => signedReceipt(facts),
};

describe("an agent's MCP client with signed offers and receipts", () => {
  let chain: Chain;
  const open: { close(): Promise<void> }[] = [];
  beforeEach(() => {
    chain = new Chain();
    chain.nowSec = Math.floor(Date.now() / 1_000);
  });
  afterEach(async () => {
    for (const each of open.splice(0)) await each.close();
  });

  async function shop(signs: Statements, more: Partial<AgentPolicy> = {}, options: SpecServerOptions = {}) {
    const client = await connectInMemory(specServer(chain, { ...options, signs }));
    open.push(client);
    const policy = { perPayment: 1_000_000n, perDay: 10_000_000n, tokens: [TOKEN], ...more };
    const subject = agentFor("http://127.0.0.1:1", { policy });
    return { subject, paying: wrapMcpClientWithPayment(client, subject.agent, { server: "weather" }) };
  }

  for (const form of ["spec", "meta"] as const) {
    it(`are verified and returned with the result, in the form "${form}"`, async () => {
      const { paying } = await shop(honest, { requireReceipt: true }, { form });
      const receipt = receiptOf(await paying.callTool(weather));
      const by = { signer: addressOf("provider"), trustedBy: "payTo", fault: undefined };
      expect(receipt?.signedOffer).to.include(by);
      expect(receipt?.signedReceipt).to.include(by);
      expect(receipt?.signedReceipt?.payload).to.include({ transaction: receipt?.transaction });
    });
  }

  it("HA30 by another key count where the policy names it for this server", async () => {
    const signs: Statements = {
      offers: (terms) => [signedOffer(terms, "signer")],
      receipt: (facts) => signedReceipt(facts, "signer"),
    };
    const named = (server: string) => ({
      requireReceipt: true,
      receiptSigners: { [server]: [addressOf("signer")] },
    });
    const { paying } = await shop(signs, named("stdio:weather"));
    expect(receiptOf(await paying.callTool(weather))?.signedReceipt?.trustedBy).to.equal("policy");
    const elsewhere = await shop(signs, named("stdio:other-weather"));
    const error = await rejection(elsewhere.paying.callTool(weather));
    expect([error.code, error.reason, elsewhere.subject.signed]).to.deep.equal(["PolicyRefused", "receipt", []]);
  });

  const OFFERS: Readonly<Record<string, NonNullable<Statements["offers"]>>> = {
    "that is missing": () => [],
    "of another tool": (terms) => [signedOffer({ ...terms, resourceUrl: "mcp://tool/forecast" })],
    "of another amount": (terms) => [signedOffer({ ...terms, amount: "9999" })],
    "by a stranger": (terms) => [signedOffer(terms, "stranger")],
  };
  for (const [kind, offers] of Object.entries(OFFERS)) {
    it(`HA30 an offer ${kind}: nothing is signed where one is required`, async () => {
      const { paying, subject } = await shop({ ...honest, offers }, { requireReceipt: true });
      const error = await rejection(paying.callTool(weather));
      expect([error.code, error.reason, subject.signed]).to.deep.equal(["PolicyRefused", "receipt", []]);
    });
  }

  const RECEIPTS: Readonly<Record<string, readonly [string | undefined, NonNullable<Statements["receipt"]>]>> = {
    "that is missing": [undefined, () => undefined],
    "of another tool": ["resource", (facts) => signedReceipt({ ...facts, resourceUrl: "mcp://tool/forecast" })],
    "of another payer": ["payer", (facts) => signedReceipt({ ...facts, payer: addressOf("other") })],
    "by a stranger": [undefined, (facts) => signedReceipt(facts, "stranger")],
  };
  for (const [kind, [fault, receipt]] of Object.entries(RECEIPTS)) {
    it(`HA30 a receipt ${kind} is reported where one is required, with the result, and paid once`, async () => {
      const { paying, subject } = await shop({ ...honest, receipt }, { requireReceipt: true });
      const error = await rejection(paying.callTool(weather));
      expect([error.code, error.reason]).to.deep.equal(["ReceiptRejected", fault]);
      const { response } = error as ReceiptRejected<object>;
      expect(response).to.deep.include({ structuredContent: { sky: "fine" } });
      expect((await subject.agent.payments()).map(({ state }) => state)).to.deep.equal(["served"]);
      expect([transfersSigned(subject), chain.transfers.length]).to.deep.equal([1, 1]);
    });
  }
});
