/** Hooks for a page's data, its refresh, and its state in the URL. */
import { createContext } from "preact";
import { useCallback, useContext, useEffect, useState } from "preact/hooks";
import type { SupportedWire } from "turnpike/facilitator";
import { type AnswerAt, type Api, ApiProblem, type PathOf, type Query } from "./api";
import { formatMoney, formatMoneyShort, plainText, type Unit, unitOf } from "./format";

export interface Signed {
  readonly api: Api;
  /** increments on each event */
  readonly tick: number;
  readonly who: AnswerAt<"GET", "/keys/current">;
  readonly supported: SupportedWire;
  readonly signOut: SignOut;
}

/** @param why shown on the sign-in page; absent: the user chose to */
export type SignOut = (why?: string) => void;

const KEY_REFUSED =
  "You were signed out: the key is unknown, revoked or past its end. Sign in again, or use another key.";

export const SignedIn = createContext<Signed | undefined>(undefined);

/** Collects a page's errors: each cause is shown once, however many queries wait. */
export interface NoticesOfPage {
  /** @param problem undefined: resolved */
  report(question: symbol, problem: ApiProblem | undefined): void;
}

export const Notices = createContext<NoticesOfPage | undefined>(undefined);

/** What a person can do about an error. */
export const Recovery = createContext<{ readonly retry: () => void; readonly signOut?: SignOut }>({
  retry: () => location.reload(),
});

export const Heading = createContext<(title: string | undefined) => void>(() => undefined);

/** Names what the page is about, once that is known, in its heading and in the window's title. */
export function useHeading(title: string | undefined): void {
  const name = useContext(Heading);
  useEffect(() => {
    name(title);
    return () => name(undefined);
  }, [name, title]);
}

/** No response, or a server error: the query is retried. */
export const isOutage = ({ status }: ApiProblem): boolean => status === 0 || status >= 500;

export function useSigned(): Signed {
  const signed = useContext(SignedIn);
  if (!signed) throw new Error("used outside of a session");
  return signed;
}

const FALLBACK: Unit = { sign: "", name: "", decimals: 6 };

/** The token of amounts; without one, the first that the service settles. */
export function useUnit(): (token?: string) => Unit {
  const { tokens } = useSigned().supported;
  return useCallback(
    (token) => {
      const known = token === undefined ? tokens[0] : tokens.find(({ address }) => address === token);
      return known ? unitOf(known.name, known.decimals) : FALLBACK;
    },
    [tokens],
  );
}

/** Amounts of single payments, with the token's name. */
export function useNamedMoney(): Money {
  const { tokens } = useSigned().supported;
  const unit = useUnit();
  return (baseUnits, token) => {
    const name = unit(token).sign && tokens.find(({ address }) => address === token)?.name;
    return [formatMoney(baseUnits, unit(token)), name && plainText(name)].filter(Boolean).join(" ");
  };
}

type Money = (baseUnits: string, token?: string) => string;

/** @param digits `short` for sums at a glance, all digits for single payments */
export function useMoney(digits: "all" | "short" = "all"): Money {
  const unit = useUnit();
  const format = digits === "all" ? formatMoney : formatMoneyShort;
  return useCallback((baseUnits, token) => format(baseUnits, unit(token)), [unit, format]);
}

/** What a query has brought: neither while it loads; both while it fails, and former data is still there. */
export interface Loaded<T> {
  readonly data?: T;
  readonly problem?: ApiProblem;
}

const RETRY_MS = 5_000;

/**
 * Queries again on each event, and every few seconds while requests fail. Former figures stay until new ones arrive.
 * @param round another number queries again at once
 */
export function useGet<P extends PathOf<"GET">>(path: P, query: Query = {}, round = 0): Loaded<AnswerAt<"GET", P>> {
  const { api, tick, signOut } = useSigned();
  return useAnswer(api, { path, query, again: `${tick} ${round}`, signOut });
}

/** Increments periodically while the page is visible. */
export function useRound(everyMs: number): number {
  const [round, setRound] = useState(0);
  useEffect(() => {
    const timer = setInterval(() => {
      if (!document.hidden) setRound((now) => now + 1);
    }, everyMs);
    return () => clearInterval(timer);
  }, [everyMs]);
  return round;
}

interface Question<P> {
  readonly path: P;
  readonly query?: Query;
  /** another number queries again at once */
  readonly again?: string;
  readonly signOut: SignOut;
}

