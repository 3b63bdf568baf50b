/**
 * Defines an endpoint as one object: path, schemas and handler. The same schemas validate requests, type responses and
 * generate openapi.json, so the three cannot differ.
 */
import type { OpenAPIHono } from "@hono/zod-openapi";
import type { Context } from "hono";
import type { ContentfulStatusCode } from "hono/utils/http-status";
import { type ApiScope, PROBLEM_CONTENT_TYPE, type Problem, problemSchema } from "turnpike/facilitator";
import { type Hex, InvalidRequest, TurnpikeError } from "turnpike/protocol";
import { z } from "zod";
import type { Origin } from "../providers/keys";
import { hasNoBody, readJsonBody } from "./body";
import { type ErrorResponse, errorResponseOf, sendError } from "./errors";
import { addressOf, type RequestScope, type Site, siteOf, type UntilEnd } from "./request";

type Fields = z.ZodObject;

type Answers = { readonly [status: number]: z.ZodType };

type Method = "get" | "post" | "patch" | "delete";

export interface Call<P, Q, B, C> {
  readonly params: P;
  readonly query: Q;
  readonly body: B;
  readonly caller: C;
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

/** Decides who may call: by the Authorization header, for one scope, or with any key. */
export interface Admission<C> {
  readonly scope: ApiScope | "any";
  /** @throws InvalidApiKey, ScopeMissing, RateLimited */
  admit(authorization: string | null, origin: Origin): Promise<C>;
}

/** The body as the schema reads it: the wire form, with decimal strings. */
export type Answer<A extends Answers> = {
  [S in keyof A & number]: {
    readonly status: S;
    readonly body: z.input<A[S]>;
    readonly headers?: Record<string, string>;
  };
}[keyof A & number];

/** A text response that is sent while it is read. */
export type TextParts = AsyncGenerator<string>;

interface EndpointOf<P extends Fields, Q extends Fields, B extends z.ZodType, A extends Answers, C> {
  readonly method: Method;
  /** OpenAPI form: /plans/{planId} */
  readonly path: string;
  readonly summary: string;
  readonly tag: string;
  readonly params?: P;
  readonly query?: Q;
  readonly body?: B;
  readonly answers: A;
  /** set for a text response instead of JSON */
  readonly mediaType?: "text/csv";
  /** absent: open to anyone */
  readonly admission?: Admission<C>;
  /** fields that an error's body carries in addition, for stock clients that look for them */
  readonly problemExtra?: (problem: Problem) => Record<string, unknown>;
  handle(call: Call<z.output<P>, z.output<Q>, z.output<B>, C>): Promise<Answer<NoInfer<A>>>;
}

/** An endpoint without its type parameters, for lists of endpoints. */
export interface Endpoint {
  readonly method: Method;
  readonly path: string;
  /** the scope that an API key needs; absent: open to anyone */
  readonly scope?: ApiScope | "any";
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

const none = z.object({});

/** For callers that nothing stops. */
const all: UntilEnd = (work) => work;

type None = typeof none;

export function endpoint<
  A extends Answers,
  P extends Fields = None,
  Q extends Fields = None,
  B extends z.ZodType = None,
  C = undefined,
>(spec: EndpointOf<P, Q, B, A, C>): Endpoint {
  const mayOmitBody = isBodyOptional(spec);
  const isDirect = spec.method === "post" && spec.body && !spec.admission && !spec.params && !spec.query;
  const direct: Direct = {
    refuse: (error, requestId) => errorResponseOf(error, requestId, spec.problemExtra),
    async answer(readBody, { untilEnd, ...request }) {
      try {
        const body = parse(spec.body, readBody(), "body");
        const call = { ...request, caller: undefined, params: {}, query: {}, body };
        const answer = await untilEnd(spec.handle(call as unknown as Call<z.output<P>, z.output<Q>, z.output<B>, C>));
        const headers = { "content-type": "application/json", ...answer.headers };
        return { status: answer.status as number, headers, text: JSON.stringify(answer.body) };
      } catch (error) {
        return errorResponseOf(error, request.origin.requestId, spec.problemExtra);
      }
    },
  };
  return {
    method: spec.method,
    path: spec.path,
    ...(spec.admission && { scope: spec.admission.scope }),
    ...(isDirect && { direct }),
    mount(app) {
      describe(app, spec);
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
          const handle = async () => {
            const caller = (await spec.admission?.admit(authorization, origin)) as C;
            if (spec.mediaType) release = beginExport(caller);
            return spec.handle({
              caller,
              origin,
              waitedMs: 0,
              site: siteOf(context),
              isGone: () => context.req.raw.signal.aborted,
              concerns(paymentId) {
                context.set("paymentId", paymentId);
                context.var.trace?.concerns(paymentId);
              },
              params: parse(spec.params, context.req.param(), "path") as z.output<P>,
              query: parse(spec.query, singleValues(context), "query") as z.output<Q>,
              body: parse(spec.body, body, "body") as z.output<B>,
            });
          };
          const answer = await untilEnd(handle());
          const status = answer.status as ContentfulStatusCode;
          return spec.mediaType === undefined
            ? context.json(answer.body as object, status, answer.headers)
            : context.body(textOf(context, answer.body, release), status, {
                "content-type": `${spec.mediaType}; charset=utf-8`,
                ...answer.headers,
              });
        } catch (error) {
          release();
          return sendError(context, error, spec.problemExtra);
        }
      });
    },
  };
}

