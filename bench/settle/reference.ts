/**
 * Runs the reference facilitator's own code (x402 1.2.0: verify, then settle) behind a minimal HTTP server, to measure
 * the same payments there. Its packages have their own lock in test/interop.
 */
import { createServer, type IncomingMessage } from "node:http";
import { createRequire } from "node:module";
import type { AddressInfo } from "node:net";
import path from "node:path";
import { ROOT, serveParent } from "./process";

export interface ReferenceAsk {
  readonly rpcUrl: string;
  readonly key: string;
  readonly hasNonceManager: boolean;
}
export interface ReferenceAnswer {
  readonly url: string;
}

interface Account {
  readonly address: string;
}
interface Viem {
  createWalletClient(options: object): { extend(actions: unknown): unknown };
  http(url: string): unknown;
  readonly publicActions: unknown;
}
interface ViemAccounts {
  privateKeyToAccount(key: string, options?: object): Account;
  readonly nonceManager: unknown;
}
interface Facilitator {
  settle(signer: unknown, payload: unknown, requirements: unknown): Promise<object>;
}

export const REFERENCE_HOME = process.env.REFERENCE_HOME ?? path.join(ROOT, "test/interop");

async function textOf(message: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of message) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks).toString();
}

if (require.main === module) {
  serveParent<ReferenceAsk, ReferenceAnswer>(async ({ rpcUrl, key, hasNonceManager }) => {
    const load = createRequire(path.join(REFERENCE_HOME, "package.json"));
    const { createWalletClient, http, publicActions } = load("viem") as Viem;
    const { privateKeyToAccount, nonceManager } = load("viem/accounts") as ViemAccounts;
    const { baseSepolia } = load("viem/chains") as { baseSepolia: object };
    const { settle } = load("x402/facilitator") as Facilitator;
    const account = privateKeyToAccount(key, hasNonceManager ? { nonceManager } : {});
    const chain = baseSepolia;
    const signer = createWalletClient({ account, chain, transport: http(rpcUrl) }).extend(publicActions);
    const server = createServer(async (message, response) => {
      const result = await textOf(message)
        .then(async (body) => {
          const { paymentPayload, paymentRequirements } = JSON.parse(body) as Record<string, unknown>;
          return settle(signer, paymentPayload, paymentRequirements);
        })
        .catch((error: unknown) => ({ success: false, errorReason: error instanceof Error ? error.name : "unknown" }));
      const text = JSON.stringify(result);
      response.writeHead(200, { "content-type": "application/json", "content-length": Buffer.byteLength(text) });
      response.end(text);
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}` };
  });
}
