import { readdirSync, readFileSync } from "node:fs";
import { STATUS_CODES } from "node:http";
import { join } from "node:path";
import { expect } from "chai";
import * as turnpike from "turnpike";
import {
  AllowanceExhausted,
  ERROR_CLASSES,
  ERRORS,
  type ErrorCode,
  InsufficientFunds,
  InvalidPaymentProof,
  isErrorCode,
  PlanDeprecated,
  SubscriptionNotActive,
  TurnpikeError,
} from "turnpike/protocol";
import { IBatchSettler__factory, ITurnpike__factory } from "../../sdk/src/chain/generated";

function sources(folder: string): string[] {
  return readdirSync(folder, { withFileTypes: true }).flatMap((entry) => {
    const path = join(folder, entry.name);
    if (entry.isDirectory()) return entry.name === "generated" ? [] : sources(path);
    return path.endsWith(".ts") ? [path] : [];
  });
}

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

  it("every documented error has a contract error or an SDK class of its name", () => {
    const named = { AllowanceExhausted, InsufficientFunds, InvalidPaymentProof, PlanDeprecated, SubscriptionNotActive };
    for (const [name, errorClass] of Object.entries(named)) {
      expect(errorClass.name, name).to.equal(name);
      expect(ERRORS[name as keyof typeof named].remedy, name).to.not.equal("");
      if (name !== "InvalidPaymentProof") expect(fromContracts.has(name), name).to.equal(true);
    }
  });

  it("the classes to catch are exactly those that the package exports, each with its own code, status and retry", () => {
    const exported = Object.entries(turnpike).filter(
      ([, value]) => typeof value === "function" && value.prototype instanceof TurnpikeError,
    );
    expect(exported.map(([name]) => name).sort()).to.deep.equal(Object.keys(ERROR_CLASSES).sort());
    for (const [code, errorClass] of Object.entries(ERROR_CLASSES)) {
      const error = new errorClass();
      const { status, retryable, remedy, cause } = ERRORS[code as ErrorCode];
      expect(error, code).to.include({ code, name: code, status, retryable, remedy, message: cause });
      expect(errorClass.name, code).to.equal(code);
    }
  });

  it("every code in TypeScript is thrown by some line, and no line throws another", () => {
    const text = [...sources("sdk/src"), ...sources("facilitator/src")]
      .filter((file) => !file.endsWith("protocol/errors.ts"))
      .map((file) => readFileSync(file, "utf8"))
      .join("\n");
    const thrown = new Set(
      [...text.matchAll(/["'`]([A-Z][A-Za-z]+)["'`]|new ([A-Z][A-Za-z]+)\(/g)].map(([, a, b]) => a ?? b),
    );
    const silent = Object.entries(ERRORS).filter(([code, row]) => row.origin !== "contract" && !thrown.has(code));
    expect(silent.map(([code]) => code)).to.deep.equal([]);
    for (const [, code = ""] of text.matchAll(/new TurnpikeError\(\s*["'](\w+)["']/g)) {
      expect(Object.keys(ERRORS), code).to.include(code);
    }
  });

  it("the types list the same set, statuses that HTTP knows, and codes that are valid names", () => {
    // Checked by the compiler: a code more or less in either is an error here.
    const typed: Record<ErrorCode, { readonly status: number; readonly retryable: boolean }> = ERRORS;
    expect(Object.keys(typed)).to.deep.equal(Object.keys(ERRORS));
    for (const [code, { status }] of Object.entries(typed)) {
      expect(code).to.match(/^[A-Z][A-Za-z0-9]+$/);
      expect(STATUS_CODES[status], code).to.be.a("string");
      expect(isErrorCode(code)).to.equal(true);
    }
    expect(isErrorCode("toString")).to.equal(false);
  });

  it("no row leaves its cause or remedy empty", () => {
    for (const [code, row] of Object.entries(ERRORS)) {
      expect(row.cause, code).to.match(/\.$/);
      expect(row.remedy, code).to.match(/\.$/);
    }
  });
});
