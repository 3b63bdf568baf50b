import { paymentGate } from "turnpike/gate/next";

/** The provider is configured by TURNPIKE_* in the environment. */
export const gated = paymentGate({ pricing: [{ type: "one-time", amount: 500_000n }] });

/** Priced by a body that the price reads and the handler reads again. */
export const gatedByBody = paymentGate({
  pricing: [{ type: "one-time", amount: async (request) => BigInt((await request.json()).size) }],
  bind: "body",
  maxBodyBytes: 1_000,
});
