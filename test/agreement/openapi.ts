import { expect } from "chai";
import { ENDPOINTS, networkQuerySchema, problemSchema, WEBHOOK_EVENT_TYPES } from "turnpike/facilitator";
import { z } from "zod";
import { createApp, endpointsOf } from "../../facilitator/src/http/app";
import { dereferenced } from "../support/openapi";
import { unusedServices } from "../support/unused-services";

/** Services that are never called: the tests read the routes alone. */
const services = unusedServices();

interface Pages {
  openApiDocument(): Promise<object>;
  pagesOf(document: object): Map<string, string>;
}
const { openApiDocument, pagesOf }: Pages = require("../../tools/openapi.cjs");

interface Media {
  readonly schema: object;
  readonly example?: unknown;
}

interface Operation {
  readonly requestBody?: { readonly content: Record<string, Media> };
  readonly parameters?: readonly ({ readonly name: string; readonly in: string } & Media)[];
  readonly responses: Record<string, { readonly description: string; readonly content?: Record<string, Media> }>;
  readonly summary?: string;
  readonly operationId?: string;
  readonly description?: string;
  readonly security?: readonly Record<string, readonly string[]>[];
}
interface Document {
  readonly openapi: string;
  readonly paths: Record<string, Record<string, Operation>>;
  readonly webhooks: Record<string, unknown>;
  readonly components: { readonly securitySchemes: unknown };
}

