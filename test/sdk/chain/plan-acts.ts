import { expect } from "chai";
import { Wallet } from "ethers";
import { createPlan } from "turnpike/chain";
import type { Address } from "turnpike/protocol";
import { testKey } from "../../support/chain";

const ADDRESS: Address = `0x${"11".repeat(20)}`;

describe("acts of a provider", () => {
  it("name a wallet without a provider, before anything is sent", async () => {
    const plan = { token: ADDRESS, amount: 1n, months: 1, graceSec: 3_600 };
    const error = await createPlan(new Wallet(testKey("provider")), ADDRESS, plan).catch((reason: Error) => reason);
    expect(error)
      .to.include({ code: "ConfigError" })
      .and.property("message")
      .matches(/^signer has no provider: connect/);
  });
});
