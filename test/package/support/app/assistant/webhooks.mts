import express from "express";
import { verifyWebhook } from "turnpike/facilitator";

const seen = new Set<string>(); // in production: a table; events may come twice, and in any order
const app = express();
app.post("/webhooks", express.raw({ type: "application/json" }), (req, res) => {
  const event = verifyWebhook(req.body, req.headers, process.env.WEBHOOK_SECRET ?? ""); // throws InvalidWebhook
  if (!seen.has(event.id)) console.log(event.type);
  seen.add(event.id);
  res.status(204).end();
});
app.listen(3000);
