/** HA20: the status of the head that left decides what an answer costs, whatever its handler sets afterwards. */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import http2 from "node:http2";
import { text } from "node:stream/consumers";
import { expect } from "chai";
import { gated, type Provider } from "turnpike/gate";
import type { AcceptEntryWire, PaymentRequiredWire } from "turnpike/protocol";
import { createTestProvider } from "turnpike/testing";
import {
  closeServer,
  headerOf,
  listen,
  ONE_TIME,
  proofOf,
  RESERVING,
  type SmallFacilitator,
  send,
  startSmallFacilitator,
  testProvider,
} from "../../../support/gate";
import { v1Headers } from "../support/standard";

type Handler = (response: ServerResponse) => unknown;

const turn = () => new Promise<void>((resolve) => setImmediate(resolve));

const CASES: Readonly<
  Record<string, { readonly status: number; readonly isFree?: boolean; readonly handle: Handler }>
> = {
  "200, then sets 500": {
    status: 200,
    handle: (response) => {
      response.write("the ");
      response.statusCode = 500;
      response.end("content");
    },
  },
  "200, then sets 304": {
    status: 200,
    handle: async (response) => {
      response.write("the ");
      await turn();
      response.statusCode = 304;
      response.end("content");
    },
  },
  "200 without a body, then sets 500": {
    status: 200,
    handle: (response) => {
      response.writeHead(200);
      response.statusCode = 500;
      response.end("content");
    },
  },
  "200 at once, then sets 500": {
    status: 200,
    handle: async (response) => {
      response.flushHeaders();
      await turn();
      response.statusCode = 500;
      response.end("content");
    },
  },
  "500, then sets 200": {
    status: 500,
    isFree: true,
    handle: (response) => {
      response.writeHead(500);
      response.statusCode = 200;
      response.end("an error");
    },
  },
  "500 and a part, then sets 200": {
    status: 500,
    isFree: true,
    handle: async (response) => {
      response.statusCode = 500;
      response.write("an ");
      await turn();
      response.statusCode = 200;
      response.end("error");
    },
  },
  "304, then sets 200": {
    status: 304,
    isFree: true,
    handle: (response) => {
      response.writeHead(304);
      response.statusCode = 200;
      response.end();
    },
  },
};

const WAYS = {
  "a proof": { settle: "after", isProof: true, replay: undefined },
  "a proof, nothing kept": { settle: "after", isProof: true, replay: false },
  "a payment settled before": { settle: "before", isProof: false, replay: undefined },
  "a payment settled after": { settle: "after", isProof: false, replay: undefined },
  "a payment settled after, nothing kept": { settle: "after", isProof: false, replay: false },
} as const;

interface Got {
  readonly status: number;
  readonly text: string;
}

type Ask = (path: string, headers?: Readonly<Record<string, string>>) => Promise<Got>;

interface Served {
  readonly ask: Ask;
  readonly close: () => Promise<void> | void;
}

type Listener = (request: IncomingMessage, response: ServerResponse) => void;

const SERVERS: Readonly<Record<string, (listener: Listener) => Promise<Served>>> = {
  "node:http": async (listener) => {
    const server = createServer(listener);
    const base = await listen(server);
    return { ask: (path, headers = {}) => send(base + path, { headers }), close: () => closeServer(server) };
  },
  "HTTP/2": async (listener) => {
    const server = http2.createServer(listener as never);
    const session = http2.connect(await listen(server as unknown as Server));
    const ask: Ask = async (path, headers = {}) => {
      const lower = Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]);
      const stream = session.request({ ":path": path, ...Object.fromEntries(lower) });
      let status = 0;
      stream.on("response", (head) => {
        status = Number(head[":status"]);
      });
      return { text: await text(stream), status };
    };
    const close = () => {
      session.destroy();
      server.close();
    };
    return { ask, close };
  },
};

