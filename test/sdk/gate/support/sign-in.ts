/** Answers `sign-in-with-x` challenges as a wallet would, and wrongly where a test says so. */
import { expect } from "chai";
import type { Wallet } from "ethers";
import { encodeJsonHeader, type Hex, signInMessage } from "turnpike/protocol";
import { type Answer, send } from "../../../support/gate";

export interface Challenge {
  readonly info: Record<"domain" | "uri" | "version" | "statement" | "nonce" | "issuedAt" | "expirationTime", string>;
  readonly supportedChains: { readonly chainId: string; readonly type: string }[];
}

/** Of a 402's header for clients of x402 version 2. */
export function extensionsIn(answer: Answer): Record<string, { info: Record<string, unknown> }> {
  const header = answer.headers["payment-required"];
  return JSON.parse(Buffer.from(String(header), "base64").toString("utf8")).extensions;
}

export async function challengeOf(url: string, method = "GET"): Promise<Challenge> {
  const answer = await send(url, { method });
  expect(answer.status, answer.text).to.equal(402);
  return extensionsIn(answer)["sign-in-with-x"] as unknown as Challenge;
}

export interface Lies {
  /** put in before signing: what the wallet says */
  readonly say?: Record<string, unknown>;
  /** put in after signing: what a stranger changes */
  readonly swap?: Record<string, unknown>;
}

export async function answerTo({ info, supportedChains }: Challenge, wallet: Wallet, { say, swap }: Lies = {}) {
  const [chain] = supportedChains;
  const said = { ...info, address: wallet.address, ...chain, ...say } as Parameters<typeof signInMessage>[0];
  const signature = (await wallet.signMessage(signInMessage(said))) as Hex;
  return { "SIGN-IN-WITH-X": encodeJsonHeader({ ...said, signature, ...swap }) };
}
