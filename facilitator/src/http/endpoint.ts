/**
 * Mounts endpoints: checks the caller and the inputs by the endpoint's own terms, calls its handler, and answers. The
 * client and openapi.json use the same terms.
 */
import type { OpenAPIHono } from "@hono/zod-openapi";
import type { Context } from "hono";
import type { ContentfulStatusCode } from "hono/utils/http-status";
import type { EndpointSpec, Problem } from "turnpike/facilitator";
import { type Hex, InvalidRequest, TurnpikeError } from "turnpike/protocol";
import type { z } from "zod";
import type { Caller, Origin } from "../providers/keys";
import { type Admission, admissionOf } from "./admission";
import { hasNoBody, readJsonBody } from "./body";
import { type ErrorResponse, errorResponseOf, sendError } from "./errors";
import { describeEndpoint } from "./openapi";
import { addressOf, type RequestScope, type Site, siteOf, type UntilEnd } from "./request";
import type { ApiServices } from "./services";

type Output<S> = S extends z.ZodType ? z.output<S> : Record<never, never>;

type Input<E extends EndpointSpec, Name extends keyof EndpointSpec> = Output<E[Name & keyof E]>;

export interface Call<E extends EndpointSpec> {
  readonly params: Input<E, "params">;
  readonly query: Input<E, "query">;
  readonly body: Input<E, "body">;
  /** the owner of the API key */
  readonly caller: E extends { readonly scope: string } ? Caller : undefined;
  /** the origin of the request */
  readonly origin: Origin;
  /** time for which the request waited for its turn, before this call */
  readonly waitedMs: number;
  /** the site that the client addresses, by its own headers */
  readonly site: Site;
  /** Returns whether the connection has ended: nobody would receive the response. */
  isGone(): boolean;
  /** Names the payment that the request concerns, for the request's log line. */
  concerns(paymentId: Hex): void;
}

/** The body as the schema reads it: the wire form, with decimal strings. */
export type Answer<E extends EndpointSpec> = {
  [S in keyof E["answers"] & number]: {
    readonly status: S;
    readonly body: E extends { readonly mediaType: string } ? string | TextParts : z.input<E["answers"][S]>;
    readonly headers?: Record<string, string>;
  };
}[keyof E["answers"] & number];

export type Handler<E extends EndpointSpec> = (call: Call<E>) => Promise<Answer<E>>;

type Group = Readonly<Record<string, EndpointSpec>>;

export type Handlers<G extends Group> = { readonly [K in keyof G]: Handler<G[K]> };

/** Returns fields that an error's body carries in addition, for stock clients that look for them. */
export type ProblemExtra = (problem: Problem) => Record<string, unknown>;

export const ok = <T>(body: T) => ({ status: 200 as const, body });

/** A text response that is sent while it is read. */
export type TextParts = AsyncGenerator<string>;

/** An endpoint with its handler. */
export interface Endpoint extends EndpointSpec {
  readonly problemExtra?: ProblemExtra | undefined;
  /** for open endpoints that depend on the body alone: the same responses, without the app's middleware */
  readonly direct?: Direct;
  mount(app: OpenAPIHono<RequestScope>): void;
}

/** What the server passes with a request. */
export interface RequestEnvironment {
  /** why the request belongs to no chain of this service: every endpoint answers with it */
  readonly refusal?: TurnpikeError;
}

/** Never throws: errors become responses. */
export interface Direct {
  /** @param readBody may throw */
  answer(readBody: () => unknown, request: DirectRequest): Promise<ErrorResponse>;
  /** Returns the response to a request that is not handled. */
  refuse(error: TurnpikeError, requestId: string): ErrorResponse;
}

export interface DirectRequest {
  readonly origin: Origin;
  readonly waitedMs: number;
  readonly isGone: () => boolean;
  readonly concerns: (paymentId: Hex) => void;
  readonly untilEnd: UntilEnd;
}

/** For callers that nothing stops. */
const all: UntilEnd = (work) => work;

/** Returns the endpoints of a group with their handlers. */
export function routes<G extends Group>(
  services: ApiServices,
  group: G,
  handlers: NoInfer<Handlers<G>>,
  problemExtras: { readonly [K in keyof G]?: ProblemExtra } = {},
): Endpoint[] {
  return Object.entries(group).map(([id, spec]) =>
    endpoint({
      spec,
      admission: admissionOf(services, spec),
      problemExtra: problemExtras[id],
      handle: handlers[id] as unknown as AnyHandler,
    }),
  );
}

