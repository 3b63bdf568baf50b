/** The portal before the sign-in. */
import { useState } from "preact/hooks";
import { Alert } from "../parts";
import { wordsOf } from "../wallet/ask";
import { useWallets, WalletButtons } from "../wallet/choice";
import { keyBy, TAB_KEY_SEC } from "../wallet/sign-in";

export function MeSignIn({ onSignIn, reason }: { onSignIn: (key: string) => void; reason: string | undefined }) {
  const wallets = useWallets();
  const [problem, setProblem] = useState(reason);
  const [isBusy, setBusy] = useState(false);
  return (
    <main class="sign-in" id="main">
      <p class="brand">Turnpike</p>
      <section class="panel">
        <h1>What I pay</h1>
        <p>
          See what your wallet was charged here; pause, limit or cancel it. To sign in, sign one message. It moves no
          money, and the key that it makes only reads, in this tab, for at most 12 hours.
        </p>
        <WalletButtons
          wallets={wallets}
          label="Sign in with your wallet"
          isBusy={isBusy}
          onChoose={(wallet) => {
            setBusy(true);
            setProblem(undefined);
            keyBy(wallet, { name: "what I pay", scopes: ["read"], lifeSec: TAB_KEY_SEC })
              .then(
                ({ key }) => onSignIn(key),
                (error: unknown) => setProblem(wordsOf(error)),
              )
              .finally(() => setBusy(false));
          }}
        />
        {wallets.length === 0 && <p>No wallet was found in this browser.</p>}
        <p class="note">
          Is the key with your agent? Run <code>npx turnpike portal</code> there, and open the link that it prints.
        </p>
        <Alert text={problem} />
      </section>
    </main>
  );
}
