/** Renders the payer's portal at `/me`: sign in by a wallet, or open a link that works once. */
import { render } from "preact";
import { useEffect, useMemo, useState } from "preact/hooks";
import { createApi } from "./api";
import { Portal } from "./pages/me";
import { MeSignIn } from "./pages/me-sign-in";
import { Shown } from "./parts";
import { type SignOut, useAnswer } from "./use";
import { useWallets } from "./wallet/choice";

const KEY = "turnpike-payer-key";

/** The link's key arrives after `#`, which browsers send to no server. It leaves the address bar at once. */
function linkedKey(): string | undefined {
  const [, key] = /^#link=(tpk_[0-9a-f]{16}_[A-Za-z0-9_-]{43})$/.exec(location.hash) ?? [];
  if (location.hash !== "") history.replaceState(null, "", location.pathname);
  return key;
}

const LINK_REFUSED =
  "This link was opened before, or its time is up. Make another with npx turnpike portal, or sign in with your wallet.";

function App({ linked }: { linked: string | undefined }) {
  const [key, setKey] = useState(() => (linked === undefined ? (sessionStorage.getItem(KEY) ?? undefined) : undefined));
  const [isOpening, setOpening] = useState(linked !== undefined);
  const [reason, setReason] = useState<string>();
  const signIn = (next: string): void => {
    sessionStorage.setItem(KEY, next);
    setReason(undefined);
    setKey(next);
  };
  useEffect(() => {
    if (linked === undefined) return;
    // The link's own key ends here: its successor is this tab's.
    createApi(linked)
      .send("POST", "/keys/rotate", { overlapSec: 0 })
      .then(
        ({ key: next }) => signIn(next),
        () => setReason(LINK_REFUSED),
      )
      .finally(() => setOpening(false));
  }, [linked]);
  const signOut: SignOut = (why) => {
    const [, id] = key?.split("_") ?? [];
    if (key !== undefined && why === undefined)
      void createApi(key)
        .send("DELETE", `/keys/${id}`)
        .catch(() => undefined);
    sessionStorage.removeItem(KEY);
    setReason(why);
    setKey(undefined);
  };
  if (isOpening) return <p class="loading">Opening the link…</p>;
  return key === undefined ? (
    <MeSignIn onSignIn={signIn} reason={reason} />
  ) : (
    <Signed key={key} apiKey={key} onSignOut={signOut} />
  );
}

function Signed({ apiKey, onSignOut }: { apiKey: string; onSignOut: SignOut }) {
  const open = useMemo(() => createApi(apiKey), [apiKey]);
  const who = useAnswer(open, { path: "/keys/current", signOut: onSignOut });
  const supported = useAnswer(open, { path: "/supported", signOut: onSignOut });
  const wallets = useWallets();
  return (
    <Shown of={who}>
      {(key) => (
        <Shown of={supported}>
          {(service) => (
            <Portal
              apiKey={apiKey}
              who={key}
              chains={service.chains?.map((chain) => ({ ...service, ...chain })) ?? [service]}
              wallets={wallets}
              onSignOut={onSignOut}
            />
          )}
        </Shown>
      )}
    </Shown>
  );
}

const root = document.getElementById("app");
if (root) {
  const linked = linkedKey();
  root.textContent = "";
  render(<App linked={linked} />, root);
}
