/**
 * Signs in with one of these:
 * - the provider's wallet, which creates a key for this tab (EIP-4361)
 * - an existing API key
 * - the sandbox's own key, in a sandbox
 */
import { useState } from "preact/hooks";
import { ApiProblem, createApi } from "../api";
import { Alert } from "../parts";
import { isSandbox, LACKS_READ, type Session } from "../session";
import type { Wallet } from "../wallet/account";
import { useWallets, WalletButtons } from "../wallet/choice";
import { keyBy, TAB_KEY_SEC } from "../wallet/sign-in";

const SCOPES = ["read", "webhooks"] as const;

interface SignInProps {
  readonly onSignIn: (session: Session) => void;
  readonly openSandbox: () => Promise<Session>;
  /** why the page asks to sign in again */
  readonly reason?: string | undefined;
}

export function SignIn({ onSignIn, openSandbox, reason }: SignInProps) {
  const [key, setKey] = useState("");
  const [problem, setProblem] = useState(reason);
  const [isBusy, setBusy] = useState(false);
  const wallets = useWallets();

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
        {wallets.length > 0 ? (
          <WalletButtons
            wallets={wallets}
            label="Sign in with your wallet"
            isBusy={isBusy}
            isMain={!isSandbox}
            onChoose={(wallet) => void attempt(() => signInBy(wallet))}
          />
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
        <Alert text={problem} />
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
  const { key } = await keyBy(wallet, { name: "dashboard", scopes: SCOPES, lifeSec: TAB_KEY_SEC });
  return { key, kind: "tab" };
}
