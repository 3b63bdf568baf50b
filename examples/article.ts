/**
 * A provider whose customers are people: an article that a browser pays for on a page, with a wallet, and that a program
 * pays for as it pays for any other route.
 */
import { once } from "node:events";
import type { AddressInfo } from "node:net";
import express from "express";
import { createProvider, type ProviderOptions } from "turnpike/gate";

/** Starts it on a port. @param html the article */
export async function startArticle({ port, html, ...options }: ProviderOptions & { port: number; html: string }) {
  const { paymentGate, ready, close } = await createProvider(options);
  const app = express();
  const gate = paymentGate({
    pricing: [{ type: "one-time", price: "$0.50" }],
    description: "How tides work, with four charts",
    mimeType: "text/html",
    page: true,
  });
  app.get("/articles/tides", gate, (_req, res) => {
    res.type("html").send(html);
  });

  await ready();
  const server = app.listen(port, "127.0.0.1");
  await once(server, "listening");
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/articles/tides`,
    async stop() {
      server.close();
      server.closeAllConnections();
      await close();
    },
  };
}
