import { serve } from "@hono/node-server";
import { expect } from "chai";
import { Hono } from "hono";
import { TurnpikeError } from "turnpike/protocol";
import { liveEvents } from "../../../facilitator/src/http/live";
import type { RequestScope } from "../../../facilitator/src/http/request";
import type { ApiServices } from "../../../facilitator/src/http/services";
import { until } from "../../support/facilitator";

const STREAMS = 20;

describe("Facilitator: live events", () => {
  it("B27 end when the key is revoked or expires, and send nothing more", async () => {
    let isRevoked = false;
    let wake = (): void => undefined;
    const woken = new Promise<void>((resolve) => {
      wake = resolve;
    });
    const pages = [["before"], ["after"]];
    const services = {
      providers: {
        async admit() {
          if (isRevoked) throw new TurnpikeError("InvalidApiKey");
          return { provider: "0x1", keyId: "k" };
        },
        newestEvents: async () => 0,
        events: async () => ({ events: (pages.shift() ?? []).map((type) => ({ type, subject: "0x2" })), next: "1" }),
      },
      keyLimit: { take: () => undefined },
      happened: () => woken,
      untilDraining: <T>(work: Promise<T>) => work,
    } as unknown as ApiServices;
    const app = new Hono<RequestScope>();
    app.get("/events/live", liveEvents(services));
    const stream = await app.request("/events/live");
    const reader = (stream.body as ReadableStream<Uint8Array>).getReader();
    let sent = "";
    const read = async (): Promise<boolean> => {
      const { done, value } = await reader.read();
      if (value) sent += Buffer.from(value).toString();
      return done;
    };
    while (!sent.includes("before")) await read();
    isRevoked = true;
    wake();
    while (!(await read()));
    expect(sent).not.to.include("after");
  });

  it("do not count a stream that never began: a key may try again for ever", async () => {
    let isDown = true;
    let open = 0;
    const services = {
      providers: {
        admit: async () => ({ provider: "0x1", keyId: "k" }),
        async newestEvents() {
          if (isDown) throw new TurnpikeError("Unavailable");
          return 0;
        },
        events: async () => {
          open += 1;
          return { events: [], next: "0" };
        },
      },
      keyLimit: { take: () => undefined },
      happened: () => new Promise(() => undefined),
      untilDraining: <T>(work: Promise<T>) => work,
    } as unknown as ApiServices;
    const app = new Hono<RequestScope>();
    app.use(async (context, next) => {
      context.set("requestId", "r");
      await next();
    });
    app.get("/events/live", liveEvents(services));
    const server = serve({ fetch: app.fetch, port: 0, hostname: "127.0.0.1" });
    await until(async () => server.listening, "the server listens");
    const { port } = server.address() as { port: number };
    const stop = new AbortController();
    const ask = () => fetch(`http://127.0.0.1:${port}/events/live`, { signal: stop.signal });
    try {
      for (let time = 0; time < 2 * STREAMS; time++) expect((await ask()).status).to.equal(503);
      isDown = false;
      for (let time = 0; time < STREAMS; time++) expect((await ask()).status).to.equal(200);
      await until(async () => open === STREAMS, "all streams are open");
      expect((await ask()).status).to.equal(429);
    } finally {
      stop.abort();
      await new Promise((resolve) => {
        server.close(resolve);
        if ("closeAllConnections" in server) server.closeAllConnections();
      });
    }
  });
});
