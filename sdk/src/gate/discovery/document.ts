/**
 * Merges the routes whose path is known into the OpenAPI document that the application passes. What the application says
 * stays as it is: an operation of its own gets its price and its 402, and no other field.
 */
import { ConfigError, type JsonObject } from "../../protocol";
import { isObject, wrongKind } from "../../protocol/arguments";
import { memberOf } from "../../protocol/headers";
import { OPERATIONS } from "../../protocol/priced-operations";
import type { ListedRoute } from "./payment-info";
import { Origin, type PathTemplate, sampleOf, shapeOf, templateOf } from "./place";

/** An OpenAPI document of version 3; its paths begin where its first server does. */
export interface OpenApiDocument {
  readonly openapi: string;
  readonly info: { readonly title: string; readonly version: string; readonly [field: string]: unknown };
  readonly paths?: Readonly<Record<string, object>>;
  readonly servers?: readonly object[];
  readonly [field: string]: unknown;
}

/** A route, and what it costs; undefined where it sells nothing now. */
export interface PricedRoute {
  readonly route: ListedRoute;
  readonly info: JsonObject | undefined;
}

/** What a document is made from. */
export interface DocumentFacts {
  /** of the application, checked */
  readonly document: JsonObject;
  /** in the order in which they decide */
  readonly routes: readonly PricedRoute[];
  readonly publicUrl: string | undefined;
}

const refused = (field: string, problem: string): ConfigError => new ConfigError(`document${field} ${problem}`);

/** @returns a copy of the application's document, or of a new one. @throws ConfigError that names the field */
export function readDocument(given: unknown): JsonObject {
  if (given === undefined) return { openapi: "3.1.0", info: { title: "Paid API", version: "1.0.0" } };
  if (!isObject(given)) throw wrongKind(given, "document", "an OpenAPI document, as an object");
  const document = copyOf(given);
  const { openapi, info, paths, servers } = document;
  if (typeof openapi !== "string" || !/^3\.\d+\.\d+$/.test(openapi)) {
    throw refused(".openapi", `is ${JSON.stringify(openapi)}: convert the document to OpenAPI 3, such as "3.1.0"`);
  }
  for (const field of ["title", "version"]) {
    if (typeof memberOf(info, field) !== "string") throw refused(`.info.${field}`, "is no text: readers require it");
  }
  if (paths !== undefined && !isObject(paths)) throw refused(".paths", "is no object: map each path to its operations");
  if (servers !== undefined && !Array.isArray(servers)) throw refused(".servers", "is no list: write [{ url }]");
  for (const [path, item] of Object.entries(paths ?? {})) {
    if (!path.startsWith("/")) continue;
    if (!isObject(item)) throw refused(at(path), "is no object: map each method to its operation");
    for (const method of OPERATIONS) {
      const operation = memberOf(item, method);
      if (operation !== undefined && !isObject(operation)) throw refused(at(path, method), "is no object: remove it");
    }
  }
  return document;
}

function copyOf(given: object): JsonObject {
  try {
    const copy: unknown = JSON.parse(JSON.stringify(given));
    if (isObject(copy)) return copy;
  } catch (cause) {
    const why = cause instanceof Error ? cause.message : String(cause);
    throw new ConfigError(`document is no JSON: ${why}. Resolve it first`, { cause });
  }
  throw wrongKind(given, "document", "an OpenAPI document, as an object");
}

const at = (path: string, ...fields: readonly string[]): string =>
  `.paths${[path, ...fields].map((name) => `[${JSON.stringify(name)}]`).join("")}`;

/** Returns the document with its prices. @throws ConfigError for a conflict, naming the field */
export function mergedDocument({ document, routes, publicUrl }: DocumentFacts): JsonObject {
  const servers = document.servers ?? (publicUrl === undefined ? undefined : [{ url: publicUrl.replace(/\/+$/, "") }]);
  const paths = new Paths({ ...document, servers }, new Origin(servers, publicUrl));
  for (const { route, info } of routes) if (info) paths.add(route, info);
  for (const { route, info } of routes) if (info && route.decides) paths.cover(route, info);
  return { ...document, ...(servers !== undefined && { servers }), paths: paths.all };
}

/** The paths of a document, as routes are added to them. */
class Paths {
  readonly all: JsonObject;
  readonly #document: JsonObject;
  readonly #origin: Origin;
  /** the path of the document for every shape */
  readonly #keys = new Map<string, string>();
  /** the same for the application's own operations, by method and by the shape of the whole path */
  readonly #own = new Map<string, string>();
  /** what routes have priced already: the first decides */
  readonly #priced = new Set<string>();

  constructor(document: JsonObject, origin: Origin) {
    this.all = { ...(document.paths as JsonObject | undefined) };
    this.#document = document;
    this.#origin = origin;
    for (const [path, item] of Object.entries(this.all)) {
      if (!path.startsWith("/")) continue;
      this.#keys.set(shapeOf(path), path);
      for (const method of OPERATIONS) {
        const operation = memberOf(item, method);
        const base = operation && origin.baseOf(operation, item);
        if (base !== undefined) this.#own.set(`${method} ${shapeOf(`${base}${path}`)}`, path);
      }
    }
  }

