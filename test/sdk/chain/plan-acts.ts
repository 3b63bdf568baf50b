import { expect } from "chai";
import { Wallet } from "ethers";
import { createPlan, issueVoucher } from "turnpike/chain";
import type { Address, Hex } from "turnpike/protocol";
import { testKey } from "../../support/chain";

const ADDRESS: Address = `0x${"11".repeat(20)}`;
const HASH: Hex = `0x${"22".repeat(32)}`;

describe("acts of a provider", () => {
  it("name a wallet without a provider, before anything is sent", async () => {
    const plan = { token: ADDRESS, amount: 1n, months: 1, graceSec: 3_600 };
    const error = await createPlan(new Wallet(testKey("provider")), ADDRESS, plan).catch((reason: Error) => reason);
    expect(error)
      .to.include({ code: "ConfigError" })
      .and.property("message")
      .matches(/^signer has no provider: connect/);
  });

  const named = async (act: Promise<unknown>) => {
    const error = await act.catch((reason: unknown) => reason);
    expect(error).to.include({ code: "ConfigError" });
    return (error as Error).message;
  };

  it("name a field of a plan that is missing, misspelled or of another kind, before anything is sent", async () => {
    const plan = { token: ADDRESS, amount: 1n, months: 1, graceSec: 3_600 };
    const { months: _, ...bare } = plan;
    for (const [wrong, message] of [
      [{ ...plan, month: 1 }, /^plan\.month is no known option: did you mean months\?$/],
      [{ ...plan, intervalSec: 60 }, /^a plan needs either months or intervalSec, and not both/],
      [bare, /^a plan needs either months or intervalSec/],
      [{ ...plan, months: 0 }, /^months is 0: give a whole number of calendar months/],
      [{ ...bare, intervalSec: 1.5 }, /^intervalSec is 1\.5: give a whole number of seconds, at least 1$/],
      [{ ...plan, graceSec: undefined }, /^graceSec is not set: /],
      [{ ...plan, amount: 1.5 }, /^amount is 1\.5: an amount is a whole number of the token's base units/],
      [{ ...plan, token: "0x12" }, /^token is 0x12: an address is 0x and 40 hex digits$/],
      [{ ...plan, payTo: "me" }, /^payTo is me: /],
      [{ ...plan, salt: "0x1" }, /^salt is 0x1: it must be 0x and 64 hex digits$/],
      [{ ...plan, metadata: { name: "Pro" } }, /^metadata must be a text: JSON\.stringify it/],
    ] as const)
      expect(await named(createPlan(new Wallet(testKey("provider")), ADDRESS, wrong as never))).to.match(message);
  });

  it("name a field of a voucher before it is signed", async () => {
    const terms = { firstAmount: 0n, firstInterval: 60, deadlineSec: 9 };
    const offer = { planId: HASH, subscriber: ADDRESS, secretHash: HASH, token: ADDRESS, ...terms };
    const deployment = { chainId: 1, turnpike: ADDRESS };
    for (const [wrong, message] of [
      [{ planId: "0x" }, /^planId is 0x: /],
      [{ subscriber: undefined }, /^subscriber is not set: /],
      [{ token: "0x12" }, /^token is 0x12: /],
      [{ firstAmount: -1n }, /^firstAmount is -1: /],
      [{ firstInterval: -1 }, /^firstInterval is -1: give a whole number of seconds, 0 to 31622400$/],
      [{ firstInterval: 31_622_401 }, /^firstInterval is 31622401: give a whole number of seconds, 0 to 31622400$/],
      [{ deadlineSec: 1.5 }, /^deadlineSec is 1\.5: /],
    ] as const) {
      const wallet = new Wallet(testKey("provider"));
      expect(await named(issueVoucher(wallet, deployment, { ...offer, ...wrong } as never))).to.match(message);
    }
  });
});
