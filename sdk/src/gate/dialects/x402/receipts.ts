/** Writes the headers that report a payment, for clients of both versions. */
import { caip2Of, encodeJsonHeader, HEADER, type SignedReceipt } from "../../../protocol";
import type { OneTimePayment, PaymentReport } from "../../core/payment";
import type { PaymentCase } from "../../core/payment-case";
import type { Settings } from "../../core/settings";
import { receiptExtension } from "./extensions";

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
