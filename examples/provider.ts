/**
 * A provider: an Express server with a free, a one-time, a subscription and a metered route, one that offers a choice,
 * and one that is paid on two networks. The sandbox and the end-to-end tests run exactly this file.
 */
import { once } from "node:events";
import type { AddressInfo } from "node:net";
import express from "express";
import { createProvider, type PaymentTarget, type ProviderOptions, preflight } from "turnpike/gate";

export interface ExampleProviderOptions extends ProviderOptions {
  readonly port: number;
  readonly plans: readonly [reader: string, small: string, large: string];
  /** a second network, which /anywhere is sold on as well */
  readonly elsewhere?: PaymentTarget;
}

export interface RunningServer {
  readonly url: string;
  stop(): Promise<void>;
}

export interface RunningProvider extends RunningServer {
  /** Sends reports and debits now instead of when they are due. */
  flush(): Promise<void>;
}

/** base units of a 6-decimal token: 0.50 */
export const QUOTE_PRICE = 500_000;
/** base units per word that /complete answers with: 1,000 words cost 0.50 */
export const PRICE_PER_WORD = 500;

export async function startProvider({ port, elsewhere, ...options }: ExampleProviderOptions): Promise<RunningProvider> {
  const { paymentGate, deductAllowance, ready, flush, close } = await createProvider(options);
  const [reader, small, large] = options.plans;
  const app = express();
  app.use(express.json());
  // Pages of other origins send a preflight before they pay, and these routes have one method each.
  app.options(["/quote", "/report", "/choice", "/complete"], preflight());

  app.get("/free", (_req, res) => {
    res.json({ message: "No payment needed here." });
  });

  // `page` asks people in browsers, as the 402 asks programs.
  app.get(
    "/quote",
    paymentGate({ page: true, description: "A quote", pricing: [{ type: "one-time", amount: QUOTE_PRICE }] }),
    (req, res) => {
      res.json({ symbol: String(req.query.symbol ?? "ETH"), price: "1234.56" });
    },
  );

  app.get("/report", paymentGate({ pricing: [{ type: "subscription", plan: reader }] }), (_req, res) => {
    res.json({ title: "Daily report", pages: 12 });
  });

  app.get(
    "/choice",
    paymentGate({
      page: true,
      pricing: [
        { type: "one-time", amount: QUOTE_PRICE },
        { type: "subscription", plan: reader },
      ],
    }),
    (req, res) => {
      res.json({ paidBy: req.payment?.kind });
    },
  );

  app.post(
    "/complete",
    paymentGate({
      pricing: [
        { type: "subscription", plan: small },
        { type: "subscription", plan: large },
      ],
      metered: true,
    }),
    async (req, res) => {
      const words = Math.min(Number(req.body?.words ?? 1_000), 10_000);
      const { charged, remaining } = await deductAllowance(words * PRICE_PER_WORD);
      res.json({ words, charged: charged.toString(), remaining: remaining.toString() });
    },
  );

  if (elsewhere) {
    app.options("/anywhere", preflight());
    const prices = [{ amount: QUOTE_PRICE }, { ...elsewhere, amount: QUOTE_PRICE }];
    app.get("/anywhere", paymentGate({ pricing: [{ type: "one-time", prices }] }), (req, res) => {
      res.json({ paidOn: req.payment?.kind === "one-time" ? req.payment.network : undefined });
    });
  }

  // A wrong setting ends the process here, with its remedy, before a customer's request fails.
  await ready();
  const server = app.listen(port, "127.0.0.1");
  await once(server, "listening");
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    flush,
    async stop() {
      server.close();
      server.closeAllConnections();
      await close();
    },
  };
}
