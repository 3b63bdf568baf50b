/** Explains refusal codes in words; the codes are shown next to them. */
export const CAUSES: Readonly<Record<string, string>> = {
  PaymentRequired: "Saw the price and did not pay",
  InvalidPaymentProof: "The proof was rejected",
  SubscriptionNotActive: "The subscription is not active",
  AllowanceExhausted: "The overage cap was reached",
  InsufficientFunds: "The subscriber's account is empty",
  InsufficientApproval: "The subscriber approved too little",
  NotTried: "No attempt was made in time",
};