/** The same query before the sign-in. */
export function useAnswer<P extends PathOf<"GET">>(
  api: Api,
  { path, query = {}, again, signOut }: Question<P>,
): Loaded<AnswerAt<"GET", P>> {
  const known = api.peek(path, query);
  return useLoad({ name: `${path} ${JSON.stringify(query)}`, known, load: () => api.get(path, query), again, signOut });
}

interface Load<T> {
  /** of the query; another one starts again */
  readonly name: string;
  load(): Promise<T>;
  /** what it would bring, where that is there already */
  readonly known?: T | undefined;
  /** another number queries again at once */
  readonly again?: string | undefined;
  readonly signOut: SignOut;
}

export function useLoad<T>({ name, load, known, again = "", signOut }: Load<T>): Loaded<T> {
  const [state, setState] = useState<Loaded<T>>(known === undefined ? {} : { data: known });
  const [turn, setTurn] = useState(0);
  const notices = useContext(Notices);
  const [question] = useState(() => Symbol(name));
  const { problem } = state;

  useEffect(() => notices?.report(question, problem), [notices, question, problem]);
  useEffect(() => () => notices?.report(question, undefined), [notices, question]);
  useEffect(() => setState((old) => (known !== undefined && old.data === known ? old : {})), [name]);
  useEffect(() => {
    let isCurrent = true;
    let timer: ReturnType<typeof setTimeout> | undefined;
    load().then(
      (data) => {
        if (isCurrent) setState({ data });
      },
      (error: unknown) => {
        if (!isCurrent) return;
        if (error instanceof ApiProblem && error.status === 401) return signOut(KEY_REFUSED);
        const problem = error instanceof ApiProblem ? error : new ApiProblem(0, "Unknown", String(error));
        setState(({ data }) => ({ problem, ...(data !== undefined && { data }) }));
        if (isOutage(problem)) timer = setTimeout(() => setTurn((now) => now + 1), RETRY_MS);
      },
    );
    return () => {
      isCurrent = false;
      clearTimeout(timer);
    };
  }, [name, again, turn]);
  return state;
}

/** The part of the URL after `#`: `/payments?status=settled`. */
export interface Place {
  /** as it is in the URL */
  readonly hash: string;
  readonly path: string;
  readonly query: URLSearchParams;
}

export function usePlace(): Place {
  const [place, setPlace] = useState(read);
  useEffect(() => {
    const onChange = (): void => {
      // Following an anchor within the page must not change the route, so the former hash is restored.
      if (isWithinPage()) history.replaceState(null, "", lastHash || "#/");
      else setPlace((old) => (old.hash === location.hash ? old : read()));
    };
    addEventListener("hashchange", onChange);
    // It may have changed between the first render and now.
    onChange();
    return () => removeEventListener("hashchange", onChange);
  }, []);
  return place;
}

export function useQueryField(name: string, fallback: string): [string, (value: string) => void] {
  const { path, query } = usePlace();
  const set = useCallback(
    (value: string) => {
      const next = new URLSearchParams(query);
      if (value === fallback) next.delete(name);
      else next.set(name, value);
      location.hash = next.size === 0 ? path : `${path}?${next}`;
    },
    [path, query, name, fallback],
  );
  return [query.get(name) ?? fallback, set];
}

/** The position in a list: each page adds a cursor. Another filter starts from the first page. */
export interface Trail {
  readonly cursor: string | undefined;
  readonly hasBack: boolean;
  go(next: string): void;
  back(): void;
}

export function useTrail(filter = ""): Trail {
  const [walked, setWalked] = useState<{ filter: string; cursors: readonly string[] }>({ filter, cursors: [] });
  const cursors = walked.filter === filter ? walked.cursors : [];
  return {
    cursor: cursors.at(-1),
    hasBack: cursors.length > 0,
    go: (next) => setWalked({ filter, cursors: [...cursors, next] }),
    back: () => setWalked({ filter, cursors: cursors.slice(0, -1) }),
  };
}

/** Pages begin with a slash. */
const isWithinPage = (): boolean => /^#[^/]/.test(location.hash);

/** Of the most recently loaded page. */
let lastHash = "";

function read(): Place {
  lastHash = isWithinPage() ? "" : location.hash;
  const [path, search] = lastHash.replace(/^#/, "").split("?", 2);
  return { hash: location.hash, path: path || "/", query: new URLSearchParams(search ?? "") };
}
