/** x402 in both versions, and native proofs, which share its headers and the body of its 402. */
import { HEADER } from "../../../protocol";
import { invalid, type PaymentAnswers } from "../../core/claim-payment";
import { type BodyDialect, entryNamed, type PaymentCredential } from "../../core/dialect";
import { checkProof } from "../../schemes/once";
import { type Reading, readPaymentHeaders } from "./credentials";
import { entryOfV1 } from "./entry";
import { createQuotes } from "./quotes";
import { reportOf } from "./receipts";
import { checkV1, checkV2 } from "./standard";

export const x402: BodyDialect & PaymentAnswers = {
  read(request) {
    const read = readPaymentHeaders(request);
    return read && credentialOf(read);
  },
  createQuotes,
  report: reportOf,
};

function credentialOf(read: Reading): PaymentCredential {
  const dialect = x402;
  switch (read.kind) {
    case "malformed": {
      const { header, why, isNothing } = read;
      const verdict = invalid("malformed", `${header} holds no payment: ${why}`);
      return { dialect, header, isNothing, entry: (at) => at, check: () => verdict };
    }
    case "proof": {
      const { payload } = read;
      const entry: PaymentCredential["entry"] = (at) => entryNamed({ ...payload, asset: payload.token }, at);
      return { dialect, header: HEADER.payment, entry, check: (at) => checkProof(payload, dialect, at) };
    }
    case "x402-v1":
      return {
        dialect,
        header: read.header,
        entry: (at) => entryOfV1(read.payload, at),
        check: (at) => checkV1(read, dialect, at),
      };
    case "x402-v2":
      return {
        dialect,
        header: read.header,
        entry: (at) => entryNamed(read.payload.accepted, at),
        check: (at) => checkV2(read, dialect, at),
      };
  }
}
