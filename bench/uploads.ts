// Measures what a paid upload of 200 MB holds in memory: resident bytes above those of the idle process, of the agent that
// sends it and of a gate that does not bind it, each in a process of its own. Prints one JSON line per figure.
// Run: npm run bench:uploads

import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { createServer, type RequestListener, type Server } from "node:http";
import { createAdaptorServer } from "@hono/node-server";
import express from "express";
import { Hono } from "hono";
import { createProvider, gated, memoryClaims, type Provider } from "turnpike/gate";
import { expressGate } from "turnpike/gate/express";
import { honoGate } from "turnpike/gate/hono";
import {
  addressOf,
  agentFor,
  Chain,
  NETWORK,
  NOW_SEC,
  startFacilitator,
  TOKEN,
  TOKEN_DOMAIN,
} from "../test/sdk/agent/support/world";
import { listen } from "../test/support/gate";

const BODY_MB = 200;
const GOAL_MB = 50;
const MB = 1_048_576;
const SAMPLE_MS = 5;

const PRICED = { pricing: [{ type: "one-time", amount: 500_000n }] } as const;

const SERVERS: Readonly<Record<string, (provider: Provider) => Server>> = {
  "node:http": (provider) =>
    createServer(
      gated(provider.paymentGate(PRICED), async (request, response) => {
        response.end(String(await lengthOf(request as AsyncIterable<Uint8Array>)));
      }),
    ),
  "Express 5": (provider) => {
    const app = express();
    app.post("/upload", expressGate(provider.gate(PRICED)), async (request, response) => {
      response.send(String(await lengthOf(request)));
    });
    return createServer(app as RequestListener);
  },
  Hono: (provider) => {
    const app = new Hono();
    app.post("/upload", honoGate(provider.gate(PRICED)), async (c) => {
      const body = c.req.raw.body as unknown as AsyncIterable<Uint8Array>;
      return c.text(String(await lengthOf(body)));
    });
    return createAdaptorServer({ fetch: app.fetch as never }) as Server;
  },
};

async function lengthOf(body: AsyncIterable<Uint8Array>): Promise<number> {
  let length = 0;
  for await (const part of body) length += part.byteLength;
  return length;
}

/** @returns what tells how far the resident size has gone above what it is now */
function watchRss(): () => number {
  globalThis.gc?.();
  const idle = process.memoryUsage.rss();
  let peak = idle;
  setInterval(() => {
    peak = Math.max(peak, process.memoryUsage.rss());
  }, SAMPLE_MS).unref();
  return () => Math.round((Math.max(peak, process.memoryUsage.rss()) - idle) / MB);
}

async function serveGate(framework: string, facilitatorUrl: string): Promise<void> {
  const provider = createProvider({
    network: NETWORK,
    token: { address: TOKEN, ...TOKEN_DOMAIN },
    payTo: addressOf("treasury"),
    facilitator: { url: facilitatorUrl, signers: [addressOf("facilitator")] },
    secret: "a secret of this measurement, long enough",
    claims: memoryClaims({ warn: false }),
    clock: { nowSec: () => NOW_SEC },
    verify: "signature",
  });
  const url = await listen((SERVERS[framework] as (provider: Provider) => Server)(provider));
  // The first request loads what all of them need.
  await fetch(`${url}/upload`, { method: "POST", body: "warm" });
  const grownMb = watchRss();
  process.on("message", () => process.send?.({ grownMb: grownMb() }));
  process.send?.({ url: `${url}/upload` });
}

async function sendUpload(url: string, facilitatorUrl: string): Promise<void> {
  const { agent } = agentFor(facilitatorUrl);
  await agent.pay(url, { method: "POST", body: "warm" });
  const grownMb = watchRss();
  const body = new Uint8Array(BODY_MB * MB).fill(7);
  const response = await agent.pay(url, { method: "POST", body });
  const served = await response.text();
  if (response.status !== 200 || served !== String(body.byteLength)) throw new Error(`${response.status}: ${served}`);
  process.send?.({ grownMb: grownMb() });
  await agent.close();
}

const run = (...args: string[]): ChildProcess =>
  fork(__filename, args, { execArgv: [...process.execArgv, "--expose-gc"] });

async function answerOf<T>(child: ChildProcess): Promise<T> {
  const [message] = await Promise.race([once(child, "message"), once(child, "exit").then(() => [undefined])]);
  if (message === undefined) throw new Error("a process of the measurement has ended");
  return message as T;
}

async function main(): Promise<void> {
  const facilitator = await startFacilitator(new Chain());
  facilitator.announced.push(addressOf("facilitator"));
  const children: ChildProcess[] = [];
  try {
    for (const framework of Object.keys(SERVERS)) {
      const gate = run("gate", framework, facilitator.url);
      children.push(gate);
      const { url } = await answerOf<{ url: string }>(gate);
      const agent = run("agent", url, facilitator.url);
      children.push(agent);
      const { grownMb: ofAgent } = await answerOf<{ grownMb: number }>(agent);
      gate.send("read");
      const { grownMb: ofGate } = await answerOf<{ grownMb: number }>(gate);
      gate.kill();
      const figures = [
        { figure: `agent, MB above idle, ${BODY_MB} MB to ${framework}`, value: ofAgent, goal: BODY_MB + GOAL_MB },
        { figure: `gate under ${framework}, MB above idle, ${BODY_MB} MB`, value: ofGate, goal: GOAL_MB },
      ];
      for (const figure of figures) process.stdout.write(`${JSON.stringify(figure)}\n`);
    }
  } finally {
    for (const child of children) child.kill();
    await facilitator.close();
  }
}

if (process.send) process.once("disconnect", () => process.exit());
const [role, ...args] = process.argv.slice(2) as [string?, ...string[]];
const [first = "", second = ""] = args;
void (role === "gate" ? serveGate(first, second) : role === "agent" ? sendUpload(first, second) : main());