describe("openapi.json", () => {
  const app = createApp(services);
  let document: Document;
  before(async () => {
    document = dereferenced<Document>((await (await app.request("/openapi.json")).json()) as object);
  });

  const operations = (): [string, Operation][] =>
    Object.entries(document.paths).flatMap(([path, methods]) =>
      Object.entries(methods).map(([method, operation]): [string, Operation] => [`${method} ${path}`, operation]),
    );

  it("describes exactly the endpoints that are mounted", () => {
    const mounted = endpointsOf(services).map(({ method, path }) => `${method} ${path}`);
    expect(
      operations()
        .map(([name]) => name)
        .sort(),
    ).to.deep.equal(mounted.sort());
    const routed = new Set(
      app.routes
        // The dashboard's files are there once it was built.
        .filter(({ path }) => path !== "/*" && !/^\/(?:[\w-]+\.(?:js|css)|me)$/.test(path))
        .map(({ method, path }) => `${method.toLowerCase()} ${path.replaceAll(/:(\w+)/g, "{$1}")}`),
    );
    const besides = ["get /openapi.json", "get /metrics", "get /", "get /events/live"];
    expect([...routed].sort()).to.deep.equal([...mounted, ...besides].sort());
  });

  it("names every parameter of a path, a body for every POST and PATCH, and the problem that any may answer", () => {
    for (const [name, operation] of operations()) {
      const inPath = [...name.matchAll(/\{(\w+)\}/g)].map((match) => match[1]);
      const described = (operation.parameters ?? [])
        .filter((parameter) => parameter.in === "path")
        .map((parameter) => parameter.name);
      expect(described, name).to.deep.equal(inPath);
      const names = operation.parameters?.map((parameter) => parameter.name);
      expect(names, `${name}: of several chains, any request may name one`).to.include("network");
      expect(operation.requestBody !== undefined, name).to.equal(/^(?:post|patch) /.test(name));
      expect(operation.responses, name).to.have.property("default");
      expect(operation.summary, name).to.be.a("string");
    }
  });

  it("names the scope of every route that needs an API key, and every webhook", () => {
    const scoped = endpointsOf(services).flatMap(({ method, path, scope }) =>
      scope ? [[`${method} ${path}`, scope]] : [],
    );
    const described = operations().flatMap(([name, { security }]) =>
      security?.[0] ? [[name, security[0].apiKey?.[0] ?? "any"]] : [],
    );
    expect(described.sort()).to.deep.equal(scoped.sort());
    expect(described.length).to.be.greaterThan(15);
    expect(document.components.securitySchemes).to.deep.equal({ apiKey: { type: "http", scheme: "bearer" } });
    expect(Object.keys(document.webhooks).sort()).to.deep.equal([...WEBHOOK_EVENT_TYPES].sort());
  });

  it("describes amounts as strings, as on the wire", () => {
    const schema = document.paths["/authorize"]?.post?.requestBody?.content["application/json"]?.schema as never;
    const { properties } = (schema as { properties: { signedPayment: { properties: Record<string, never> } } })
      .properties.signedPayment;
    const authorization = properties.authorization as unknown as {
      properties: Record<string, { type: string }>;
      required: string[];
    };
    expect(authorization.properties.value?.type).to.equal("string");
    expect(authorization.required).to.include.members(["from", "to", "value", "validAfter", "validBefore", "nonce"]);
  });

  it("gives every operation its own id, a description, an example of each JSON body and a problem for each status", () => {
    const ids = operations().map(([, { operationId }]) => operationId);
    expect(new Set(ids).size).to.equal(ids.length);
    for (const [name, operation] of operations()) {
      expect(operation.operationId, name).to.match(/^[a-z][A-Za-z0-9]+$/);
      expect(operation.description, name).to.match(/\.$/);
      for (const parameter of operation.parameters ?? []) expect(parameter, name).to.have.property("example");
      const bodies = [operation.requestBody, ...Object.values(operation.responses)];
      for (const media of bodies.flatMap((body) => body?.content?.["application/json"] ?? [])) {
        expect(media, name).to.have.property("example");
      }
      const statuses = Object.keys(operation.responses);
      expect(statuses, name).to.include.members(["500", "503"]);
      if (operation.requestBody) expect(statuses, name).to.include.members(["400", "413", "415", "429"]);
      if (operation.security?.[0]) expect(statuses, name).to.include.members(["401", "429"]);
    }
  });

  it("shows examples that fit their schemas, and that the endpoints take", () => {
    const mismatches: string[] = [];
    const examine = (where: string, schema: z.ZodType | undefined, example: unknown): void => {
      const problem = schema ? schema.safeParse(example).error?.issues[0] : { message: "has no schema", path: [] };
      if (problem) mismatches.push(`${where}.${problem.path.join(".")}: ${problem.message}`);
    };
    for (const { method, path, params, query, body, answers } of ENDPOINTS) {
      const operation = document.paths[path]?.[method];
      const described = (where: string, { schema, example }: Media, own: z.ZodType | undefined): void => {
        examine(`${method} ${path} ${where}`, z.fromJSONSchema(schema as z.core.JSONSchema.JSONSchema), example);
        examine(`${method} ${path} ${where}`, own, example);
      };
      for (const parameter of operation?.parameters ?? []) {
        const own: z.ZodRawShape = { ...networkQuerySchema.shape, ...query?.shape, ...params?.shape };
        described(parameter.name, parameter, own[parameter.name] as z.ZodType | undefined);
      }
      const json = (content: Record<string, Media> | undefined) => content?.["application/json"];
      const asked = json(operation?.requestBody?.content);
      if (asked) described("body", asked, body);
      for (const [status, { content }] of Object.entries(operation?.responses ?? {})) {
        const answer = json(content);
        if (answer) described(status, answer, answers[Number(status)] ?? problemSchema);
      }
    }
    expect(mismatches).to.deep.equal([]);
  });

  it("describes no operation that is not mounted", () => {
    const mounted = new Set(operations().map(([name]) => name));
    const described = ENDPOINTS.map(({ method, path }) => `${method} ${path}`);
    const others = described.filter((name) => !mounted.has(name));
    expect(others.filter((name) => !name.includes(" /sandbox/"))).to.deep.equal([]);
  });

  it("has a page for each tag, with every operation", async () => {
    const pages = pagesOf(await openApiDocument());
    const shown = [...pages.values()].join("\n");
    for (const [name] of operations()) {
      const [method = "", path = ""] = name.split(" ");
      expect(shown).to.include(`## ${method.toUpperCase()} ${path}\n`);
    }
  });
});
