/**
 * Completes openapi.json: operation ids, descriptions, named schemas, errors by status and examples. Paths and schemas
 * come from the endpoints themselves.
 */
import { PROBLEM_CONTENT_TYPE } from "turnpike/facilitator";
import { ERRORS, type ErrorCode, TurnpikeError } from "turnpike/protocol";
import { problemFor, statusOf } from "./errors";
import { type Json, sampleOf } from "./openapi-sample";
import { OPERATIONS, TAGS } from "./operations";

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
  tags?: string[];
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

/** x402 clients parse JSON alone, so these send the problem's fields with `application/json`. */
const IS_STOCK = /^post \/(?:verify|settle)$/;

const REQUEST_ID = "6f1c2d0e-7c1b-4c39-9f0e-2f4d5a6b7c8d";

/** @returns the document with everything that the endpoints do not state themselves */
export function completeDocument(given: object): object {
  const document = given as Document;
  const components = new Components();
  for (const [path, methods] of Object.entries(document.paths ?? {})) {
    for (const [method, operation] of Object.entries(methods)) complete(operation, method, path, components);
  }
  for (const [type, methods] of Object.entries(document.webhooks ?? {}))
    completeWebhook(methods.post, type, components);
  const used = new Set(
    Object.values(document.paths ?? {}).flatMap((methods) => Object.values(methods).flatMap(tagsOf)),
  );
  return {
    ...document,
    info: { ...document.info, ...INFO },
    servers: [{ url: "/", description: "the Facilitator that serves this document" }],
    tags: Object.entries(TAGS).flatMap(([name, description]) => (used.has(name) ? [{ name, description }] : [])),
    components: { ...document.components, ...components.all() },
  };
}

const tagsOf = ({ tags }: Operation): string[] => tags ?? [];

function complete(operation: Operation, method: string, path: string, components: Components): void {
  const isCsv = path.endsWith(".csv");
  const known = OPERATIONS[`${method} ${path}`] ?? OPERATIONS[`${method} ${path.replace(/\.csv$/, "")}`];
  // A test requires an entry of every endpoint of the API.
  if (!known) return;
  operation.operationId = isCsv ? `${known.id}Csv` : known.id;
  operation.description = isCsv ? `${known.description} As CSV, in base units and as decimals.` : known.description;
  operation.security ??= [];
  for (const parameter of operation.parameters ?? []) parameter.example = sampleOf(parameter.schema, parameter.name);

  const name = operation.operationId.replace(/^./, (letter) => letter.toUpperCase());
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
  const type = IS_STOCK.test(`${method} ${path}`) ? "application/json" : PROBLEM_CONTENT_TYPE;
  for (const [status, codes] of errorsOf(operation, method, known.errors ?? [])) {
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

/** Errors by status: those of the operation, and those that its inputs and its admission imply. */
function errorsOf(operation: Operation, method: string, own: readonly ErrorCode[]): Map<string, ErrorCode[]> {
  const scope = (operation.security?.[0] as { apiKey?: string[] } | undefined)?.apiKey;
  const parameters = operation.parameters ?? [];
  const codes: ErrorCode[] = [
    ...(operation.requestBody || parameters.length > 0 ? (["InvalidRequest"] as const) : []),
    ...(scope ? (["InvalidApiKey"] as const) : []),
    ...(scope && scope.length > 0 ? (["ScopeMissing"] as const) : []),
    ...(scope && parameters.some((each) => each.in === "path") ? (["UnknownObject"] as const) : []),
    ...own,
    ...(operation.requestBody ? (["PayloadTooLarge", "UnsupportedMediaType"] as const) : []),
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
