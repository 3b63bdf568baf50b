import { expect } from "chai";
import { WEBHOOK_EVENT_TYPES } from "turnpike/facilitator";
import { createApp, endpointsOf } from "../../facilitator/src/http/app";
import { unusedDoors } from "../support/doors";

/** Doors that nobody goes through: the document is about their frames. */
const doors = unusedDoors();

interface Operation {
  readonly requestBody?: { readonly content: Record<string, { readonly schema: object }> };
  readonly parameters?: readonly { readonly name: string; readonly in: string; readonly required?: boolean }[];
  readonly responses: Record<string, unknown>;
  readonly summary?: string;
  readonly security?: readonly Record<string, readonly string[]>[];
}
interface Document {
  readonly openapi: string;
  readonly paths: Record<string, Record<string, Operation>>;
  readonly webhooks: Record<string, unknown>;
  readonly components: { readonly securitySchemes: unknown };
}

describe("openapi.json", () => {
  const app = createApp(doors);
  let document: Document;
  before(async () => {
    document = (await (await app.request("/openapi.json")).json()) as Document;
  });

  const operations = (): [string, Operation][] =>
    Object.entries(document.paths).flatMap(([path, methods]) =>
      Object.entries(methods).map(([method, operation]): [string, Operation] => [`${method} ${path}`, operation]),
    );

  it("describes exactly the endpoints that are mounted", () => {
    const mounted = endpointsOf(doors).map(({ method, path }) => `${method} ${path}`);
    expect(
      operations()
        .map(([name]) => name)
        .sort(),
    ).to.deep.equal(mounted.sort());
    const routed = new Set(
      app.routes
        // The dashboard's files are there once it was built.
        .filter(({ path }) => path !== "/*" && !path.startsWith("/dashboard."))
        .map(({ method, path }) => `${method.toLowerCase()} ${path.replaceAll(/:(\w+)/g, "{$1}")}`),
    );
    const besides = ["get /openapi.json", "get /metrics", "get /", "get /events/live"];
    expect([...routed].sort()).to.deep.equal([...mounted, ...besides].sort());
  });

  it("names every parameter of a path, a body for every POST and PATCH, and the problem that any may answer", () => {
    for (const [name, operation] of operations()) {
      const inPath = [...name.matchAll(/\{(\w+)\}/g)].map((match) => match[1]);
      const told = (operation.parameters ?? [])
        .filter((parameter) => parameter.in === "path")
        .map((parameter) => parameter.name);
      expect(told, name).to.deep.equal(inPath);
      expect(operation.requestBody !== undefined, name).to.equal(/^(?:post|patch) /.test(name));
      expect(operation.responses, name).to.have.property("default");
      expect(operation.summary, name).to.be.a("string");
    }
  });

  it("names the scope of every route that needs an API key, and tells every webhook", () => {
    const scoped = endpointsOf(doors).flatMap(({ method, path, scope }) =>
      scope ? [[`${method} ${path}`, scope]] : [],
    );
    const told = operations().flatMap(([name, { security }]) =>
      security ? [[name, security[0]?.apiKey?.[0] ?? "any"]] : [],
    );
    expect(told.sort()).to.deep.equal(scoped.sort());
    expect(told.length).to.be.greaterThan(15);
    expect(document.components.securitySchemes).to.deep.equal({ apiKey: { type: "http", scheme: "bearer" } });
    expect(Object.keys(document.webhooks).sort()).to.deep.equal([...WEBHOOK_EVENT_TYPES].sort());
  });

  it("describes amounts as strings, as they stand on the wire", () => {
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
});
