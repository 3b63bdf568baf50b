import express from "express";
import { configure, paymentGate } from "turnpike";

const { ready } = await configure(); // reads TURNPIKE_*
const plan = process.env.PLAN ?? "";
const app = express();
app.use(express.json());

// One answer for one payment, or any number of them for subscribers.
const either = paymentGate({
  pricing: [
    { type: "one-time", price: "$0.05" },
    { type: "subscription", plan },
  ],
});
app.get("/report", either, (req, res) => res.json({ paidBy: req.payment?.kind }));

// Subscribers pay by use, under the cap that they have signed.
const metered = paymentGate({ pricing: [{ type: "subscription", plan }], metered: true });
app.post("/words", metered, async (req, res) => {
  await req.payment?.deduct(20_000n); // base units: 0.02
  res.json({ words: 20 });
});

// At most the maximum; the handler charges what the request has cost.
app.post("/summary", paymentGate({ pricing: [{ type: "upto", max: "$0.10" }] }), (req, res) => {
  req.payment?.charge("$0.03");
  res.json({ summary: "..." });
});

await ready(); // rejects with the remedy when a setting is wrong
app.listen(3000);
