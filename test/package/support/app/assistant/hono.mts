import { Hono } from "hono";
import { paymentGate } from "turnpike/gate/hono";

const app = new Hono();
app.get("/report", paymentGate({ price: "$0.05" }), (c) =>
  c.json({ paidBy: c.get("payment").kind }),
);
export default app; // on Node: serve(app) of @hono/node-server
