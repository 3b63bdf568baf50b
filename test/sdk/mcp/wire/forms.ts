import { expect } from "chai";
import { decodeJsonHeader, encodeJsonHeader } from "turnpike/protocol";
import {
  askIn,
  askResult,
  MCP_META,
  paymentMeta,
  paymentsIn,
  receiptIn,
  withoutCredentials,
} from "../../../../sdk/src/mcp/wire";

const V2 = { x402Version: 2, payload: { signature: "0x" }, accepted: { scheme: "exact" } };

const V1 = { x402Version: 1, scheme: "exact", network: "base", payload: {} };

const REQUIRED = { x402Version: 2, error: "PaymentRequired", resource: { url: "mcp://tool/a" }, accepts: [] };

describe("mcp > wire > forms", () => {
  it("reads a payment as object and as base64, under the keys of both versions", () => {
    const read = (meta: Record<string, unknown>) =>
      paymentsIn(meta).map(({ text, version }) => [version, decodeJsonHeader(text)]);
    expect(read(paymentMeta(V2))).to.deep.equal([[2, V2]]);
    expect(read({ "x402/payment": encodeJsonHeader(V2) })).to.deep.equal([[2, V2]]);
    expect(read({ "x402.payment": encodeJsonHeader(V1) })).to.deep.equal([[1, V1]]);
    expect(read({ "x402/payment": V1 })).to.deep.equal([[1, V1]]);
    expect(read({ "x402/payment": { version: "1", memo: "" } })).to.deep.equal([[1, { version: "1", memo: "" }]]);
    expect(read({})).to.deep.equal([]);
    expect(paymentsIn(undefined)).to.deep.equal([]);
  });

  it("reads what is no payment as malformed text, never as no payment", () => {
    for (const value of [null, 7, "", "no base64!", [], true]) {
      const [payment] = paymentsIn({ "x402/payment": value });
      expect(payment?.version, JSON.stringify(value)).to.equal(2);
      expect(decodeJsonHeader(payment?.text ?? ""), JSON.stringify(value)).to.equal(undefined);
    }
    expect(paymentsIn({ "x402/payment": V2, "x402.payment": encodeJsonHeader(V1) })).to.have.length(2);
  });

  it("writes an ask that is found as structured content, as text and in _meta alone", () => {
    const quote = { version: "1", plans: [] };
    const { content, structuredContent, _meta } = askResult({ required: REQUIRED, quote }, true);
    for (const only of [{ structuredContent }, { content }, { _meta }]) {
      expect(askIn({ isError: true, ...only })?.required).to.deep.equal(REQUIRED);
      expect(askIn(only), "a success asks for nothing").to.equal(undefined);
    }
    expect(askIn({ isError: true, _meta })?.quote).to.deep.equal(quote);
    expect(askResult({ required: REQUIRED, quote: undefined }, false)).to.not.have.property("structuredContent");
  });

  it("takes no other failure for an ask", () => {
    for (const text of ["{", "null", "{}", '{"x402Version":2}', '{"x402Version":3,"accepts":[]}', "Payment Required"]) {
      expect(askIn({ isError: true, content: [{ type: "text", text }] }), text).to.equal(undefined);
    }
    expect(askIn({ isError: true, content: "text", structuredContent: [1] })).to.equal(undefined);
  });

  it("MC5 takes every credential out of _meta, and nothing else", () => {
    const others = { progressToken: 1, "x402/other": 2 };
    const meta = { ...others, [MCP_META.payment]: V2, [MCP_META.paymentV1]: "e30=", [MCP_META.subscription]: "0x1" };
    expect(withoutCredentials(meta)).to.deep.equal(others);
  });

  it("reads a receipt in every form", () => {
    const receipt = { success: true, transaction: "0x1" };
    for (const meta of [
      { "x402/payment-response": receipt },
      { "x402/payment-response": encodeJsonHeader(receipt) },
      { "x402.payment-response": receipt },
    ]) {
      expect(receiptIn(meta)).to.deep.equal(receipt);
    }
    expect(receiptIn({ "x402/payment-response": "none" })).to.equal(undefined);
    expect(receiptIn(undefined)).to.equal(undefined);
  });
});
