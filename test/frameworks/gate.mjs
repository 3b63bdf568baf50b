import { paymentGate } from "turnpike/gate/next";

/** The provider is configured by TURNPIKE_* in the environment. */
export const gated = paymentGate({ pricing: [{ type: "one-time", amount: 500_000n }] });
