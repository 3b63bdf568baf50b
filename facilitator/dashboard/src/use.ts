/** What a page needs of the outside: its data, kept fresh, and where in the address it stands. */
import { createContext } from "preact";
import { useCallback, useContext, useEffect, useState } from "preact/hooks";
import { type Api, ApiProblem, type Query } from "./api";

export interface Signed {
  readonly api: Api;
  /** counts up whenever something happened */
  readonly tick: number;
  signOut(): void;
}

export const SignedIn = createContext<Signed | undefined>(undefined);

export function useSigned(): Signed {
  const signed = useContext(SignedIn);
  if (!signed) throw new Error("used outside of a session");
  return signed;
}

export type Loaded<T> =
  | { readonly kind: "loading" }
  | { readonly kind: "problem"; readonly problem: ApiProblem; readonly stale?: T }
  | { readonly kind: "ready"; readonly data: T };

const RETRY_MS = 5_000;

/**
 * Asks again when something happened, and every few seconds while nobody answers; old figures stay until new ones come.
 * @param round another number asks anew at once
 */
export function useGet<T>(path: string, query: Query = {}, round = 0): Loaded<T> {
  const { api, tick, signOut } = useSigned();
  const [state, setState] = useState<Loaded<T>>({ kind: "loading" });
  const [turn, setTurn] = useState(0);
  const address = `${path} ${JSON.stringify(query)}`;

  useEffect(() => setState({ kind: "loading" }), [address]);
  useEffect(() => {
    let isCurrent = true;
    let timer: ReturnType<typeof setTimeout> | undefined;
    api.get<T>(path, query).then(
      (data) => {
        if (isCurrent) setState({ kind: "ready", data });
      },
      (error: unknown) => {
        if (!isCurrent) return;
        if (error instanceof ApiProblem && error.status === 401) return signOut();
        const problem = error instanceof ApiProblem ? error : new ApiProblem(0, "Unknown", String(error));
        setState((old) => {
          const stale = old.kind === "ready" ? old.data : old.kind === "problem" ? old.stale : undefined;
          return { kind: "problem", problem, ...(stale === undefined ? {} : { stale }) };
        });
        if (problem.status === 0 || problem.status >= 500)
          timer = setTimeout(() => setTurn((now) => now + 1), RETRY_MS);
      },
    );
    return () => {
      isCurrent = false;
      clearTimeout(timer);
    };
  }, [api, address, tick, turn, round]);
  return state;
}

/** The part of the address after `#`: `/payments?status=settled`. */
export interface Place {
  readonly path: string;
  readonly query: URLSearchParams;
}

export function usePlace(): Place {
  const [place, setPlace] = useState(read);
  useEffect(() => {
    const onChange = (): void => setPlace(read());
    addEventListener("hashchange", onChange);
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

function read(): Place {
  const [path, search] = location.hash.replace(/^#/, "").split("?", 2);
  return { path: path || "/", query: new URLSearchParams(search ?? "") };
}
