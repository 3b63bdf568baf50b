/** HA23: a fetch-style body of any parts is served as without a gate, and one that fails before its first byte is free. */
import { createServer, type Server } from "node:http";
import { expect } from "chai";
import { Hono } from "hono";
import type { Provider } from "turnpike/gate";
import { fetchGate } from "turnpike/gate/fetch";
import { honoGate } from "turnpike/gate/hono";
import { nextGate } from "turnpike/gate/next";
import type { AcceptEntryWire } from "turnpike/protocol";
import {
  closeServer,
  fetchServer,
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
import { until } from "../../../support/subscriptions";
import { v1Headers } from "../support/standard";

type Fetch = (request: Request) => Response | Promise<Response>;

const bodyOf = (...parts: unknown[]) =>
  new ReadableStream({
    async pull(controller) {
      const part = parts.shift();
      if (part instanceof Error) throw part;
      if (part === undefined) controller.close();
      else controller.enqueue(part);
    },
  });
const bytes = (text: string) => new TextEncoder().encode(text);
const KEY = { "Idempotency-Key": "one-purchase-of-this-test" };
const TEXT = { headers: { "Content-Type": "text/plain" } };
const EVENTS = { headers: { "Content-Type": "text/event-stream" } };

const SERVED: Readonly<Record<string, () => Response>> = {
  "a string": () => new Response(bodyOf("text")),
  "strings and bytes": () => new Response(bodyOf("é", bytes("b"), "", Buffer.from("c"))),
  "strings of events": () => new Response(bodyOf("data: 1\n\n", "data: 2\n\n"), EVENTS),
  // Longer than what is withheld.
  "3 MB of a declared length": () =>
    new Response(bodyOf(...Array(3).fill(bytes("x".repeat(1_000_000)))), { headers: { "Content-Length": "3000000" } }),
  "strings of a declared length": () => new Response(bodyOf("te", "xt"), { headers: { "Content-Length": "4" } }),
};

const FAILING: Readonly<Record<string, () => Response>> = {
  "a number": () => new Response(bodyOf(5)),
  "an ArrayBuffer": () => new Response(bodyOf(bytes("a").buffer)),
  "a DataView": () => new Response(bodyOf(new DataView(bytes("a").buffer))),
  "an error": () => new Response(bodyOf(new Error("upstream"))),
  "an error after an empty part": () => new Response(bodyOf(bytes(""), new Error("upstream"))),
  "an error instead of events": () => new Response(bodyOf(new Error("upstream")), EVENTS),
  "an error instead of a long body": () =>
    new Response(bodyOf(new Error("upstream")), { headers: { "Content-Length": "9000000" } }),
};

const MOUNTS: Readonly<Record<string, (provider: Provider, options: object, handle: Fetch) => Fetch>> = {
  fetch: (provider, options, handle) => fetchGate(provider.gate(options as never))(handle),
  "Next.js": (provider, options, handle) => nextGate(provider.gate(options as never))(handle),
  Hono: (provider, options, handle) => {
    const app = new Hono();
    app.get("/*", honoGate(provider.gate(options as never)), async ({ req }) => handle(req.raw));
    return app.fetch as Fetch;
  },
};

const WAYS = {
  "a proof": { settle: "after", isProof: true, replay: undefined },
  "a proof, nothing kept": { settle: "after", isProof: true, replay: false },
  "a payment settled before": { settle: "before", isProof: false, replay: undefined },
  "a payment settled after": { settle: "after", isProof: false, replay: undefined },
} as const;

describe("a fetch-style body that is paid for", () => {
  let facilitator: SmallFacilitator;
  let provider: Provider;
  const servers: Server[] = [];
  const log = console.error;

  beforeEach(async () => {
    console.error = () => undefined;
    facilitator = await startSmallFacilitator();
    facilitator.supported = RESERVING;
  });
  afterEach(async () => {
    console.error = log;
    for (const server of servers.splice(0)) await closeServer(server);
    await provider.close();
    await facilitator.stop();
  });

  const serve = async (fetch: Fetch) => {
    const server = fetchServer(fetch as never);
    servers.push(server);
    return listen(server);
  };
  const settles = () => facilitator.calls.filter(({ path }) => path === "/settle").length;

  for (const [framework, mount] of Object.entries(MOUNTS)) {
    for (const [payment, { settle, isProof, replay }] of Object.entries(WAYS)) {
      const start = async (handle: Fetch) => {
        provider = testProvider(facilitator, { replay });
        return serve(mount(provider, { pricing: ONE_TIME, settle }, handle));
      };
      const payFor = async (url: string) =>
        isProof ? paidHeaders(url) : v1Headers((await quoteOf(url)).accepts[0] as AcceptEntryWire);

      it(`${framework}, ${payment}: arrives whatever parts it has`, async () => {
        const handle: Fetch = ({ url }) =>
          (SERVED[Object.keys(SERVED)[Number(url.split("/").at(-1))] as string] as () => Response)();
        const [plain, gated] = [await serve(handle), await start(handle)];
        for (const [at, name] of Object.keys(SERVED).entries()) {
          const free = await send(`${plain}/${at}`);
          const paid = await send(`${gated}/${at}`, { headers: await payFor(`${gated}/${at}`) });
          expect([paid.status, paid.text], name).to.deep.equal([free.status, free.text]);
          expect(free.status, name).to.equal(200);
          if (name.includes("declared")) {
            expect(paid.headers["content-length"], name).to.equal(free.headers["content-length"]);
          }
        }
      });

      it(`${framework}, ${payment}: passes an upstream's body on that goes on while the payment settles`, async () => {
        const parts = ["first ", "x".repeat(3_000_000), " last"];
        let release = () => {};
        facilitator.holds = (path) => settle === "after" && path === "/settle";
        const upstream = createServer(async (_request, response) => {
          response.writeHead(200, { "Content-Type": "text/plain", "X-Upstream": "yes" });
          for (const part of parts.slice(0, 2)) response.write(part);
          // The gate withholds no more than that, and settles.
          if (settle === "after" && !isProof) await until(async () => settles() > 0);
          response.end(parts[2]);
          release();
        });
        servers.push(upstream);
        const origin = await listen(upstream);
        const gated = await start(async ({ url }) => {
          const answer = await fetch(origin);
          return url.endsWith("/copied") ? new Response(answer.body, answer) : answer;
        });
        for (const path of ["/copied", "/returned"]) {
          const headers = await payFor(`${gated}${path}`);
          facilitator.calls.length = 0;
          facilitator.held = new Promise<void>((resolve) => {
            release = resolve;
          });
          const paid = await send(`${gated}${path}`, { headers });
          expect([paid.status, paid.headers["x-upstream"], paid.text]).to.deep.equal([200, "yes", parts.join("")]);
        }
      });

      it(`${framework}, ${payment}: costs nothing when it fails before its first byte`, async () => {
        let make: () => Response = () => new Response();
        const gated = await start(() => make());
        for (const [at, [name, failing]] of Object.entries(FAILING).entries()) {
          const url = `${gated}/${at}`;
          const headers = await payFor(url);
          const before = settles();
          make = failing;
          await send(url, { headers }).catch(() => undefined);
          if (settle === "after") expect(settles() - before, name).to.equal(0);
          make = () => new Response("served");
          const again = await send(url, { headers });
          expect([again.status, again.text], name).to.deep.equal([200, "served"]);
        }
      });
    }

    for (const replay of [undefined, false] as const) {
      it(`${framework}: ends a HEAD whose handler streams for ever, ${replay === false ? "nothing kept" : "and keeps its head"}`, async () => {
        let open = 0;
        const forever = new Promise<void>(() => undefined);
        const cancel = (): void => {
          open -= 1;
        };
        const handle: Fetch = () => {
          open += 1;
          return new Response(new ReadableStream({ pull: () => forever, cancel }), TEXT);
        };
        provider = testProvider(facilitator, { replay });
        const url = await serve(mount(provider, { pricing: ONE_TIME, settle: "before" }, handle));
        const headers = { ...(await v1Headers((await quoteOf(url)).accepts[0] as AcceptEntryWire)), ...KEY };
        const head = await send(url, { method: "HEAD", headers });
        expect([head.status, head.headers["content-type"], open]).to.deep.equal([200, "text/plain", 0]);
        const again = await send(url, { method: "HEAD", headers });
        expect(again.status).to.equal(replay === false ? 402 : 200);
      });
    }
  }
});
