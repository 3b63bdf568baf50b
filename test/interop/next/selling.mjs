/** What is sold, as the environment has it when the built application starts. */
import { HTTPFacilitatorClient } from "@x402/core/server";
import { ExactEvmScheme } from "@x402/evm/exact/server";
import { x402ResourceServer } from "@x402/next";

const { ROUTES = "{}", FORM, NETWORK = "eip155:84532", FACILITATOR_URL = "http://127.0.0.1:9" } = process.env;

/** `proxy`: by `paymentProxy`, before the route runs; else by `withX402`, around it. */
export const isProxied = FORM === "proxy";

export const routes = JSON.parse(ROUTES);

export const server = new x402ResourceServer(new HTTPFacilitatorClient({ url: FACILITATOR_URL })).register(
  NETWORK,
  new ExactEvmScheme(),
);
