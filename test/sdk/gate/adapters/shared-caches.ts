/** Headers that speak to shared caches alone: a paid answer keeps none of them. */
import { createServer } from "node:http";
import { expect } from "chai";
import express from "express";
import type { Provider } from "turnpike/gate";
import { expressGate } from "turnpike/gate/express";
import type { AcceptEntryWire } from "turnpike/protocol";
import {
  closeServer,
  listen,
  ONE_TIME,
  paidHeaders,
  quoteOf,
  RESERVING,
  type SmallFacilitator,
  send,
  startSmallFacilitator,
  testProvider,
} from "../../../support/gate";
import { ADAPTERS, PREFIX } from "../support/frameworks";
import { v1Headers } from "../support/standard";

const KEY = { "Idempotency-Key": "one-purchase-of-this-test" };

const FOR_CACHES = {
  "CDN-Cache-Control": "public, max-age=600",
  "Cloudflare-CDN-Cache-Control": "max-age=600",
  "vercel-cdn-cache-control": "max-age=600",
  "Surrogate-Control": "max-age=600",
  "Edge-Control": "cache-maxage=600",
  "X-Accel-Expires": "600",
};

/** Contradictions, of which a cache may follow either part. */
const CONTROLS = ["public, private", "private, s-maxage=600", "max-age=600"];

describe("headers for shared caches", () => {
  let facilitator: SmallFacilitator;
  let provider: Provider;

  beforeEach(async () => {
    facilitator = await startSmallFacilitator();
    facilitator.supported = RESERVING;
    provider = testProvider(facilitator, { replay: {} });
  });
  afterEach(async () => {
    await provider.close();
    await facilitator.stop();
  });

  for (const [name, start] of Object.entries(ADAPTERS)) {
    it(`C15 none of a handler's leaves with a paid answer or its replay, through ${name}`, async () => {
      let headers: Readonly<Record<string, string>> = FOR_CACHES;
      const handle = () => ({ headers: { "X-Own": "kept", ...headers }, body: "content" });
      const server = await start(provider, [{ path: "/paid", gate: { pricing: ONE_TIME } as never, handle }]);
      try {
        const url = `${server.url}${PREFIX}/paid`;
        const standard = async () => v1Headers((await quoteOf(url)).accepts[0] as AcceptEntryWire);
        for (const pay of [standard, () => paidHeaders(url)]) {
          headers = FOR_CACHES;
          const paid = { ...(await pay()), ...KEY };
          for (const replayed of [undefined, "true"]) {
            const answer = await send(url, { headers: paid });
            expect([answer.status, answer.headers["idempotency-replayed"]]).to.deep.equal([200, replayed]);
            expect(answer.headers).not.to.have.any.keys(Object.keys(FOR_CACHES).map((field) => field.toLowerCase()));
            expect(answer.headers).to.include({ "x-own": "kept", "cache-control": "private, no-store" });
          }
          for (const control of CONTROLS) {
            headers = { "Cache-Control": control };
            const answer = await send(url, { headers: await pay() });
            expect(answer.headers["cache-control"], control).to.equal("private, no-store");
          }
          headers = { "Cache-Control": "private, max-age=60" };
          expect((await send(url, { headers: await pay() })).headers["cache-control"]).to.equal("private, max-age=60");
        }
      } finally {
        await server.stop();
      }
    });
  }

  it("C15 none that the application sets for all its answers stays on a price or a paid answer", async () => {
    const app = express();
    app.use((_request, response, next) => {
      response.set(FOR_CACHES);
      next();
    });
    app.get("/paid", expressGate(provider.gate({ pricing: ONE_TIME } as never)), (_request, response) => {
      response.send("content");
    });
    const server = createServer(app);
    const url = `${await listen(server)}/paid`;
    try {
      for (const headers of [{}, await paidHeaders(url)]) {
        const answer = await send(url, { headers });
        expect(answer.status).to.be.oneOf([200, 402]);
        expect(answer.headers).not.to.have.any.keys(Object.keys(FOR_CACHES).map((field) => field.toLowerCase()));
      }
    } finally {
      await closeServer(server);
    }
  });
});
