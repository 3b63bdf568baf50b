// Next.js: app/report/route.ts
import { paymentGate } from "turnpike/gate/next";

export const GET = paymentGate({ price: "$0.05" })((request) =>
  Response.json({ paidBy: request.payment.kind }),
);
