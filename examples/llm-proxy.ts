/**
 * A provider of tokens: a proxy in front of a language model with OpenAI's interface. Subscribers of a plan pay for the
 * tokens that their answers use, up to the cap that each has set; an answer ends where its cap does.
 */
import { once } from "node:events";
import type { AddressInfo } from "node:net";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import type { ReadableStream } from "node:stream/web";
import express from "express";
import { meterStream, openAiUsage, type Payment, type Provider, type TokenPrices } from "turnpike/gate";
import { paymentGate } from "turnpike/gate/express";

export interface LlmProxyOptions {
  readonly provider: Provider;
  readonly plan: string;
  /** the model provider's chat completions, and the key that pays it */
  readonly upstream: { readonly url: string; readonly key: string };
  readonly port: number;
}

/** The models that are sold here, and what their tokens cost. */
export const models: Readonly<Record<string, TokenPrices>> = {
  large: {
    input: { amount: "$3", per: 1_000_000 },
    cachedInput: { amount: "$0.30", per: 1_000_000 },
    output: { amount: "$15", per: 1_000_000 },
  },
  small: { input: { amount: "$0.25", per: 1_000_000 }, output: { amount: "$2", per: 1_000_000 } },
};

/** What a caller may set. The upstream's other fields can cost more than tokens, or concern the provider's account. */
const FIELDS = ["messages", "max_completion_tokens", "temperature", "top_p", "stop", "seed", "tools", "tool_choice"];

export async function startLlmProxy({ provider, plan, upstream, port }: LlmProxyOptions) {
  const app = express();
  app.use(express.json({ limit: "1mb" }));
  const gate = paymentGate({ provider, pricing: [{ type: "subscription", plan }], metered: true });

  app.post("/v1/chat/completions", gate, async (req, res) => {
    const { model, stream, ...rest } = req.body ?? {};
    const prices = typeof model === "string" && Object.hasOwn(models, model) ? models[model] : undefined;
    if (!prices) {
      res.status(400).json({ error: { message: `model: use one of ${Object.keys(models).join(", ")}` } });
      return;
    }
    const fields = Object.fromEntries(FIELDS.filter((name) => name in rest).map((name) => [name, rest[name]]));
    // A stream states its usage only where it is asked to.
    const asked = stream ? { stream: true, stream_options: { include_usage: true } } : {};
    const left = new AbortController();
    res.once("close", () => left.abort());
    const answer = await fetch(upstream.url, {
      method: "POST",
      headers: { "Content-Type": "application/json", Authorization: `Bearer ${upstream.key}` },
      body: JSON.stringify({ ...fields, ...asked, model }),
    });
    const payment = req.payment as Payment;
    const metered = await meterStream(answer, { payment, prices, read: openAiUsage(), signal: left.signal });
    res.status(metered.status).setHeaders(metered.headers);
    // A client that leaves is charged what it got: the upstream is read on for its usage, and must not end before.
    if (metered.body) await pipeline(Readable.fromWeb(metered.body as ReadableStream), res).catch(() => undefined);
    else res.end();
  });

  await provider.ready();
  const server = app.listen(port, "127.0.0.1");
  await once(server, "listening");
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1/chat/completions`,
    async stop() {
      server.close();
      server.closeAllConnections();
      await provider.close();
    },
  };
}