  /** @throws ConfigError where the application's own item is in the way */
  add(route: ListedRoute, info: JsonObject): void {
    const path = templateOf(route.place);
    const shape = shapeOf(`${this.#origin.gates}${path.template}`);
    const there = OPERATIONS.filter((method) => this.#own.has(`${method} ${shape}`));
    for (const method of methodsOf(route, there)) {
      const place = `${method} ${shape}`;
      if (this.#priced.has(place)) continue;
      this.#priced.add(place);
      const key = this.#own.get(place);
      if (key === undefined) this.#create(route, method, info);
      else this.#set(key, method, priced(memberOf(this.all[key], method) as JsonObject, info, at(key, method)));
    }
  }

  #create(route: ListedRoute, method: OperationMethod, info: JsonObject): void {
    const path = this.#origin.below(templateOf(route.place));
    const shape = shapeOf(path.template);
    const key = this.#keys.get(shape) ?? path.template;
    const own = memberOf(this.all, key) as JsonObject | undefined;
    if (own && "$ref" in own) throw refused(at(key, "$ref"), "is in the way of a price: write the operations there");
    // One path has one operation of a method, which another server may have.
    if (memberOf(own, method) !== undefined) return;
    const { servers = [{ url: "/" }], security } = this.#document;
    this.#keys.set(shape, key);
    this.#set(key, method, {
      ...newOperation(route, method, { path, own, key }),
      ...(this.#origin.baseOf(undefined, own) !== this.#origin.server && { servers }),
      // Catalogues require that an operation says what it needs besides its payment.
      ...(security === undefined && { security: [] }),
      ...paid(info),
    });
  }

  #set(key: string, method: OperationMethod, operation: JsonObject): void {
    this.all[key] = { ...(memberOf(this.all, key) as JsonObject | undefined), [method]: operation };
  }

  /** Prices the application's own operations on whose paths a route decides, without a price of another provider's. */
  cover({ decides }: ListedRoute, info: JsonObject): void {
    const { gates } = this.#origin;
    for (const [path, item] of Object.entries(this.all)) {
      if (!path.startsWith("/") || !isObject(item) || "$ref" in item) continue;
      for (const method of OPERATIONS) {
        const operation = memberOf(item, method);
        if (!isObject(operation) || "x-payment-info" in operation) continue;
        const base = this.#origin.baseOf(operation, item);
        const whole = sampleOf(`${base}${path}`);
        if (base === undefined || !whole.startsWith(gates)) continue;
        if (!decides?.(method.toUpperCase(), whole.slice(gates.length))) continue;
        this.#set(path, method, priced(operation, info, at(path, method)));
      }
    }
  }
}

type OperationMethod = (typeof OPERATIONS)[number];

/** Returns the operations that a route sells: HEAD with GET, and without a method of its own those that there are. */
function methodsOf(
  { place, presentation }: ListedRoute,
  there: readonly OperationMethod[],
): readonly OperationMethod[] {
  if (place.method === "*") {
    if (there.length > 0) return there;
    return [presentation.discovery?.body === undefined ? "get" : "post"];
  }
  const named = place.method.toLowerCase() as OperationMethod;
  if (!OPERATIONS.includes(named)) return [];
  return named === "get" && there.includes("head") ? ["get", "head"] : [named];
}

const PAID = { "402": { description: "Payment Required" } };

const paid = (info: JsonObject): JsonObject => ({ "x-payment-info": info });

/** The application's own operation, with its price and its 402. */
function priced(operation: JsonObject, info: JsonObject, field: string): JsonObject {
  if ("x-payment-info" in operation) {
    throw refused(`${field}["x-payment-info"]`, "is set, and the gate states the price of this route: remove it");
  }
  const { responses = {} } = operation;
  if (!isObject(responses)) throw refused(`${field}.responses`, "is no object: map each status to its response");
  return { ...operation, ...paid(info), responses: { ...PAID, ...responses } };
}

interface NewOperation {
  readonly path: PathTemplate;
  /** the document's own item */
  readonly own: JsonObject | undefined;
  /** its path */
  readonly key: string;
}

function newOperation(
  { presentation }: ListedRoute,
  method: OperationMethod,
  { path, own, key }: NewOperation,
): JsonObject {
  const { description, mimeType, discovery = {} } = presentation;
  const { queryParams, body, bodyType = "json", output } = discovery;
  // Of a path of the application's, the names are the application's too.
  const names = [...key.matchAll(/\{([^{}]*)\}/g)].map(([, name = ""]) => name);
  const declared = new Set(
    (Array.isArray(own?.parameters) ? own.parameters : []).map((each) => memberOf(each, "name")),
  );
  const parameters = [
    ...path.parameters.map(({ isWildcard }, index) => ({
      ...{ name: names[index] ?? "", in: "path", required: true, schema: { type: "string" } },
      ...(isWildcard && { description: "The rest of the path, which may hold slashes." }),
    })),
    ...Object.entries(queryParams ?? {}).map(([name, example]) => ({
      ...{ name, in: "query", schema: schemaOf(example), example },
    })),
  ].filter(({ name }) => !declared.has(name));
  return {
    summary: description || `${method.toUpperCase()} ${key}`,
    ...(parameters.length > 0 && { parameters }),
    ...(body && { requestBody: { required: true, content: { [BODY_TYPES[bodyType]]: contentOf(body) } } }),
    responses: {
      "200": {
        description: "Success",
        content: { [mimeType || BODY_TYPES.json]: output?.example === undefined ? {} : contentOf(output.example) },
      },
      ...PAID,
    },
  };
}

const BODY_TYPES = { json: "application/json", "form-data": "multipart/form-data", text: "text/plain" } as const;

const contentOf = (example: unknown): JsonObject => ({ schema: schemaOf(example), example });

/** The schema of an example: its types, and nothing that it only happens to have. */
function schemaOf(example: unknown): JsonObject {
  if (Array.isArray(example)) return { type: "array", ...(example.length > 0 && { items: schemaOf(example[0]) }) };
  if (!isObject(example)) return example === null ? {} : { type: typeof example };
  const properties = Object.entries(example).map(([name, value]) => [name, schemaOf(value)]);
  return { type: "object", properties: Object.fromEntries(properties) as JsonObject };
}
