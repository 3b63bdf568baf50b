/**
 * x402 in both versions, and native proofs, which share its headers and the body of its 402. Also writes the headers that
 * report a payment, for clients of both versions.
 */
import { caip2Of, encodeJsonHeader, HEADER, type SignedReceipt } from "../../../protocol";
import type { OneTimePayment, PaymentReport } from "../../core/payment";
import { invalid, type PaymentAnswers, type PaymentCase } from "../../core/payment-case";
import type { Settings } from "../../core/settings";
import { checkProof } from "../../schemes/once";
import { type BodyDialect, entryNamed, type PaymentCredential } from "../dialect";
import { checkV1, checkV2, entryOfV1, type Reading, readPaymentHeaders } from "./credentials";
import { receiptExtension } from "./quote-header";
import { createQuotes } from "./quotes";

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

/** A signed receipt goes with answers that served the request alone. */
export async function reportOf({ context, resource }: PaymentCase, payment: OneTimePayment): Promise<PaymentReport> {
  const { settings, offerReceipts } = context;
  const signed = await offerReceipts?.receipt(resource, payment, settings.network.chainId);
  const headers = headersFor(payment, settings, signed);
  return { headers, headersOfFailure: offerReceipts && headersFor(payment, settings) };
}

/** Each version's clients read their own header, with the network named as they know it. */
function headersFor(payment: OneTimePayment, settings: Settings, signed?: SignedReceipt): Record<string, string> {
  const { payer, max, amount } = payment;
  const isUpto = max !== undefined;
  // As the reference has it: nothing charged is no transaction, and the charge is named where it can differ.
  const transaction = payment.transaction ?? (isUpto ? "" : undefined);
  const charged = isUpto ? { amount: amount.toString() } : {};
  const extensions = signed && { extensions: receiptExtension(signed) };
  const receiptOn = (network: string, more?: object) =>
    encodeJsonHeader({ success: true, transaction, network, payer, ...charged, ...more });
  return {
    [HEADER.paymentResponse]: receiptOn(settings.networkText),
    [HEADER.paymentResponseV2]: receiptOn(caip2Of(settings.network.chainId), extensions),
  };
}
