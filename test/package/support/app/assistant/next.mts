// Next.js: app/report/route.ts
import { paymentGate } from "turnpike/gate/next";

export const GET = paymentGate({ pricing: [{ type: "one-time", price: "$0.05" }] })((request) =>
  Response.json({ paidBy: request.payment.kind }),
);
