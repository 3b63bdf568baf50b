/** What a server made of one request, in one word: what the tables of tricks are written in. */
import type { RawAnswer } from "./wire";

export type Outcome =
  | "served"
  /** 402 without a credential that it saw */
  | "asked"
  /** 402: this is no payment */
  | "malformed"
  /** 402: a payment, for something else */
  | "refused"
  /** 402: this payment has bought its request */
  | "used"
  /** 400: two readings */
  | "ambiguous"
  /** 400: a target with two readings */
  | "no resource"
  /** 409 */
  | "in flight"
  /** 400 and its kin, before anybody looked at the payment */
  | "no HTTP"
  /** a redirect, or nothing there */
  | "elsewhere"
  /** a preflight's answer */
  | "leave"
  | "cut off"
  | "broken";

export function outcomeOf(answer: RawAnswer | undefined): Outcome {
  if (!answer) return "cut off";
  const { status, json } = answer;
  switch (json?.error) {
    case "PaymentRequired":
      return "asked";
    case "InvalidPaymentProof":
      return json.reason === "malformed" ? "malformed" : "refused";
    case "PaymentAlreadyUsed":
      return "used";
    case "SubscriptionNotActive":
      return "refused";
    case "AmbiguousCredentials":
      return "ambiguous";
    case "InvalidRequest":
      return "no resource";
    case "ProofInFlight":
      return "in flight";
  }
  if (status === 204) return "leave";
  if (status >= 200 && status < 300) return "served";
  if (status === 402) return "asked";
  if ((status >= 300 && status < 400) || status === 404 || status === 405) return "elsewhere";
  if (status === 400 || status === 413 || status === 414 || status === 417 || status === 431) return "no HTTP";
  return "broken";
}
