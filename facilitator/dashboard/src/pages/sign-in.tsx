/** By the provider's wallet, which gets a key for this tab by signing a challenge, or by an API key that exists. */
import { useState } from "preact/hooks";
import type { KeyChallenge, NewApiKey } from "turnpike/facilitator";
import { ApiProblem, createApi } from "../api";
import type { Session } from "../session";

/** What a browser wallet offers (EIP-1193). */
interface Wallet {
  request(call: { readonly method: string; readonly params?: readonly unknown[] }): Promise<unknown>;
}

const KEY_LIFE_SEC = 43_200;
const SCOPES = ["read", "webhooks"] as const;

export function SignIn({ onSignIn }: { onSignIn: (session: Session) => void }) {
  const [key, setKey] = useState("");
  const [problem, setProblem] = useState<string>();
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
      <h1>Turnpike</h1>
      <section class="panel">
        <h2>Sign in as a provider</h2>
        <p class="note">
          You see what was paid to your wallet and to your plans. Signing moves no money and gives a key that ends after
          12 hours.
        </p>
        {wallet ? (
          <p>
            <button type="button" class="main" disabled={isBusy} onClick={() => attempt(() => signInBy(wallet))}>
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
    if (error instanceof ApiProblem && error.status === 401) {
      throw new Error("This key is unknown, revoked or past its end. Make a new one with your wallet.");
    }
    throw error;
  }
  return { key };
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
  const { challenge, message, expiresAt } = await api.send<KeyChallenge>("POST", "/keys/challenge", wanted);
  const hex = `0x${[...new TextEncoder().encode(message)].map((byte) => byte.toString(16).padStart(2, "0")).join("")}`;
  const signature = await wallet.request({ method: "personal_sign", params: [hex, provider] });
  const { key } = await api.send<NewApiKey>("POST", "/keys", { ...wanted, expiresAt, challenge, signature });
  return { key };
}
