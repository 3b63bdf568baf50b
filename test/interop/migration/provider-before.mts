import { HTTPFacilitatorClient } from "@x402/core/server";
import { ExactEvmScheme } from "@x402/evm/exact/server";
import { paymentMiddleware, x402ResourceServer } from "@x402/express";
import express from "express";

const facilitator = new HTTPFacilitatorClient({ url: process.env.FACILITATOR_URL ?? "" });
const server = new x402ResourceServer(facilitator).register("eip155:84532", new ExactEvmScheme());
const payTo = process.env.PAY_TO ?? "";

const app = express();
app.use(
  paymentMiddleware(
    {
      "GET /report": {
        accepts: { scheme: "exact", price: "$0.01", network: "eip155:84532", payTo },
        description: "The report of the day",
      },
    },
    server,
  ),
);
app.get("/report", (_request, response) => {
  response.json({ report: "sunny" });
});
app.listen(process.env.PORT);
