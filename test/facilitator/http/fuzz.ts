import { expect } from "chai";
import fc from "fast-check";
import { isErrorCode } from "turnpike/protocol";
import { dereferenced } from "../../support/openapi";
import { useService } from "../support/http-service";

interface Operation {
  readonly method: string;
  readonly path: string;
  readonly query: readonly string[];
  readonly fields: readonly string[];
  readonly isList: boolean;
}

interface Document {
  readonly paths: Record<
    string,
    Record<
      string,
      {
        readonly parameters?: readonly { readonly name: string; readonly in: string }[];
        readonly requestBody?: {
          readonly content: Record<string, { readonly schema: { properties?: object; type?: string } }>;
        };
      }
    >
  >;
}

const HASH = `0x${"ab".repeat(32)}`;
const ADDRESS = `0x${"cd".repeat(20)}`;

/** Near misses, which get further than noise does. */
const near = fc.constantFrom(
  ...["", "0", "1", "-1", "1e3", "0x", HASH, HASH.slice(2), `${HASH}00`, ADDRESS, ADDRESS.toUpperCase(), "we_", "null"],
  ...["99999999999999999999", "payment.settled", "https://example.com/", "http://[::1]/", "..", "%00", "\u0000", "𝕏"],
  `we_${"0".repeat(24)}`,
  "a".repeat(3_000),
);
const text = fc.oneof(near, fc.string({ maxLength: 40 }), fc.string({ unit: "binary", maxLength: 20 }));
const leaf = fc.oneof(text, fc.integer(), fc.double(), fc.boolean(), fc.constant(null));
const value = fc.oneof(
  { weight: 3, arbitrary: leaf },
  { weight: 1, arbitrary: fc.array(leaf, { maxLength: 4 }) },
  { weight: 1, arbitrary: fc.dictionary(fc.string({ maxLength: 12 }), leaf, { maxKeys: 4 }) },
);

const RUNS_OF_EACH = 8;

describe("Facilitator: fuzz", function () {
  this.timeout(120_000);
  const http = useService({ KEY_REQUESTS_PER_MINUTE: "0" });

  it("S11 answers whatever comes to any route with a status below 500, a code, and soon", async () => {
    const document = dereferenced<Document>((await (await http.call("/openapi.json")).json()) as object);
    const operations = Object.entries(document.paths).flatMap(([path, methods]) =>
      Object.entries(methods).map(([method, { parameters = [], requestBody }]): Operation => {
        const schema = requestBody?.content["application/json"]?.schema;
        return {
          method: method.toUpperCase(),
          path,
          query: parameters.filter((one) => one.in === "query").map(({ name }) => name),
          fields: Object.keys(schema?.properties ?? {}),
          isList: schema?.type === "array",
        };
      }),
    );
    expect(operations.length).to.be.greaterThan(25);
    const keys = await Promise.all([http.service.apiKey(), http.service.apiKey()]);

    const attempt = fc.record({
      params: fc.infiniteStream(text),
      query: fc.infiniteStream(fc.option(text, { freq: 3 })),
      body: fc.infiniteStream(value),
      shape: fc.constantFrom("fields", "fields", "fields", "value", "noise"),
      noise: fc.string({ maxLength: 200 }),
      credential: fc.oneof(fc.constant("key"), fc.constant("none"), text),
      header: fc.constantFrom("application/json", "application/json", "application/json", "text/plain", ""),
    });
    const judge = ({ method, path, query: names, fields, isList }: Operation) =>
      fc.asyncProperty(attempt, async ({ params, query, body, shape, noise, credential, header }) => {
        const filled = path.replaceAll(
          /\{\w+\}/g,
          () => encodeURIComponent(Buffer.from(take(params)).toString()) || "x",
        );
        const search = new URLSearchParams();
        for (const name of names) {
          const given = take(query);
          if (given !== null) search.append(name, given);
        }
        const made = Object.fromEntries(fields.map((field) => [field, take(body)]));
        const json = shape === "fields" ? (isList ? [made, take(body)] : made) : take(body);
        const key = credential === "key" ? keys[path.length % keys.length] : credential.replaceAll(/[^!-~]/g, "");
        const headers: Record<string, string> = {
          ...(header && { "content-type": header }),
          ...(credential !== "none" && { authorization: `Bearer ${key}` }),
        };
        const startedMs = performance.now();
        const response = await fetch(`${http.service.url}${filled}?${search}`, {
          method,
          headers,
          redirect: "manual",
          ...(method !== "GET" && { body: shape === "noise" ? noise : JSON.stringify(json) }),
        });
        const answer = await response.text();
        const what = `${method} ${filled} ${response.status} ${answer.slice(0, 300)}`;
        expect(performance.now() - startedMs, what).to.be.lessThan(30_000);
        expect(response.status, what).to.be.lessThan(path === "/readyz" ? 504 : 500);
        if (response.status >= 400 && path !== "/readyz")
          expect(isErrorCode(JSON.parse(answer).code), what).to.equal(true);
      });
    for (const [place, operation] of operations.entries()) {
      await fc.assert(judge(operation), { numRuns: RUNS_OF_EACH, seed: 402 + place });
    }
  });
});

function take<T>(stream: Iterator<T>): T {
  return stream.next().value as T;
}
