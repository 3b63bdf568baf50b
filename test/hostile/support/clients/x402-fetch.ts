/** The stock client of x402 version 1, as its README wires it. Installed by `npm run test:interop`. */
import { createRequire } from "node:module";
import { resolve } from "node:path";
import type { HostileClient, PayOptions } from "../play";

const stock = createRequire(resolve(__dirname, "../../../interop/package.json"));

export const name = "x402-fetch 1.2.0";
export const dialects: HostileClient["dialects"] = ["x402-v1"];

export async function pay(url: string, { privateKey, limits, signal }: PayOptions): Promise<Response> {
  const { wrapFetchWithPayment, createSigner } = stock("x402-fetch") as {
    wrapFetchWithPayment(send: typeof fetch, signer: unknown, maxValue: bigint): typeof fetch;
    createSigner(network: string, key: string): Promise<unknown>;
  };
  const signer = await createSigner("base-sepolia", privateKey);
  return wrapFetchWithPayment(fetch, signer, limits.perPayment)(url, signal ? { signal } : {});
}
