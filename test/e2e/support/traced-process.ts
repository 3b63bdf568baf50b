/** A provider, or an agent that buys from it once, as a process of its own that exports its traces. */
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import * as openTelemetry from "@opentelemetry/api";
import { OTLPTraceExporter } from "@opentelemetry/exporter-trace-otlp-http";
import { NodeTracerProvider, SimpleSpanProcessor } from "@opentelemetry/sdk-trace-node";
import { createAgent, walletFromKey } from "turnpike/agent";
import { createProvider, gated, memoryClaims, type ProviderOptions } from "turnpike/gate";
import type { Hex } from "turnpike/protocol";

export interface TracedProcess {
  /** where its spans are posted */
  readonly collector: string;
  readonly provider?: ProviderOptions;
  readonly purchase?: { readonly url: string; readonly key: Hex; readonly token: string; readonly facilitator: string };
}

async function main({ collector, provider, purchase }: TracedProcess): Promise<void> {
  const spanProcessors = [new SimpleSpanProcessor(new OTLPTraceExporter({ url: collector }))];
  const traces = new NodeTracerProvider({ spanProcessors });
  traces.register();
  if (provider) sell({ ...provider, claims: memoryClaims({ warn: false }), openTelemetry });
  if (!purchase) return;
  const { url, key, token, facilitator } = purchase;
  const agent = createAgent({
    wallet: walletFromKey(key),
    policy: { perPayment: 1_000_000, perDay: 1_000_000, tokens: [token] },
    facilitators: [facilitator],
    openTelemetry,
  });
  const response = await agent.pay(url);
  process.stdout.write(`${response.status} ${await response.text()}\n`);
  await agent.close();
  await traces.shutdown();
}

function sell(options: ProviderOptions): void {
  const gate = createProvider(options).paymentGate({ pricing: [{ type: "one-time", amount: 250_000n }] });
  const server = createServer(gated(gate, (_request, response) => response.end("the report")));
  server.listen(0, "127.0.0.1", () => {
    process.stdout.write(`http://127.0.0.1:${(server.address() as AddressInfo).port}\n`);
  });
}

void main(JSON.parse(process.argv[2] ?? "{}") as TracedProcess);