type AnyHandler = (
  call: Omit<Call<EndpointSpec>, "caller"> & { readonly caller: Caller | undefined },
) => Promise<{ readonly status: number; readonly body: unknown; readonly headers?: Record<string, string> }>;

interface Route {
  readonly spec: EndpointSpec;
  readonly admission: Admission | undefined;
  readonly problemExtra: ProblemExtra | undefined;
  readonly handle: AnyHandler;
}

function endpoint({ spec, admission, problemExtra, handle }: Route): Endpoint {
  const mayOmitBody = isBodyOptional(spec);
  const known = knownParameters(spec);
  const isDirect = spec.method === "post" && spec.body && !admission && !spec.params && !spec.query;
  const direct: Direct = {
    refuse: (error, requestId) => errorResponseOf(error, requestId, problemExtra),
    async answer(readBody, { untilEnd, ...request }) {
      try {
        const body = parse(spec.body, readBody(), "body") as object;
        const site = { host: undefined, page: undefined };
        const answer = await untilEnd(handle({ ...request, caller: undefined, site, params: {}, query: {}, body }));
        const headers = { "content-type": "application/json", ...answer.headers };
        return { status: answer.status, headers, text: JSON.stringify(answer.body) };
      } catch (error) {
        return errorResponseOf(error, request.origin.requestId, problemExtra);
      }
    },
  };
  return {
    ...spec,
    problemExtra,
    ...(isDirect && { direct }),
    mount(app) {
      describeEndpoint(app, spec, !mayOmitBody);
      app.on(spec.method, spec.path.replaceAll(/\{(\w+)\}/g, ":$1"), async (context) => {
        context.set("route", spec.path);
        let release = (): void => undefined;
        try {
          // Read first, also when the request is invalid: an unread body would cost the client its connection.
          const { raw } = context.req;
          const body = mayOmitBody && hasNoBody(raw) ? {} : spec.body && (await readJsonBody(raw));
          const { refusal } = (context.env ?? {}) as RequestEnvironment;
          if (refusal) throw refusal;
          const origin = { address: addressOf(context), requestId: context.get("requestId") };
          const authorization = context.req.header("authorization") ?? null;
          const { untilEnd = all } = context.var;
          const answered = async () => {
            const caller = await admission?.admit(authorization, origin);
            if (spec.mediaType) release = beginExport(caller);
            return handle({
              caller,
              origin,
              waitedMs: 0,
              site: siteOf(context),
              isGone: () => context.req.raw.signal.aborted,
              concerns(paymentId) {
                context.set("paymentId", paymentId);
                context.var.trace?.concerns(paymentId);
              },
              params: parse(spec.params, context.req.param(), "path") as object,
              query: parse(spec.query, singleValues(context, known), "query") as object,
              body: parse(spec.body, body, "body") as object,
            });
          };
          const answer = await untilEnd(answered());
          const status = answer.status as ContentfulStatusCode;
          return spec.mediaType === undefined
            ? context.json(answer.body as object, status, answer.headers)
            : context.body(textOf(context, answer.body, release), status, {
                "content-type": `${spec.mediaType}; charset=utf-8`,
                ...answer.headers,
              });
        } catch (error) {
          release();
          return sendError(context, error, problemExtra);
        }
      });
    },
  };
}

/**
 * Returns whether a request may omit its body because every field has a default. Only behind an API key: its header
 * excludes pages of other origins, which could otherwise post without a body.
 */
function isBodyOptional({ body, scope }: EndpointSpec): boolean {
  return body !== undefined && scope !== undefined && body.safeParse({}).success;
}

/** Keys with a CSV that is being read. Several at once of one key would slow everybody's payments down. */
const exporting = new Set<string>();

const EXPORT_AGAIN_SEC = 2;

/** @returns ends it @throws RateLimited while another CSV of the caller's key is being read */
function beginExport({ keyId }: Partial<Caller> = {}): () => void {
  if (keyId === undefined) return () => undefined;
  if (exporting.has(keyId))
    throw new TurnpikeError("RateLimited", "this key has another CSV open: read it to its end first", {
      retryAfterSec: EXPORT_AGAIN_SEC,
    });
  exporting.add(keyId);
  return () => void exporting.delete(keyId);
}

