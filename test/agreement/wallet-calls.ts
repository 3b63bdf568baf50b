import { expect } from "chai";
import { Interface, id as topicOf } from "ethers";
import { turnpikeInterface } from "turnpike/chain";
import { PERMIT2 as OF_PROTOCOL } from "turnpike/protocol";
import { PERMIT2, providerCalls, withdrawApproval } from "../../facilitator/dashboard/src/wallet/calls";
import { REASONS, reasonOf } from "../../facilitator/dashboard/src/wallet/reverts";

const TURNPIKE = "0x00000000000000000000000000000000000000A1";
const TOKEN = "0x00000000000000000000000000000000000000b2";
const PAYEE = "0x00000000000000000000000000000000000000c3";
const PLAN = topicOf("a plan");
const OTHER = topicOf("another plan");

describe("agreement > calls of a wallet", () => {
  it("the portal withdraws the approval for the Permit2 of the protocol", () => {
    expect(PERMIT2).to.equal(OF_PROTOCOL);
  });

  it("the dashboard encodes each call as the contracts' ABI does", () => {
    const calls = providerCalls(TURNPIKE);
    const terms = { token: TOKEN, amount: "10000000", interval: 3, months: true, graceSec: 86_400, payTo: PAYEE };
    const { graceSec: grace, ...rest } = terms;
    for (const metadata of ["", "{}", JSON.stringify({ name: "Prö — 32 bytes and more of a name" }), "x".repeat(64)]) {
      expect(calls.createPlan(terms, OTHER, metadata).data).to.equal(
        turnpikeInterface.encodeFunctionData("createPlan", [{ ...rest, grace }, OTHER, metadata]),
      );
    }
    for (const [call, name, values] of [
      [calls.deprecatePlan(PLAN, OTHER), "deprecatePlan", [PLAN, OTHER]],
      [calls.deprecatePlan(PLAN), "deprecatePlan", [PLAN, `0x${"0".repeat(64)}`]],
      [calls.stopPlan(PLAN), "stopPlan", [PLAN]],
      [calls.setOperator(PLAN, PAYEE, 5), "setOperator", [PLAN, PAYEE, 5]],
      [calls.proposePayTo(PLAN, PAYEE), "proposePayTo", [PLAN, PAYEE]],
      [calls.withdrawPayTo(PLAN), "withdrawPayTo", [PLAN]],
      [calls.applyPayTo(PLAN), "applyPayTo", [PLAN]],
      [calls.cancelAtPeriodEnd(PLAN), "cancel", [PLAN, true, { version: 0, deadline: 0, signature: "0x" }]],
    ] as const) {
      expect(call, name).to.deep.equal({ to: TURNPIKE, data: turnpikeInterface.encodeFunctionData(name, values) });
    }
    const erc20 = new Interface(["function approve(address, uint256)"]);
    expect(withdrawApproval(TOKEN, PAYEE).data).to.equal(erc20.encodeFunctionData("approve", [PAYEE, 0]));
  });

  it("the dashboard names each refusal by the contracts' own error, wherever a wallet puts it", () => {
    for (const [selector, [name]] of Object.entries(REASONS))
      expect(turnpikeInterface.getError(selector)?.name).to.equal(name);
    const data = turnpikeInterface.encodeErrorResult("NotProvider", [PLAN, PAYEE]);
    for (const thrown of [{ data }, { data: { data } }, { data: { originalError: { data } } }, { error: { data } }])
      expect(reasonOf(thrown)).to.match(/^The contract refuses this \(NotProvider\): .* Nothing was changed\.$/);
    expect(reasonOf({ message: "0x is no data", data: "0x" })).to.equal(undefined);
    expect(reasonOf({ data: "0xdeadbeef" })).to.include("(0xdeadbeef)");
  });
});
