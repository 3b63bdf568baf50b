/** Makes openapi.json from the endpoints' terms: with named schemas, errors by status and examples. */
import type { OpenAPIHono } from "@hono/zod-openapi";
import {
  API_TAGS,
  type EndpointSpec,
  networkQuerySchema,
  PROBLEM_CONTENT_TYPE,
  problemSchema,
} from "turnpike/facilitator";
import { ERRORS, type ErrorCode, TurnpikeError } from "turnpike/protocol";
import type { z } from "zod";
import { problemFor, statusOf } from "./errors";
import { type Json, sampleOf } from "./openapi-sample";
import type { RequestScope } from "./request";

interface Media {
  schema: Json;
  example?: unknown;
}

interface Content {
  content?: Record<string, Media>;
  description: string;
}

interface Operation {
  operationId?: string;
  description?: string;
  security?: object[];
  parameters?: { name: string; in: string; schema: Json; example?: unknown }[];
  requestBody?: Content;
  responses: Record<string, Content | Json>;
}

interface Document {
  info: object;
  paths?: Record<string, Record<string, Operation>>;
  webhooks?: Record<string, { post?: Operation }>;
  components?: object;
}

const INFO = {
  description:
    "Settles payments, collects subscriptions and debits metered usage. Amounts are decimal strings of base units, times are unix seconds. Every error is a problem document (RFC 9457) with a stable `code`.",
  license: { name: "MIT", identifier: "MIT" },
};

export const API_KEY_SCHEME = "apiKey";

const REQUEST_ID = "6f1c2d0e-7c1b-4c39-9f0e-2f4d5a6b7c8d";

/** What of an endpoint the document shows. */
type Described = EndpointSpec & { readonly problemExtra?: unknown };

/** Registers an endpoint for the document. */
export function describeEndpoint(app: OpenAPIHono<RequestScope>, spec: EndpointSpec, needsBody: boolean): void {
  const { id, method, path, text, tag, scope, params, query, body, mediaType = "application/json" } = spec;
  const [summary = text] = /^.*?\.(?= |$)/.exec(text) ?? [];
  app.openAPIRegistry.registerPath({
    method,
    path,
    operationId: id,
    summary,
    description: text,
    tags: [tag],
    security: scope === undefined ? [] : [{ [API_KEY_SCHEME]: scope === "any" ? [] : [scope] }],
    request: {
      ...(params && { params }),
      query: networkQuerySchema.extend(query?.shape ?? {}),
      ...(body && { body: { required: needsBody, content: { "application/json": { schema: body } } } }),
    },
    responses: {
      ...Object.fromEntries(
        Object.entries(spec.answers).map(([status, schema]) => [
          status,
          {
            description: status === "202" ? "the outcome is not known yet: ask again" : "done",
            content: { [mediaType]: { schema } },
          },
        ]),
      ),
      default: {
        description: "a problem",
        content: { [PROBLEM_CONTENT_TYPE]: { schema: problemSchema as z.ZodType } },
      },
    },
  });
}

/** @returns the document with everything that follows from the endpoints' terms */
export function completeDocument(given: object, endpoints: readonly Described[]): object {
  const document = given as Document;
  const components = new Components();
  for (const endpoint of endpoints) {
    const operation = document.paths?.[endpoint.path]?.[endpoint.method];
    if (operation) complete(operation, endpoint, components);
  }
  for (const [type, methods] of Object.entries(document.webhooks ?? {}))
    completeWebhook(methods.post, type, components);
  const used = new Set<string>(endpoints.map(({ tag }) => tag));
  return {
    ...document,
    info: { ...document.info, ...INFO },
    servers: [{ url: "/", description: "the Facilitator that serves this document" }],
    tags: Object.entries(API_TAGS).flatMap(([name, description]) => (used.has(name) ? [{ name, description }] : [])),
    components: { ...document.components, ...components.all() },
  };
}

