/** The stock client of x402 version 2, as its README wires it. Installed by `npm run test:interop`. */
import { createRequire } from "node:module";
import { resolve } from "node:path";
import type { HostileClient, PayOptions } from "../play";

const stock = createRequire(resolve(__dirname, "../../../interop/package.json"));

export const name = "@x402/fetch 2.27.0";
export const dialects: HostileClient["dialects"] = ["x402-v2"];

export async function pay(url: string, { privateKey, caip2, signal }: PayOptions): Promise<Response> {
  const { wrapFetchWithPaymentFromConfig } = stock("@x402/fetch") as {
    wrapFetchWithPaymentFromConfig(send: typeof fetch, config: object): typeof fetch;
  };
  const { ExactEvmScheme } = stock("@x402/evm") as { ExactEvmScheme: new (account: unknown) => object };
  const { privateKeyToAccount } = stock("viem/accounts") as { privateKeyToAccount(key: string): unknown };
  const client = new ExactEvmScheme(privateKeyToAccount(privateKey));
  const send = wrapFetchWithPaymentFromConfig(fetch, { schemes: [{ network: caip2, client }] });
  return send(url, signal ? { signal } : {});
}
