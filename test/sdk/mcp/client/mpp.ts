/** An agent's MCP client at servers that sell by MPP: in results, in errors, and beside x402. */
import { McpError } from "@modelcontextprotocol/sdk/types.js";
import { expect } from "chai";
import { receiptOf, wrapMcpClientWithPayment } from "turnpike/mcp/client";
import { keccakText } from "turnpike/protocol";
import { rejection } from "../../agent/support/rejection";
import { settleStandard } from "../../agent/support/standard-server";
import {
  type AgentUnderTest,
  addressOf,
  agentFor,
  CHAIN_ID,
  Chain,
  TOKEN,
  TOKEN_DOMAIN,
  transfersSigned,
} from "../../agent/support/world";
import { connectInMemory, specServer } from "../support/spec-server";

const weather = { name: "weather", arguments: { city: "Oslo" } };

const CREDENTIAL = "org.paymentauth/credential";

interface Presented {
  readonly challenge: { readonly id: string; readonly realm: string; readonly request: object };
  readonly payload: Record<string, string> & { readonly signature: `0x${string}` };
  readonly source: string;
}

type Ask = "result" | "error";

describe("an agent's MCP client at a server of MPP", () => {
  let chain: Chain;
  let asks: number;
  let presented: Presented[];
  const open: { close(): Promise<void> }[] = [];
  beforeEach(() => {
    chain = new Chain();
    chain.nowSec = Math.floor(Date.now() / 1_000);
    asks = 0;
    presented = [];
  });
  afterEach(async () => {
    for (const each of open.splice(0)) await each.close();
  });

  const request = (change: object = {}) => ({
    amount: "10000",
    currency: TOKEN,
    recipient: addressOf("provider"),
    methodDetails: { chainId: CHAIN_ID, decimals: 6, credentialTypes: ["authorization"] },
    ...change,
  });

  function asked(change: object): object {
    const expires = new Date((chain.nowSec + 300) * 1_000).toISOString();
    const challenge = { id: `ask-${asks++}`, realm: "tools.example", method: "evm", intent: "charge", expires };
    return { challenges: [{ ...challenge, request: request(), ...change }], httpStatus: 402 };
  }

  /** @param refuses the answer to a credential, where it is not served */
  async function shop(form: Ask, change: object = {}, refuses?: () => object | undefined) {
    const ask = () => {
      const data = asked(change);
      if (form === "error") throw new McpError(-32_042, "Payment Required", data);
      return { isError: true, content: [], _meta: { "org.paymentauth/payment-required": data } };
    };
    const server = specServer(chain, {
      answer(meta) {
        const credential = meta[CREDENTIAL] as Presented | undefined;
        if (!credential) return ask();
        presented.push(credential);
        const { type: _type, signature, ...authorization } = credential.payload;
        const { id, realm } = credential.challenge;
        expect(authorization.nonce).to.equal(keccakText(`${id}${realm}`));
        const payload = { signature, authorization: authorization as never };
        const refused = refuses?.();
        if (refused) return refused as Record<string, unknown>;
        const reference = settleStandard(chain, payload, { amount: "10000", redeems: true });
        if (!reference) return ask();
        const receipt = { method: "evm", reference, status: "success", challengeId: id };
        return { content: [{ type: "text", text: "fine" }], _meta: { "org.paymentauth/receipt": receipt } };
      },
    });
    const client = await connectInMemory(server);
    open.push(client);
    const tokens = [{ chainId: CHAIN_ID, address: TOKEN, ...TOKEN_DOMAIN }];
    const subject: AgentUnderTest = agentFor("http://127.0.0.1:1", { tokens });
    return { subject, paying: wrapMcpClientWithPayment(client, subject.agent, { server: "weather" }) };
  }

  for (const form of ["result", "error"] as const) {
    it(`pays what is asked in a ${form}, once, and repeats the challenge as it came`, async () => {
      const { subject, paying } = await shop(form, { opaque: "eyJhIjoiYiJ9", header: "Payment-Authorization" });
      const result = await paying.callTool(weather);
      expect(result.content).to.deep.equal([{ type: "text", text: "fine" }]);
      expect(receiptOf(result)).to.deep.include({ amount: 10_000n, dialect: "mpp", token: TOKEN });
      expect(receiptOf(result)?.transaction).to.match(/^0x[0-9a-f]{64}$/);
      expect(presented).to.have.length(1);
      expect(presented[0]?.challenge).to.deep.include({
        id: "ask-0",
        opaque: "eyJhIjoiYiJ9",
        header: "Payment-Authorization",
        request: request(),
      });
      expect(presented[0]?.source).to.equal(`did:pkh:eip155:${CHAIN_ID}:${presented[0]?.payload.from}`);
      expect([transfersSigned(subject), chain.transfers.length]).to.deep.equal([1, 1]);
    });

    it(`signs nothing for what its policy does not allow, asked in a ${form}`, async () => {
      for (const [change, reason] of [
        [{ request: request({ amount: "900000000" }) }, "limit"],
        [{ request: request({ methodDetails: { chainId: 999, credentialTypes: ["authorization"] } }) }, "network"],
        [{ request: {} }, "malformed"],
        [{ digest: "sha-256=:x:" }, "digest"],
      ] as const) {
        const { subject, paying } = await shop(form, change);
        const error = await rejection(paying.callTool(weather));
        expect([error.code, error.reason], JSON.stringify(change)).to.deep.equal(["PolicyRefused", reason]);
        expect([subject.signed, presented]).to.deep.equal([[], []]);
      }
    });

    it(`does not pay twice where it is asked again in a ${form}`, async () => {
      const refuse = () => ({
        isError: true,
        content: [],
        _meta: { "org.paymentauth/payment-required": asked({}) },
      });
      const { subject, paying } = await shop(form, {}, refuse);
      for (let call = 0; call < 3; call++) await paying.callTool(weather).catch(() => undefined);
      expect([transfersSigned(subject), new Set(presented.map(({ challenge }) => challenge.id)).size]).to.deep.equal([
        1, 1,
      ]);
    });
  }

  it("leaves every other error of the protocol to its caller", async () => {
    const { paying } = await shop("error", {}, () => {
      throw new McpError(-32_042, "Open this page", { elicitations: [] });
    });
    const error = await paying.callTool(weather).catch((thrown: unknown) => thrown);
    expect(error).to.include({ code: -32_042 });
  });

  it("pays by x402 where a server offers both", async () => {
    const server = specServer(chain, {});
    const client = await connectInMemory(server);
    open.push(client);
    const subject = agentFor("http://127.0.0.1:1");
    const paying = wrapMcpClientWithPayment(client, subject.agent, { server: "weather" });
    expect(receiptOf(await paying.callTool(weather))?.dialect).to.equal("x402-v2");
  });
});
