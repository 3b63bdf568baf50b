/** Calls the Facilitator's HTTP API with the provider's key. No other module does. Knows no page. */
import type { EndpointAt, EndpointKey } from "turnpike/facilitator";
import type { z } from "zod";
import type { Early } from "./early";

/** An error response of the API. */
export class ApiProblem extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    message: string,
    /** of the request, which the service's log names */
    readonly requestId: string | undefined = undefined,
  ) {
    super(message);
  }
}

export type Query = Readonly<Record<string, string | number | undefined>>;

/** A path with any text in place of its fields. */
type Filled<P extends string> = P extends `${infer Before}{${string}}${infer After}`
  ? `${Before}${string}${Filled<After>}`
  : P;

/** The paths of a method's endpoints, filled. */
export type PathOf<M extends string> = EndpointKey extends infer K
  ? K extends `${M} ${infer P}`
    ? Filled<P>
    : never
  : never;

type SpecAt<M extends string, P> = EndpointKey extends infer K extends EndpointKey
  ? K extends `${M} ${infer Form}`
    ? [P, Filled<Form>] extends [Filled<Form>, P]
      ? EndpointAt<K>
      : never
    : never
  : never;

/** What the endpoint of that method and path answers. */
export type AnswerAt<M extends string, P> =
  SpecAt<M, P> extends { readonly answers: infer A } ? z.input<A[keyof A] & z.ZodType> : never;

/** The path of a CSV. */
export type CsvPath = Extract<PathOf<"GET">, `${string}.csv`>;

export interface Api {
  /** What `get` would answer, where it is there already. */
  peek<P extends PathOf<"GET">>(path: P, query?: Query): AnswerAt<"GET", P> | undefined;
  get<P extends PathOf<"GET">>(path: P, query?: Query): Promise<AnswerAt<"GET", P>>;
  send<M extends "POST" | "PATCH" | "DELETE", P extends PathOf<M>>(
    method: M,
    path: P,
    body?: unknown,
  ): Promise<AnswerAt<M, P>>;
  /** Saves the path's response as a file. */
  download(path: CsvPath, query: Query, name: string): Promise<void>;
  /** Calls back on each event until the signal aborts. Reconnects by itself. */
  follow(onEvents: () => void, onState: (isLive: boolean) => void, signal: AbortSignal): Promise<void>;
}

/** What was asked for before this program ran; each answer serves once. */
function takeEarly(key: string | undefined, path: string): Promise<Response> | undefined {
  const early: Early | undefined = Reflect.get(window, "turnpikeEarly");
  const answer = early?.key === key ? early?.answers.get(path) : undefined;
  early?.answers.delete(path);
  early?.data.delete(path);
  return answer;
}

const RETRY_MS = 3_000;
const JSON_BODY = { "content-type": "application/json" };

/** Characters that a header may contain: an API key uses only these. */
const isHeaderText = (text: string): boolean => /^[\x21-\x7e]+$/.test(text);

/** @param network whose figures and lists are read; absent: the service has one chain */
export function createApi(key: string | undefined, network?: string): Api {
  const authorization: Record<string, string> = key === undefined ? {} : { authorization: `Bearer ${key}` };

  async function request(path: string, init: RequestInit = {}): Promise<Response> {
    if (key !== undefined && !isHeaderText(key))
      throw new ApiProblem(
        401,
        "InvalidKeyText",
        "This is no API key: one begins with tpk_ and holds plain letters, digits, - and _ alone. Copy it again.",
      );
    let response: Response;
    try {
      response = await (takeEarly(key, path) ??
        fetch(path, { ...init, headers: { ...authorization, ...init.headers } }));
    } catch (cause) {
      if (init.signal?.aborted) throw cause;
      throw new ApiProblem(0, "Unreachable", "The Facilitator does not answer. This page tries again by itself.");
    }
    if (response.ok) return response;
    const problem = (await response.json().catch(() => ({}))) as { code?: string; message?: string };
    const { status, headers } = response;
    const message = problem.message ?? `HTTP ${status}`;
    throw new ApiProblem(status, problem.code ?? "Unknown", message, headers.get("x-request-id") ?? undefined);
  }

  return {
    peek: (path, query = {}) => {
      const early: Early | undefined = Reflect.get(window, "turnpikeEarly");
      return early?.key === key ? (early?.data.get(`${path}${queryOf({ ...query, network })}`) as never) : undefined;
    },
    async get(path, query = {}) {
      return (await request(`${path}${queryOf({ ...query, network })}`)).json();
    },
    async send(method, path, body) {
      const response = await request(`${path}${queryOf({ network })}`, {
        method,
        ...(body === undefined ? {} : { headers: JSON_BODY, body: JSON.stringify(body) }),
      });
      const text = await response.text();
      return text === "" ? undefined : JSON.parse(text);
    },
    async download(path, query, name) {
      const blob = await (await request(`${path}${queryOf({ ...query, network })}`)).blob();
      const link = document.createElement("a");
      link.href = URL.createObjectURL(blob);
      link.download = name;
      link.click();
      setTimeout(() => URL.revokeObjectURL(link.href), 1_000);
    },
    async follow(onEvents, onState, signal) {
      while (!signal.aborted) {
        try {
          const response = await request("/events/live", { signal });
          onState(true);
          const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader();
          for (;;) {
            const { done, value } = (await reader?.read()) ?? { done: true, value: "" };
            if (done) break;
            if (value.includes("data:")) onEvents();
          }
        } catch {
          // Whatever broke the stream, the next round connects again; meanwhile the page shows that it is not live.
        }
        if (signal.aborted) return;
        onState(false);
        await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
      }
    },
  };
}

function queryOf(query: Query): string {
  const given = Object.entries(query).flatMap(([name, value]) => (value === undefined ? [] : [[name, String(value)]]));
  return given.length === 0 ? "" : `?${new URLSearchParams(given)}`;
}
