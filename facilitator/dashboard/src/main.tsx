/** Renders the dashboard: the signed-in provider, the current page, and the live state. */
import { render } from "preact";
import { useEffect, useErrorBoundary, useMemo, useState } from "preact/hooks";
import type { SupportedWire } from "turnpike/facilitator";
import { type Api, ApiProblem, createApi } from "./api";
import { ClockBar } from "./clock-bar";
import type { Early } from "./early";
import { shorten } from "./format";
import { WithLabels } from "./labels";
import { Alert, Problem, Shown } from "./parts";
import { PAGES, pageAt, SignIn, SOURCES } from "./routes";
import { Search } from "./search";
import {
  endSession,
  isSandbox,
  LACKS_READ,
  type Session,
  savedNetwork,
  savedSession,
  saveNetwork,
  saveSession,
} from "./session";
import "uplot/dist/uPlot.min.css";
import "./style.css";
import "./wallet/ask.css";
import { latenessOf } from "./lateness";
import {
  Heading,
  isOutage,
  Notices,
  type NoticesOfPage,
  Recovery,
  type Signed,
  SignedIn,
  type SignOut,
  useAnswer,
  usePlace,
  useRound,
} from "./use";

/** An indexer that falls behind emits no event. */
const POLL_MS = 5_000;

/** Blocks that arrive together are read within one interval: that is no delay to report. */
const LATE_POLLS = 2;

/** Merges many events into one reload. */
const SETTLE_MS = 400;

function App() {
  const [session, setSession] = useState<Session | undefined>(savedSession);
  // In a sandbox, opening the page signs in; after a sign-out, the form is shown.
  const [isOpening, setOpening] = useState(isSandbox && session === undefined);
  /** why the sign-in is shown again */
  const [reason, setReason] = useState<string>();
  const signIn = (next: Session): void => {
    setReason(undefined);
    saveSession(next);
    setSession(next);
  };
  useEffect(() => {
    if (!isOpening) return;
    openSandbox().then(signIn, () => setOpening(false));
  }, [isOpening]);

  if (session) return <Dashboard key={session.key} session={session} onSignOut={signOut} />;
  return isOpening ? (
    <p class="loading">Opening the sandbox…</p>
  ) : (
    <SignIn onSignIn={signIn} openSandbox={openSandbox} reason={reason} />
  );

  function signOut(why?: string): void {
    setReason(why);
    // A key created for this tab is revoked at sign-out; if the request fails, the key expires.
    if (session?.kind === "tab") {
      const [, id] = session.key.split("_");
      void createApi(session.key)
        .send("DELETE", `/keys/${id}`)
        .catch(() => undefined);
    }
    endSession();
    setOpening(false);
    setSession(undefined);
  }
}

async function openSandbox(): Promise<Session> {
  const { key } = await createApi(undefined).send("POST", "/sandbox/session", {});
  return { key, kind: "given" };
}

function Dashboard({ session, onSignOut }: { session: Session; onSignOut: SignOut }) {
  const open = useMemo(() => createApi(session.key), [session.key]);
  const who = useAnswer(open, { path: "/keys/current", signOut: onSignOut });
  const supported = useAnswer(open, { path: "/supported", signOut: onSignOut });
  const [chosen, setChosen] = useState(savedNetwork);
  const chains = supported.data?.chains;
  /** of several chains, the one that is shown: the first one that is up, unless another was chosen */
  const network = (chains?.find((chain) => chain.network === chosen) ?? chains?.[0])?.network;
  const choose = (next: string): void => {
    saveNetwork(next);
    setChosen(next);
  };
  const api = useMemo(() => (network === undefined ? open : createApi(session.key, network)), [open, network]);
  return (
    <Recovery.Provider value={{ retry: () => location.reload(), signOut: onSignOut }}>
      <Shown of={who}>
        {(key) =>
          key.scopes.includes("read") ? (
            <Shown of={supported}>
              {(service) => (
                <WithLabels key={network} api={api} signOut={onSignOut}>
                  <Shell
                    api={api}
                    who={key}
                    supported={{ ...service, ...service.chains?.find((chain) => chain.network === network) }}
                    onNetwork={choose}
                    onSignOut={onSignOut}
                  />
                </WithLabels>
              )}
            </Shown>
          ) : (
            <Refused why={LACKS_READ} onSignOut={onSignOut} />
          )
        }
      </Shown>
    </Recovery.Provider>
  );
}

/** Returns to the sign-in, which shows the reason. */
function Refused({ why, onSignOut }: { why: string; onSignOut: SignOut }) {
  useEffect(() => onSignOut(why), [why]);
  return null;
}

interface ShellProps {
  readonly api: Api;
  readonly who: Signed["who"];
  readonly supported: SupportedWire;
  readonly onNetwork: (network: string) => void;
  readonly onSignOut: SignOut;
}

