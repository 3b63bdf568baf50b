/**
 * An agent that sells to agents: a resource server and a client in one. For each call it buys a quote from another
 * provider and sells the result at its own price.
 */
import { once } from "node:events";
import type { AddressInfo } from "node:net";
import express from "express";
import type { Agent } from "turnpike/agent";
import { createProvider, type ProviderOptions } from "turnpike/gate";
import { buyQuote } from "./agent";
import type { RunningServer } from "./provider";

/** base units: it pays 0.50 for the quote and keeps 0.25 */
export const ADVICE_PRICE = 750_000;

export interface SpecialistOptions extends ProviderOptions {
  readonly port: number;
  /** pays for the specialist's purchases; its owner closes it */
  readonly agent: Agent;
  /** the provider it buys from */
  readonly upstream: string;
}

export async function startSpecialist({
  port,
  agent,
  upstream,
  ...options
}: SpecialistOptions): Promise<RunningServer> {
  const { paymentGate, close } = await createProvider(options);
  const app = express();

  app.get("/advice", paymentGate({ pricing: [{ type: "one-time", amount: ADVICE_PRICE }] }), async (req, res) => {
    const answer = await buyQuote(agent, upstream, String(req.query.symbol ?? "ETH")).catch((error: Error) => error);
    // A 5xx lets the buyer present the payment again: nobody pays for advice that was not given.
    if (answer instanceof Error || !answer.ok)
      return void res.status(502).json({ error: "The quote could not be had." });
    const { symbol, price } = (await answer.json()) as { symbol: string; price: string };
    res.json({
      advice: Number(price) > 1_000 ? `Hold ${symbol}.` : `Buy ${symbol}.`,
      boughtIn: answer.receipt?.transaction,
    });
  });

  const server = app.listen(port, "127.0.0.1");
  await once(server, "listening");
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    async stop() {
      server.close();
      server.closeAllConnections();
      await close();
    },
  };
}