describe("a status that is set after the head", () => {
  let facilitator: SmallFacilitator;
  let provider: Provider;
  let served: Served;
  const log = console.error;

  beforeEach(async () => {
    console.error = () => undefined;
    facilitator = await startSmallFacilitator();
    facilitator.supported = RESERVING;
  });
  afterEach(async () => {
    console.error = log;
    await served.close();
    await provider.close();
    await facilitator.stop();
  });

  const settles = () => facilitator.calls.filter(({ path }) => path === "/settle").length;
  const payFor = async (path: string, isProof: boolean) => {
    const { accepts } = JSON.parse((await served.ask(path)).text) as PaymentRequiredWire;
    return isProof ? headerOf(proofOf(accepts[0] as never)) : v1Headers(accepts[0] as AcceptEntryWire);
  };
  const start = async (make: (typeof SERVERS)[string], options: object, replay: false | undefined, handle: Handler) => {
    provider = testProvider(facilitator, { replay, publicUrl: "https://api.example" });
    const gate = provider.paymentGate({ pricing: ONE_TIME, ...options } as never);
    served = await make(gated(gate, (_request, response) => handle(response)));
  };

  for (const [protocol, make] of Object.entries(SERVERS)) {
    for (const [payment, { settle, isProof, replay }] of Object.entries(WAYS)) {
      it(`${protocol}, ${payment}: costs what the one before costs`, async () => {
        let runs = 0;
        let handle: Handler = () => undefined;
        await start(make, { settle }, replay, (response) => {
          runs++;
          return handle(response);
        });
        for (const [at, [name, each]] of Object.entries(CASES).entries()) {
          const headers = await payFor(`/${at}`, isProof);
          const before = settles();
          runs = 0;
          handle = each.handle;
          expect((await served.ask(`/${at}`, headers)).status, name).to.equal(each.status);
          if (settle === "after" && !isProof) expect(settles() - before, name).to.equal(each.isFree ? 0 : 1);
          await served.ask(`/${at}`, headers);
          expect(runs, name).to.equal(each.isFree ? 2 : 1);
        }
      });
    }

    for (const [payment, { settle, isProof, replay }] of Object.entries(WAYS)) {
      it(`${protocol}, ${payment}: costs nothing when the answer is cut before its first byte`, async () => {
        let runs = 0;
        await start(make, { settle }, replay, (response) => {
          response.on("error", () => undefined);
          if (runs++ > 0) return response.end("served");
          response.destroy();
          response.write("the ");
          return response.end("content");
        });
        const headers = await payFor("/cut", isProof);
        await served.ask("/cut", headers).catch(() => undefined);
        let again = await served.ask("/cut", headers);
        // It is released after the client has seen its end.
        for (let asked = 0; again.status === 409 && asked < 50; asked++) again = await served.ask("/cut", headers);
        expect([again.text, runs]).to.deep.equal(["served", 2]);
      });

      it(`${protocol}, ${payment}: no answer looks whole whose handler throws after a part`, async () => {
        await start(make, { settle }, replay, async (response) => {
          response.write("the ");
          await turn();
          throw new TypeError("midway");
        });
        const headers = await payFor("/cut", isProof);
        const got = await served.ask("/cut", headers).catch(() => undefined);
        expect(got).to.equal(undefined);
      });
    }

    for (const status of [204, 205]) {
      it(`${protocol}: a kept ${status} is collected, whatever body its handler passed`, async () => {
        let runs = 0;
        await start(make, { settle: "before" }, undefined, (response) => {
          runs++;
          response.statusCode = status;
          response.end("content");
        });
        const headers = await payFor("/empty", true);
        const first = await served.ask("/empty", headers);
        const again = await served.ask("/empty", headers);
        expect([first.status, again.status, again.text, runs]).to.deep.equal([status, status, "", 1]);
      });
    }

    it(`${protocol}: is no other question to chargeFor`, async () => {
      const asked: number[] = [];
      const chargeFor = (status: number) => asked.push(status) === 1;
      await start(make, { settle: "after", chargeFor }, undefined, (response) => {
        response.write("the ");
        response.statusCode = 204;
        response.end("content");
      });
      await served.ask("/one", await payFor("/one", false));
      expect([asked, settles()]).to.deep.equal([[200], 1]);
    });
  }

  it("costs what was charged, of a maximum", async () => {
    const test = createTestProvider();
    provider = test.provider;
    const gate = provider.paymentGate({ pricing: [{ type: "upto", max: "$0.50" }] });
    served = await (SERVERS["node:http"] as (typeof SERVERS)[string])(
      gated(gate, (request, response) => {
        (request.payment as unknown as { charge: (price: string) => void }).charge("$0.03");
        response.write("the ");
        response.statusCode = 500;
        response.end("content");
      }),
    );
    const required = (await (served.ask("/") as ReturnType<typeof send>)).headers["payment-required"];
    const paid = await (served.ask("/", test.payUpto(String(required))) as ReturnType<typeof send>);
    const receipt = JSON.parse(Buffer.from(String(paid.headers["payment-response"]), "base64").toString());
    expect([paid.status, receipt.amount]).to.deep.equal([200, "30000"]);
  });
});