function complete(operation: Operation, endpoint: Described, components: Components): void {
  for (const parameter of operation.parameters ?? []) parameter.example = sampleOf(parameter.schema, parameter.name);

  const name = endpoint.id.replace(/^./, (letter) => letter.toUpperCase());
  for (const media of Object.values(operation.requestBody?.content ?? {})) {
    media.example = sampleOf(media.schema);
    media.schema = components.schema(`${name}Request`, media.schema);
  }
  const problem = (operation.responses.default as Content | undefined)?.content?.[PROBLEM_CONTENT_TYPE];
  for (const [status, response] of Object.entries(operation.responses)) {
    for (const [type, media] of Object.entries((response as Content).content ?? {})) {
      if (media === problem || type !== "application/json") continue;
      media.example = sampleOf(media.schema);
      media.schema = components.schema(
        status === "202" ? "Pending" : `${name}Response`,
        media.schema,
        `${name}Accepted`,
      );
    }
  }
  if (!problem) return;
  problem.schema = components.schema("Problem", problem.schema);
  // x402 clients parse JSON alone.
  const type = endpoint.problemExtra ? "application/json" : PROBLEM_CONTENT_TYPE;
  for (const [status, codes] of errorsOf(endpoint)) {
    operation.responses[status] ??= components.problem(codes, type, problem.schema);
  }
}

function completeWebhook(operation: Operation | undefined, type: string, components: Components): void {
  if (!operation) return;
  const name = type.replaceAll(/(?:^|[._])(\w)/g, (_, letter: string) => letter.toUpperCase());
  operation.operationId = `on${name}`;
  operation.description =
    "Verify the signature over the raw body first. The same event has the same `webhook-id` at every attempt.";
  operation.security = [];
  for (const media of Object.values(operation.requestBody?.content ?? {})) {
    media.schema = components.schema(`${name}Event`, media.schema);
  }
}

/** Errors by status: those of the endpoint, and those that its inputs and its scope imply. */
function errorsOf({ method, scope, params, body, errors = [] }: EndpointSpec): Map<string, ErrorCode[]> {
  const codes: ErrorCode[] = [
    "InvalidRequest",
    ...(scope ? (["InvalidApiKey"] as const) : []),
    ...(scope && scope !== "any" ? (["ScopeMissing"] as const) : []),
    ...(scope && params ? (["UnknownObject"] as const) : []),
    ...errors,
    ...(body ? (["PayloadTooLarge", "UnsupportedMediaType"] as const) : []),
    ...(scope || method !== "get" ? (["RateLimited"] as const) : []),
    ...["Internal" as const, "Unavailable" as const],
  ];
  const byStatus = new Map<string, ErrorCode[]>();
  for (const code of new Set(codes)) {
    const status = String(statusOf(new TurnpikeError(code)));
    byStatus.set(status, [...(byStatus.get(status) ?? []), code]);
  }
  return byStatus;
}

/** Schemas and error responses by name, each stored once. */
class Components {
  readonly #nameOf = new Map<string, string>();
  readonly #schemas = new Map<string, Json>();
  readonly #responses = new Map<string, Content>();

  /** @returns a reference to the schema, under `name` unless another schema has it. Equal schemas share a name. */
  schema(name: string, schema: Json, otherwise = name): Json {
    const text = JSON.stringify(schema);
    const known = this.#nameOf.get(text) ?? (this.#schemas.has(name) ? otherwise : name);
    this.#nameOf.set(text, known);
    this.#schemas.set(known, schema);
    return { $ref: `#/components/schemas/${known}` };
  }

  /** @returns a reference to the response with these codes */
  problem(codes: readonly ErrorCode[], type: string, schema: Json): Json {
    const [first = "Internal"] = codes;
    const name = `${type === PROBLEM_CONTENT_TYPE ? "" : "X402"}${codes.join("Or")}`;
    this.#responses.set(name, {
      description: codes.map((code) => `\`${code}\`: ${ERRORS[code].cause}`).join(" "),
      content: { [type]: { schema, example: problemFor(new TurnpikeError(first), REQUEST_ID) } },
    });
    return { $ref: `#/components/responses/${name}` };
  }

  all(): object {
    return { schemas: sorted(this.#schemas), responses: sorted(this.#responses) };
  }
}

const sorted = <V>(map: ReadonlyMap<string, V>): Record<string, V> =>
  Object.fromEntries([...map].sort(([a], [b]) => (a < b ? -1 : 1)));
