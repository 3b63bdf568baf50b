/** Signs in by a wallet: its signature over the service's text (EIP-4361) makes a key for this tab. */
import type { ApiScope } from "turnpike/facilitator";
import { createApi } from "../api";
import { ask, Problem, sharedAccount, type Wallet } from "./account";

/** How long a browser's key lives, seconds. */
export const TAB_KEY_SEC = 43_200;

interface Wanted {
  /** printable, shown by the wallet */
  readonly name: string;
  readonly scopes: readonly ApiScope[];
  readonly lifeSec: number;
  /** absent: the account that the wallet shares */
  readonly account?: string;
  /** @throws Problem after the person gave up */
  readonly check?: () => void;
}

/** @returns the key, and its id */
export async function keyBy(wallet: Wallet, { name, scopes, lifeSec, account, check }: Wanted) {
  const shared = await sharedAccount(wallet, account);
  const api = createApi(undefined);
  const wanted = { provider: shared, name, scopes, expiresAt: Math.floor(Date.now() / 1_000) + lifeSec };
  const { challenge, message, expiresAt } = await api.send("POST", "/keys/challenge", wanted);
  // The wallet would warn of another domain; the page explains it here.
  if (!message?.startsWith(`${location.host} wants you to sign in`)) {
    throw new Problem("The service does not know that it is reached under this address: its operator sets PUBLIC_URL.");
  }
  const hex = `0x${[...new TextEncoder().encode(message)].map((byte) => byte.toString(16).padStart(2, "0")).join("")}`;
  const signature = await ask(wallet, "personal_sign", [hex, shared]);
  check?.();
  return api.send("POST", "/keys", { ...wanted, expiresAt, challenge, signature });
}