/** An error while sending cuts the connection, so a response that ends normally is complete. */
function textOf(
  context: Context<RequestScope>,
  body: unknown,
  release: () => void,
): string | ReadableStream<Uint8Array> {
  // Nobody reads the body of an answer to HEAD.
  const isWhole = typeof body !== "object" || body === null || context.req.raw.method === "HEAD";
  if (isWhole) release();
  if (typeof body !== "object" || body === null) return String(body);
  const parts = body as TextParts;
  const encoder = new TextEncoder();
  return new ReadableStream({
    async pull(controller) {
      try {
        const { done, value } = await parts.next();
        if (done) {
          release();
          controller.close();
        } else controller.enqueue(encoder.encode(value));
      } catch (error) {
        release();
        context.get("brokeOff")?.(error);
        const { outgoing } = (context.env ?? {}) as { outgoing?: { destroy(): void } };
        // Otherwise an error of the stream would be written into the response, which would then end normally.
        if (outgoing) outgoing.destroy();
        else controller.error(error);
      }
    },
    async cancel() {
      await parts.return(undefined).finally(release);
    },
  });
}

function parse(schema: z.ZodType | undefined, value: unknown, where: string): unknown {
  if (!schema) return {};
  const result = schema.safeParse(value);
  if (result.success) return result.data;
  const { path, message } = firstIssue(result.error.issues);
  const field = path.join(".") || where;
  throw new InvalidRequest(`${field}: ${message}`, { details: { field, in: where } });
}

/** Picks the member of a union whose form the sender most likely meant: the one that the body contradicts least. */
function firstIssue(issues: readonly z.core.$ZodIssue[]): { path: readonly PropertyKey[]; message: string } {
  const issue = issues[0];
  if (!issue) return { path: [], message: "is malformed" };
  if (issue.code === "unrecognized_keys")
    return { path: [...issue.path, issue.keys[0] ?? ""], message: "is no field here: see /openapi.json" };
  if (issue.code !== "invalid_union" || issue.errors.length === 0)
    return { path: issue.path, message: sentenceOf(issue) };
  const [meant = []] = issue.errors
    .map((found) => ({ found, contradictions: found.filter(contradictsForm).length }))
    .sort((a, b) => a.contradictions - b.contradictions || a.found.length - b.found.length)
    .map(({ found }) => found);
  return firstIssue(meant);
}

/** Returns whether a field shows another form: by a constant of another one, or by its name. */
const contradictsForm = ({ code }: z.core.$ZodIssue): boolean =>
  code === "invalid_value" || code === "unrecognized_keys";

/** Describes a violated bound in plain words; a schema's own message is kept. */
function sentenceOf(issue: z.core.$ZodIssue): string {
  if (issue.code === "too_big" && issue.message.startsWith("Too big")) {
    if (issue.origin === "string") return `is too long: use at most ${issue.maximum} characters`;
    if (issue.origin === "array") return `has too many entries: use at most ${issue.maximum}`;
    return `is too large: use at most ${issue.maximum}`;
  }
  if (issue.code === "too_small" && issue.message.startsWith("Too small")) {
    if (issue.origin === "string") return `is too short: use at least ${issue.minimum} characters`;
    if (issue.origin === "array") return `has too few entries: use at least ${issue.minimum}`;
    return `is too small: use at least ${issue.minimum}`;
  }
  return issue.message;
}

/** Returns the only parameters that a list of an owner takes: a filter that is misspelt would find all. */
function knownParameters({ method, query, scope }: EndpointSpec): readonly string[] | undefined {
  return scope === undefined || method !== "get" ? undefined : ["network", ...Object.keys(query?.shape ?? {})];
}

/**
 * @param known the parameters that may be given; absent: any
 * @throws InvalidRequest for an unknown parameter; for a repeated one, of which two readers would use different values;
 * and for NUL, which no database stores
 */
function singleValues(context: Context, known: readonly string[] | undefined): Record<string, string> {
  const problemOf = (name: string, value: string, isTwice: boolean): string | undefined => {
    if (known && !known.includes(name)) return `is no parameter here: use ${known.join(", ")}`;
    if (isTwice) return "is given twice";
    return value.includes("\0") ? "has the character NUL" : undefined;
  };
  const values: Record<string, string> = {};
  for (const [name, [value = "", ...more]] of Object.entries(context.req.queries())) {
    const problem = problemOf(name, value, more.length > 0);
    if (problem) throw new InvalidRequest(`${name}: ${problem}`, { details: { field: name, in: "query" } });
    values[name] = value;
  }
  return values;
}