function Shell({ api, who, supported, onNetwork, onSignOut }: ShellProps) {
  const [tick, setTick] = useState(0);
  const [isLive, setLive] = useState<boolean>();
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

  const { title, list, all, content } = pageAt(path);
  /** on phones, where the names of the pages do not fit beside each other */
  const [isMenuOpen, setMenuOpen] = useState(false);
  const [heading = title, setHeading] = useState<string>();
  const [failure, reset] = useErrorBoundary(reportError);
  const { notices, problems } = useNotices();
  const round = useRound(POLL_MS);
  const readiness = useAnswer(api, { path: "/analytics/system", again: String(round), signOut: onSignOut });
  const sentence = readiness.data && !readiness.problem ? latenessOf(readiness.data) : undefined;
  const isLate = sentence !== undefined;
  const [latePolls, setLatePolls] = useState(0);
  useEffect(() => {
    if (readiness.data && !readiness.problem) setLatePolls((polls) => (isLate ? polls + 1 : 0));
  }, [readiness]);
  const late = latePolls < LATE_POLLS ? undefined : sentence;
  const state =
    isLive === undefined
      ? "…"
      : !isLive
        ? "reconnecting"
        : late !== undefined || problems.some(isOutage)
          ? "not up to date"
          : "live";
  useEffect(() => {
    document.title = `${heading} · Turnpike`;
  }, [heading]);
  useEffect(() => {
    if (failure) reset();
    scrollTo(0, 0);
    setMenuOpen(false);
  }, [path]);

  return (
    <SignedIn.Provider value={{ api, tick, who, supported, signOut: onSignOut }}>
      <a class="skip" href="#main">
        Skip to content
      </a>
      <header class="top">
        <p class="brand">Turnpike</p>
        <button
          type="button"
          class="menu"
          aria-expanded={isMenuOpen}
          aria-controls="pages"
          onClick={() => setMenuOpen(!isMenuOpen)}
        >
          Menu
        </button>
        <Search />
        <nav id="pages" aria-label="Pages" class={isMenuOpen ? "open" : undefined}>
          {PAGES.map((entry) => (
            <a key={entry.path} href={`#${entry.path}`} aria-current={entry.path === list ? "page" : undefined}>
              {entry.title}
            </a>
          ))}
        </nav>
        <div class="who">
          <span class={LIVE_CLASSES[state]} role="status">
            <i aria-hidden="true" />
            {state}
          </span>
          <span title={who.provider}>{shorten(who.provider)}</span>
          <Networks supported={supported} onNetwork={onNetwork} />
          <button type="button" class="quiet" onClick={() => onSignOut()}>
            Sign out
          </button>
        </div>
      </header>
      <main id="main" tabIndex={-1}>
        <Recovery.Provider value={{ retry: () => setTick((now) => now + 1), signOut: onSignOut }}>
          <Notices.Provider value={notices}>
            {isSandbox && <ClockBar />}
            {distinct(problems).map((problem) => (
              <Problem key={`${problem.code} ${problem.message}`} of={problem} />
            ))}
            <Alert text={late} />
            {all && (
              <a class="back" href={`#${list}`}>
                ← All {all}
              </a>
            )}
            <h1>{heading}</h1>
            {failure ? (
              <Problem of={new ApiProblem(400, "PageFailed", "This page met something that it cannot show.")} />
            ) : content ? (
              <Heading.Provider value={setHeading}>{content}</Heading.Provider>
            ) : (
              <Problem of={new ApiProblem(404, "NoSuchPage", "There is no such page.")} />
            )}
          </Notices.Provider>
        </Recovery.Provider>
        <footer>
          {path === "/account"
            ? "Times are of the chosen zone. "
            : "Times are UTC: the chain's for events on it, the service's for what it accepted or sent. "}
          {SOURCES[all ? `${list}/` : path] ?? SOURCES[list] ?? "Figures are sums over events of the chain."}
        </footer>
      </main>
    </SignedIn.Provider>
  );
}

/** The chain that is shown, to choose where the service has several. */
function Networks({ supported, onNetwork }: Pick<ShellProps, "supported" | "onNetwork">) {
  const { network, chains = [] } = supported;
  if (chains.length < 2) return <span>{network}</span>;
  return (
    <select aria-label="Chain" value={network} onChange={({ currentTarget }) => onNetwork(currentTarget.value)}>
      {chains.map((chain) => (
        <option key={chain.network}>{chain.network}</option>
      ))}
    </select>
  );
}

const LIVE_CLASSES = { "…": "live", live: "live on", reconnecting: "live", "not up to date": "live stale" } as const;

/** Collects the errors of the page's queries and shows them. */
function useNotices(): { notices: NoticesOfPage; problems: readonly ApiProblem[] } {
  const [known, setKnown] = useState<ReadonlyMap<symbol, ApiProblem>>(new Map());
  const notices = useMemo<NoticesOfPage>(
    () => ({
      report: (question, problem) =>
        setKnown((old) => {
          if (old.get(question) === problem) return old;
          const next = new Map(old);
          if (problem) next.set(question, problem);
          else next.delete(question);
          return next;
        }),
    }),
    [],
  );
  return { notices, problems: [...known.values()] };
}

function distinct(problems: readonly ApiProblem[]): readonly ApiProblem[] {
  return [...new Map(problems.map((problem) => [`${problem.code} ${problem.message}`, problem])).values()];
}

/** An answer that is on its way is waited for a little: the page is drawn once, with what it brings. */
const EARLY_MS = 300;

async function start(root: HTMLElement): Promise<void> {
  const early: Early | undefined = Reflect.get(window, "turnpikeEarly");
  const all = Promise.allSettled([...(early?.answers.values() ?? [])]);
  await Promise.race([all, new Promise((resolve) => setTimeout(resolve, EARLY_MS))]);
  root.textContent = "";
  render(<App />, root);
}

const root = document.getElementById("app");
if (root) void start(root);
