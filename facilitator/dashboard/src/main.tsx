/** The dashboard: who is signed in, which page, and whether it is live. */
import { render } from "preact";
import { useEffect, useMemo, useState } from "preact/hooks";
import { createApi } from "./api";
import { Overview } from "./pages/overview";
import { Payments } from "./pages/payments";
import { Plans } from "./pages/plans";
import { SignIn } from "./pages/sign-in";
import { SubscriptionPage, Subscriptions } from "./pages/subscriptions";
import { System } from "./pages/system";
import { Webhooks } from "./pages/webhooks";
import { endSession, type Session, savedSession, saveSession } from "./session";
import "./style.css";
import { SignedIn, usePlace } from "./use";

const PAGES = [
  { path: "/", title: "Overview", page: Overview },
  { path: "/payments", title: "Payments", page: Payments },
  { path: "/subscriptions", title: "Subscriptions", page: Subscriptions },
  { path: "/plans", title: "Plans", page: Plans },
  { path: "/webhooks", title: "Webhooks", page: Webhooks },
  { path: "/system", title: "System", page: System },
] as const;

/** Many events make one reload. */
const SETTLE_MS = 400;

function App() {
  const [session, setSession] = useState<Session | undefined>(savedSession);
  if (!session) {
    return (
      <SignIn
        onSignIn={(next) => {
          saveSession(next);
          setSession(next);
        }}
      />
    );
  }
  return (
    <Dashboard
      key={session.key}
      session={session}
      onSignOut={() => {
        endSession();
        setSession(undefined);
      }}
    />
  );
}

function Dashboard({ session, onSignOut }: { session: Session; onSignOut: () => void }) {
  const api = useMemo(() => createApi(session.key), [session.key]);
  const [tick, setTick] = useState(0);
  const [isLive, setLive] = useState(false);
  const { path } = usePlace();

  useEffect(() => {
    const stop = new AbortController();
    let timer: ReturnType<typeof setTimeout> | undefined;
    const onEvents = (): void => {
      timer ??= setTimeout(() => {
        timer = undefined;
        setTick((now) => now + 1);
      }, SETTLE_MS);
    };
    void api.follow(onEvents, setLive, stop.signal);
    return () => {
      stop.abort();
      clearTimeout(timer);
    };
  }, [api]);

  const current = PAGES.find((entry) => entry.path === path);
  const idHash = /^\/subscriptions\/(0x[0-9a-f]{64})$/.exec(path)?.[1];
  const title = idHash ? "Subscription" : (current?.title ?? "Not found");
  useEffect(() => {
    document.title = `${title} · Turnpike`;
  }, [title]);

  return (
    <SignedIn.Provider value={{ api, tick, signOut: onSignOut }}>
      <a class="skip" href="#main">
        Skip to content
      </a>
      <header class="top">
        <h1>Turnpike</h1>
        <nav aria-label="Pages">
          {PAGES.map((entry) => (
            <a key={entry.path} href={`#${entry.path}`} aria-current={entry.path === path ? "page" : undefined}>
              {entry.title}
            </a>
          ))}
        </nav>
        <span class={isLive ? "live on" : "live"} role="status">
          <i aria-hidden="true" />
          {isLive ? "live" : "reconnecting"}
        </span>
        <button type="button" onClick={onSignOut}>
          Sign out
        </button>
      </header>
      <main id="main" tabIndex={-1}>
        <h1>{title}</h1>
        {idHash ? <SubscriptionPage idHash={idHash} /> : current ? <current.page /> : <p>There is no such page.</p>}
      </main>
    </SignedIn.Provider>
  );
}

const root = document.getElementById("app");
if (root) {
  root.textContent = "";
  render(<App />, root);
}
