import { expect } from "chai";
import { ConfigError, InsufficientFunds, PolicyRefused, TurnpikeError } from "turnpike/protocol";
import { withCliRemedy } from "../../../sdk/src/cli/remedies";

const HALF = "0.50 (500000 base units)";

describe("the command line's words for errors", () => {
  const refused = (reason: string, details: PolicyRefused["details"]) =>
    new PolicyRefused("7 of the agent's options", { reason, details });
  const amounts = { amount: "500000", limit: "10" };
  const cases: readonly (readonly [TurnpikeError, RegExp])[] = [
    [refused("max_amount", amounts), /^The price is 0\.50 \(500000 base units\), above --max, which is 0\.00001 \(10 /],
    [refused("price_raised", amounts), /^The price is 0\.50 .*that was quoted first/],
    [refused("limit", amounts), /^0\.50 \(500000 base units\) is above the limit, which is 0\.00001 \(10 base units\)/],
    [refused("limit", { ...amounts, periods: 24 }), /^0\.50 \(500000 base units\) for each of 24 periods in a day is /],
    [refused("first_charge", amounts), /^The first charge of 0\.50 .*above the limit/],
    [refused("per_day", { ...amounts, spent: "0" }), /^The day's budget is spent: 0\.00 .* would add 0\.50 /],
    [refused("per_payee", { ...amounts, spent: "0" }), /^The day's budget for this payee is spent: .* add 0\.50 /],
    [
      new InsufficientFunds("1 of 2", { details: { required: "500000", available: "0" } }),
      /^The wallet has 0\.00 .*of 0\.50 /,
    ],
    [
      new ConfigError("name it in the agent's deployments", { reason: "no_deployment", details: { chainId: 8453 } }),
      /^Turnpike's contract on chain 8453 is not known/,
    ],
  ];
  for (const [error, said] of cases) {
    it(`name its settings and whole tokens: ${error.reason ?? error.code}`, () => {
      const shown = withCliRemedy(error) as TurnpikeError;
      expect(shown.message).to.match(said);
      expect(shown.message).to.not.match(/agent|deployments|undefined/);
      expect(shown).to.deep.include({ code: error.code, reason: error.reason, details: error.details });
      if (error.details.chainId !== undefined) expect(shown.remedy).to.include("TURNPIKE_ADDRESS");
    });
  }

  it("are the error's own where it has no details, whatever numbers are in it", () => {
    for (const error of [
      new PolicyRefused("An earlier command signed 5.", { reason: "max_amount" }),
      new InsufficientFunds("A debit of chain 8453 failed."),
      new TurnpikeError("PaymentNotAllowed", `at least ${HALF}`),
    ])
      expect((withCliRemedy(error) as TurnpikeError).message).to.equal(error.message);
  });
});
