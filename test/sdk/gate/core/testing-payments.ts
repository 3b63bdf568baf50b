import { expect } from "chai";
import type { X402RequestWire } from "turnpike/facilitator";
import { addressOfKey, type Hex, keccakText, paymentIdOf } from "turnpike/protocol";
import { manualClock } from "turnpike/testing";
import { TestPayments } from "../../../../sdk/src/testing/payments";

const CHAIN_ID = 31_337;
const keyOf = (name: string): Hex => keccakText(name);
const [payer, payTo, asset] = ["payer", "payee", "token"].map((name) => addressOfKey(keyOf(name))) as [Hex, Hex, Hex];
const nonce = keccakText("nonce");
const paymentId = paymentIdOf({ chainId: CHAIN_ID, token: asset as never, payer: payer as never, nonce });

function requestOf(validBefore: number, grantId?: Hex): X402RequestWire {
  const terms = { scheme: "exact" as const, network: `eip155:${CHAIN_ID}`, amount: "5", asset, payTo };
  const requirements = { ...terms, maxTimeoutSeconds: 60 };
  const authorization = {
    from: payer,
    to: payTo,
    value: "5",
    validAfter: "0",
    validBefore: String(validBefore),
    nonce,
  };
  const payload = { signature: `0x${"11".repeat(65)}`, authorization };
  return {
    paymentPayload: { x402Version: 2, payload, accepted: requirements },
    paymentRequirements: requirements,
    ...(grantId && { grant: { id: grantId, resource: "https://api.example/r" } }),
  };
}

describe("the test provider's Facilitator", () => {
  const [mine, other] = [keyOf("mine"), keyOf("other")];
  const refused = { isValid: false, invalidReason: "payment_already_granted" };

  it("reserves a payment for one purchase until it is released, settled or expired", () => {
    const clock = manualClock();
    const payments = new TestPayments({ chainId: CHAIN_ID, network: "local-31337", clock, key: keyOf("facilitator") });
    const end = clock.nowSec() + 60;
    expect(payments.verify(requestOf(end))).to.deep.equal({ isValid: true, payer });
    expect(payments.verify(requestOf(end, mine))).to.deep.equal({ isValid: true, payer, reserved: true });
    expect(payments.verify(requestOf(end, other))).to.include(refused);
    expect(payments.settle(requestOf(end, other))).to.include({ success: false, errorReason: refused.invalidReason });
    expect(payments.release(paymentId, other)).to.equal(false);
    expect(payments.release(paymentId, mine)).to.equal(true);
    expect(payments.verify(requestOf(end, other))).to.include({ reserved: true });
    clock.advance(60);
    expect(payments.verify(requestOf(end + 60, mine))).to.include({ reserved: true });
    expect(payments.settle(requestOf(end + 60, mine))).to.include({ success: true });
    expect(payments.release(paymentId, mine), "it is settled").to.equal(false);
    clock.advance(600);
    expect(payments.verify(requestOf(end + 600, other))).to.include(refused);
  });
});
