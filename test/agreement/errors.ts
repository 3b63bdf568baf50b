import { expect } from "chai";
import {
  AllowanceExhausted,
  ERRORS,
  InsufficientFunds,
  InvalidPaymentProof,
  PlanDeprecated,
  SubscriptionNotActive,
} from "turnpike/protocol";
import { IBatchSettler__factory, ITurnpike__factory } from "../../sdk/src/chain/generated";

describe("agreement > errors", () => {
  const fromContracts = new Set<string>(
    [...ITurnpike__factory.abi, ...IBatchSettler__factory.abi]
      .filter((item) => item.type === "error")
      .map((item) => item.name),
  );

  it("the table lists exactly the contracts' errors as theirs", () => {
    const listed = Object.entries(ERRORS).filter(([, row]) => row.origin !== "sdk");
    expect(listed.map(([code]) => code).sort()).to.deep.equal([...fromContracts].sort());
  });

  it("every error that a user is told to expect has a contract error or an SDK class of its name", () => {
    const named = { AllowanceExhausted, InsufficientFunds, InvalidPaymentProof, PlanDeprecated, SubscriptionNotActive };
    for (const [name, errorClass] of Object.entries(named)) {
      expect(errorClass.name, name).to.equal(name);
      expect(ERRORS[name as keyof typeof named].remedy, name).to.not.equal("");
      if (name !== "InvalidPaymentProof") expect(fromContracts.has(name), name).to.equal(true);
    }
  });

  it("no row leaves its cause or remedy empty", () => {
    for (const [code, row] of Object.entries(ERRORS)) {
      expect(row.cause, code).to.match(/\.$/);
      expect(row.remedy, code).to.match(/\.$/);
    }
  });
});
