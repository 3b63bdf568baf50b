/**
 * Runs the servers that bench/gate.ts loads, in their own process: ungated, gated, and reference packages for
 * comparison.
 */
import { createServer, type RequestListener } from "node:http";
import { createRequire } from "node:module";
import type { AddressInfo } from "node:net";
import path from "node:path";
import { getRequestListener } from "@hono/node-server";
import express from "express";
import { Hono } from "hono";
import { createProvider, gated, type Provider, type ProviderOptions } from "turnpike/gate";
import { expressGate } from "turnpike/gate/express";
import { honoGate } from "turnpike/gate/hono";

export interface Assignment {
  readonly options: ProviderOptions & { readonly folder: string };
  readonly planId: string;
  readonly facilitatorUrl: string;
  /** package.json of the reference packages: serves those, and no gates */
  readonly references: string | undefined;
}

const BODY = JSON.stringify({ answer: 42 });
const JSON_HEADERS = { "Content-Type": "application/json" };
const PRICE = { type: "one-time", amount: 500_000n } as const;

async function main(assignment: Assignment): Promise<void> {
  const { facilitatorUrl, references } = assignment;
  // The reference packages bring their own heap, which would slow the other servers.
  return references === undefined ? serveGates(assignment) : listenAll(referencesFrom(references, facilitatorUrl));
}

async function serveGates({ options, planId }: Assignment): Promise<void> {
  const { folder, ...shared } = options;
  const open = (name: string, more: ProviderOptions = {}): Provider =>
    createProvider({ ...shared, claims: path.join(folder, name), meterFolder: path.join(folder, name), ...more });
  const provider = open("default");
  const bySignature = open("signature", { verify: "signature" });
  const metering = open("metered");
  const pricing = [PRICE, { type: "subscription", plan: planId }] as const;
  const gate = () => provider.gate({ pricing });

  const listeners: Record<string, RequestListener> = {
    "node ungated": (_request, response) => void response.writeHead(200, JSON_HEADERS).end(BODY),
    "node gated": gated(provider.paymentGate({ pricing }), (_request, response) =>
      response.writeHead(200, JSON_HEADERS).end(BODY),
    ),
    "hono ungated": honoOf(),
    "hono gated": honoOf(honoGate(gate())),
    "hono single": honoOf(honoGate(provider.gate({ pricing: [PRICE] }))),
    "express ungated": expressOf(),
    "express gated": expressOf(expressGate(gate())),
    "node proof signature": gated(bySignature.paymentGate({ pricing: [PRICE] }), (_request, response) =>
      response.writeHead(200, JSON_HEADERS).end(BODY),
    ),
    "node proof default": gated(provider.paymentGate({ pricing: [PRICE] }), (_request, response) =>
      response.writeHead(200, JSON_HEADERS).end(BODY),
    ),
    "node metered": gated(metering.paymentGate({ pricing, metered: true }), async (request, response) => {
      await request.payment?.deduct(1n);
      response.writeHead(200, JSON_HEADERS).end(BODY);
    }),
  };
  await Promise.all([provider, bySignature, metering].map((one) => one.ready()));
  await listenAll(listeners, () => metering.flush());
}

async function listenAll(
  listeners: Readonly<Record<string, RequestListener>>,
  flush: () => Promise<void> = async () => undefined,
): Promise<void> {
  const urls: Record<string, string> = {};
  for (const [name, listener] of Object.entries(listeners)) {
    const server = createServer(listener);
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    urls[name] = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  }
  process.on("message", async (message) => {
    if (message === "cpu") process.send?.({ cpu: process.cpuUsage() });
    if (message !== "stop") return;
    await flush().catch(() => undefined);
    process.exit(0);
  });
  process.send?.({ urls });
}

function honoOf(...gates: ReturnType<typeof honoGate>[]): RequestListener {
  const app = new Hono();
  for (const gate of gates) app.use("/paid", gate as never);
  app.get("/paid", (c) => c.body(BODY, 200, JSON_HEADERS));
  return getRequestListener(app.fetch);
}

function expressOf(...gates: ReturnType<typeof expressGate>[]): RequestListener {
  const app = express();
  app.get("/paid", ...gates, (_request, response) => void response.set(JSON_HEADERS).send(BODY));
  return app;
}

/** As in their documentation, with a Facilitator that answers at once. */
function referencesFrom(manifest: string, url: string): Record<string, RequestListener> {
  const load = createRequire(manifest);
  const payTo = `0x${"11".repeat(20)}`;
  const v1Routes = { "GET /paid": { price: "$0.50", network: "base-sepolia" } };
  const v1Express = load("express")() as ReturnType<typeof express>;
  v1Express.use(load("x402-express").paymentMiddleware(payTo, v1Routes, { url }));
  const v1Hono = new Hono();
  v1Hono.use(load("x402-hono").paymentMiddleware(payTo, v1Routes, { url }));
  v1Hono.get("/paid", (c) => c.body(BODY, 200, JSON_HEADERS));
  const { x402ResourceServer, paymentMiddleware } = load("@x402/express");
  const { HTTPFacilitatorClient } = load("@x402/core/server");
  const { ExactEvmScheme } = load("@x402/evm/exact/server");
  const server = new x402ResourceServer(new HTTPFacilitatorClient({ url })).register(
    "eip155:84532",
    new ExactEvmScheme(),
  );
  const accepts = { scheme: "exact", network: "eip155:84532", payTo, price: "$0.50" };
  const v2Express = load("express")() as ReturnType<typeof express>;
  v2Express.use(paymentMiddleware({ "GET /paid": { accepts, description: "A route" } }, server));
  for (const app of [v1Express, v2Express])
    app.get("/paid", (_q, response) => void response.set(JSON_HEADERS).send(BODY));
  const ungated = load("express")() as ReturnType<typeof express>;
  ungated.get("/paid", (_q, response) => void response.set(JSON_HEADERS).send(BODY));
  return {
    "reference express ungated": ungated,
    "reference hono ungated": honoOf(),
    "reference x402-express": v1Express,
    "reference x402-hono": getRequestListener(v1Hono.fetch),
    "reference @x402/express": v2Express,
  };
}

process.once("message", (assignment) => {
  main(assignment as Assignment).catch((error: unknown) => {
    console.error(error);
    process.exit(1);
  });
});