/**
 * Returns whether a request may omit its body because every field has a default. Only behind an API key: its header
 * excludes pages of other origins, which could otherwise post without a body.
 */
function isBodyOptional({ body, admission }: { readonly body?: z.ZodType; readonly admission?: unknown }): boolean {
  return body !== undefined && admission !== undefined && body.safeParse({}).success;
}

/** Keys with a CSV that is being read. Several at once of one key would slow everybody's payments down. */
const exporting = new Set<string>();

const EXPORT_AGAIN_SEC = 2;

/** @returns ends it @throws RateLimited while another CSV of the caller's key is being read */
function beginExport(caller: unknown): () => void {
  const { keyId } = (caller ?? {}) as { readonly keyId?: string };
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

/** Picks the branch of a union that matched furthest: the one the sender most likely meant. */
function firstIssue(issues: readonly z.core.$ZodIssue[]): { path: readonly PropertyKey[]; message: string } {
  const issue = issues[0];
  if (!issue) return { path: [], message: "is malformed" };
  if (issue.code !== "invalid_union" || issue.errors.length === 0)
    return { path: issue.path, message: sentenceOf(issue) };
  const [furthest] = issue.errors.map((branch) => firstIssue(branch)).sort((a, b) => b.path.length - a.path.length);
  return furthest ?? { path: issue.path, message: issue.message };
}

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

/**
 * @throws InvalidRequest for a repeated parameter, of which two readers would use different values, and for NUL, which
 * no database stores
 */
function singleValues(context: Context): Record<string, string> {
  const values: Record<string, string> = {};
  for (const [name, [value = "", ...more]] of Object.entries(context.req.queries())) {
    const problem = more.length > 0 ? "is given twice" : value.includes("\0") ? "has the character NUL" : undefined;
    if (problem) throw new InvalidRequest(`${name}: ${problem}`, { details: { field: name, in: "query" } });
    values[name] = value;
  }
  return values;
}

export const API_KEY_SCHEME = "apiKey";

function describe<P extends Fields, Q extends Fields, B extends z.ZodType, A extends Answers, C>(
  app: OpenAPIHono<RequestScope>,
  spec: EndpointOf<P, Q, B, A, C>,
): void {
  const json = (schema: z.ZodType) => ({ "application/json": { schema } });
  const answered = (schema: z.ZodType) => (spec.mediaType ? { [spec.mediaType]: { schema } } : json(schema));
  app.openAPIRegistry.registerPath({
    method: spec.method,
    path: spec.path,
    summary: spec.summary,
    tags: [spec.tag],
    ...(spec.admission && {
      security: [{ [API_KEY_SCHEME]: spec.admission.scope === "any" ? [] : [spec.admission.scope] }],
    }),
    request: {
      ...(spec.params && { params: spec.params }),
      ...(spec.query && { query: spec.query }),
      ...(spec.body && { body: { required: !isBodyOptional(spec), content: json(spec.body) } }),
    },
    responses: {
      ...Object.fromEntries(
        Object.entries(spec.answers).map(([status, schema]) => [
          status,
          {
            description: status === "202" ? "the outcome is not known yet: ask again" : "done",
            content: answered(schema),
          },
        ]),
      ),
      default: { description: "a problem", content: { [PROBLEM_CONTENT_TYPE]: { schema: problemSchema } } },
    },
  });
}
