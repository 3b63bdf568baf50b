/**
 * Signs in with one of these:
 * - the provider's wallet, which creates a key for this tab (EIP-4361)
 * - an existing API key
 * - the sandbox's own key, in a sandbox
 */
import { useState } from "preact/hooks";
import { ApiProblem, createApi } from "../api";
import { isSandbox, type Session } from "../session";

/** The interface of a browser wallet (EIP-1193). */
interface Wallet {
  request(call: { readonly method: string; readonly params?: readonly unknown[] }): Promise<unknown>;
}

const KEY_LIFE_SEC = 43_200;
const SCOPES = ["read", "webhooks"] as const;

interface SignInProps {
  readonly onSignIn: (session: Session) => void;
  readonly openSandbox: () => Promise<Session>;
  /** why the page asks to sign in again */
  readonly reason?: string | undefined;
}

export const LACKS_READ =
  "This key lacks the scope read, which every page needs. Use a key with the scope read, or sign in with your wallet.";

export function SignIn({ onSignIn, openSandbox, reason }: SignInProps) {
  const [key, setKey] = useState("");
  const [problem, setProblem] = useState(reason);
  const [isBusy, setBusy] = useState(false);
  const wallet = (globalThis as { ethereum?: Wallet }).ethereum;

  async function attempt(act: () => Promise<Session>): Promise<void> {
    setBusy(true);
    setProblem(undefined);
    try {
      onSignIn(await act());
    } catch (error) {
      setProblem(error instanceof Error ? error.message : "The wallet refused.");
    } finally {
      setBusy(false);
    }
  }

  return (
    <main class="sign-in" id="main">
      <p class="brand">Turnpike</p>
      <section class="panel">
        <h1>Sign in as a provider</h1>
        {isSandbox && (
          <p>
            <button type="button" class="main" disabled={isBusy} onClick={() => attempt(openSandbox)}>
              Open the sandbox
            </button>
          </p>
        )}
        <p class="note">
          You see what was paid to your wallet and to your plans. Signing in by wallet moves no money; the key that it
          makes stays in this tab and ends with it, or after 12 hours.
        </p>
        {wallet ? (
          <p>
            <button
              type="button"
              class={isSandbox ? undefined : "main"}
              disabled={isBusy}
              onClick={() => attempt(() => signInBy(wallet))}
            >
              Sign in with your wallet
            </button>
          </p>
        ) : (
          <p class="note">No wallet was found in this browser.</p>
        )}
        <form
          onSubmit={(event) => {
            event.preventDefault();
            void attempt(() => signInWith(key.trim()));
          }}
        >
          <label>
            API key
            <input
              type="password"
              name="key"
              autocomplete="off"
              spellcheck={false}
              required
              value={key}
              onInput={(event) => setKey(event.currentTarget.value)}
            />
          </label>
          <button type="submit" disabled={isBusy}>
            Sign in with the key
          </button>
        </form>
        {problem && (
          <p class="problem" role="alert">
            {problem}
          </p>
        )}
      </section>
    </main>
  );
}

async function signInWith(key: string): Promise<Session> {
  try {
    await createApi(key).get("/events", { limit: 1 });
  } catch (error) {
    if (error instanceof ApiProblem && error.code === "InvalidKeyText") throw error;
    if (error instanceof ApiProblem && error.status === 401) {
      throw new Error("This key is unknown, revoked or past its end. Make a new one with your wallet.");
    }
    if (error instanceof ApiProblem && error.code === "ScopeMissing") throw new Error(LACKS_READ);
    throw error;
  }
  return { key, kind: "given" };
}

async function signInBy(wallet: Wallet): Promise<Session> {
  const [provider] = (await wallet.request({ method: "eth_requestAccounts" })) as readonly string[];
  if (!provider) throw new Error("The wallet shows no account.");
  const api = createApi(undefined);
  const wanted = {
    provider,
    name: "dashboard",
    scopes: SCOPES,
    expiresAt: Math.floor(Date.now() / 1_000) + KEY_LIFE_SEC,
  };
  const { challenge, message, expiresAt } = await api.send("POST", "/keys/challenge", wanted);
  // The wallet would warn of another domain; the page explains it here.
  if (!message?.startsWith(`${location.host} wants you to sign in`)) {
    throw new Error("The service does not know that it is reached under this address: its operator sets PUBLIC_URL.");
  }
  const hex = `0x${[...new TextEncoder().encode(message)].map((byte) => byte.toString(16).padStart(2, "0")).join("")}`;
  const signature = await wallet.request({ method: "personal_sign", params: [hex, provider] });
  const { key } = await api.send("POST", "/keys", { ...wanted, expiresAt, challenge, signature });
  return { key, kind: "tab" };
}
