import express from "express";
import { configure } from "turnpike/gate";
import { paymentMiddleware } from "turnpike/gate/express";

// Reads TURNPIKE_NETWORK, TURNPIKE_FACILITATOR_URL and the other settings below.
await configure();
const payTo = process.env.PAY_TO ?? "";

const app = express();
app.use(
  paymentMiddleware({
    "GET /report": {
      accepts: { scheme: "exact", price: "$0.01", network: "eip155:84532", payTo },
      description: "The report of the day",
    },
  }),
);
app.get("/report", (_request, response) => {
  response.json({ report: "sunny" });
});
app.listen(process.env.PORT);
