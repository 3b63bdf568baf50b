/** HA6: a stored answer opens only for its purchase, and is stored before the response's last byte is sent. */

import { once } from "node:events";
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { createServer, request as httpRequest } from "node:http";
import http2 from "node:http2";
import { tmpdir } from "node:os";
import path from "node:path";
import { text } from "node:stream/consumers";
import { expect } from "chai";
import { type ClaimStore, ConfigError, fileClaims, gated, memoryClaims, type Provider } from "turnpike/gate";
import { optionsFromEnvironment } from "../../../../sdk/src/gate/core/options";
import { recordResponse } from "../../../../sdk/src/gate/replay/fetch-recorder";
import { seal, unseal } from "../../../../sdk/src/gate/replay/keeper";
import {
  closeServer,
  headerOf,
  listen,
  NOW,
  ONE_TIME,
  paidHeaders,
  proofOf,
  quoteOf,
  type SmallFacilitator,
  send,
  startSmallFacilitator,
  testProvider,
} from "../../../support/gate";
import { until } from "../../../support/subscriptions";
import { idOf } from "../support/claim-store";
import { ADAPTERS, type AdapterServer, PREFIX } from "../support/frameworks";
import { v1Headers, v2Headers } from "../support/standard";

const KEY = { "Idempotency-Key": "one-purchase-of-this-test" };

describe("stored answers", () => {
  let facilitator: SmallFacilitator;
  let folder: string;
  const closers: (() => Promise<unknown>)[] = [];

  beforeEach(async () => {
    facilitator = await startSmallFacilitator();
    folder = mkdtempSync(path.join(tmpdir(), "turnpike-replay-"));
  });
  afterEach(async () => {
    for (const close of closers.splice(0).reverse()) await close();
    await facilitator.stop();
    rmSync(folder, { recursive: true, force: true });
  });

  interface Opened {
    readonly server: AdapterServer;
    readonly url: string;
    readonly served: () => number;
  }

  async function open(claims: ClaimStore, { name = "node:http", gate = {}, more = {} } = {}): Promise<Opened> {
    const provider: Provider = testProvider(facilitator, {
      claims,
      replay: {},
      publicUrl: "https://api.example",
      ...more,
    });
    let served = 0;
    const server = await (ADAPTERS[name] as (typeof ADAPTERS)[string])(provider, [
      {
        path: "/paid",
        gate: { pricing: ONE_TIME, ...gate } as never,
        handle: () => {
          served++;
          return { headers: { "Content-Type": "text/plain" }, body: "the content" };
        },
      },
    ]);
    closers.push(
      () => provider.close(),
      () => server.stop(),
    );
    return { server, url: `${server.url}${PREFIX}/paid`, served: () => served };
  }

  const file = (): ClaimStore => {
    const store = fileClaims({ folder });
    closers.push(() => store.close());
    return store;
  };

  const filesIn = (place: string): string[] =>
    readdirSync(place, { withFileTypes: true }).flatMap((entry) => {
      const name = path.join(place, entry.name);
      return entry.isDirectory() ? filesIn(name) : [readFileSync(name, "latin1")];
    });

  for (const name of Object.keys(ADAPTERS)) {
    it(`HA6 are written before ${name} sends the response, and another gate of the store returns them`, async () => {
      const inner = file();
      let written = false;
      // The process dies between writing and responding: this gate does nothing afterwards.
      const dying: ClaimStore = {
        ...inner,
        async apply(id, act, answer) {
          const isHeld = await inner.apply(id, act, answer);
          if (act.act !== "use") return isHeld;
          written = true;
          return new Promise<never>(() => undefined);
        },
      };
      const first = await open(dying, { name });
      const headers = await paidHeaders(first.url);
      let arrived = "";
      const cut = httpRequest(first.url, { headers, agent: false }, (response) => {
        response.on("data", (chunk: Buffer) => {
          arrived += chunk.toString();
        });
        response.on("error", () => undefined);
      });
      cut.on("error", () => undefined).end();
      await until(async () => written);
      cut.destroy();
      expect(arrived).to.equal("");
      const second = await open(file(), { name });
      const again = await send(second.url, { headers });
      expect([again.text, again.headers["idempotency-replayed"]]).to.deep.equal(["the content", "true"]);
      expect([first.served(), second.served()]).to.deep.equal([1, 0]);
    });
  }

  it("HA6 are written before the last byte of a declared length, and delay no earlier byte", async () => {
    const inner = memoryClaims({ warn: false });
    let writeIt: () => void = () => undefined;
    const isWritable = new Promise<void>((resolve) => {
      writeIt = resolve;
    });
    let uses = 0;
    const slow: ClaimStore = {
      ...inner,
      async apply(id, act, answer) {
        if (act.act === "use") {
          uses++;
          await isWritable;
        }
        return inner.apply(id, act, answer);
      },
    };
    const provider = testProvider(facilitator, { claims: slow, replay: {} });
    const gate = provider.paymentGate({ pricing: ONE_TIME });
    const http = createServer(
      gated(gate, (_request, response) => {
        response.writeHead(200, { "Content-Length": 7 });
        response.write("one ");
        response.write("two");
        response.end();
      }),
    );
    closers.push(
      () => provider.close(),
      () => closeServer(http),
    );
    const url = `${await listen(http)}/paid`;
    const headers = await paidHeaders(url);
    let arrived = "";
    const done = new Promise<void>((resolve, reject) => {
      httpRequest(url, { headers, agent: false }, (response) => {
        response.on("data", (chunk: Buffer) => {
          arrived += chunk.toString();
        });
        response.on("end", resolve).on("error", reject);
      })
        .on("error", reject)
        .end();
    });
    await until(async () => uses === 1 && arrived !== "");
    expect(arrived).to.equal("one ");
    writeIt();
    await done;
    expect(arrived).to.equal("one two");
    expect((await send(url, { headers })).text).to.equal("one two");
  });

  it("HA6 are returned over HTTP/2 too, also to a client that disconnected while the handler ran", async () => {
    const provider = testProvider(facilitator, { publicUrl: "https://api.example", replay: {} });
    const gate = provider.paymentGate({ pricing: ONE_TIME });
    let goOn: () => void = () => undefined;
    let served = 0;
    const isFree = new Promise<void>((resolve) => {
      goOn = resolve;
    });
    const handler = gated(gate, async (_request, response) => {
      served++;
      await isFree;
      response.end("the content");
    });
    const server = http2.createServer((request, response) => handler(request as never, response as never));
    const session = http2.connect(await listen(server as never));
    closers.push(
      () => provider.close(),
      () => new Promise((resolve) => server.close(resolve)),
      async () => session.destroy(),
    );
    const ask = (headers: Record<string, string>) => session.request({ ":path": "/paid", ...headers });
    const [entry] = JSON.parse(await text(ask({}))).accepts;
    const paid = headerOf(proofOf(entry));
    const leaving = ask(paid);
    leaving.on("error", () => undefined);
    await until(async () => served === 1);
    leaving.close(http2.constants.NGHTTP2_CANCEL);
    await once(leaving, "close");
    goOn();
    await until(async () => (await text(ask(paid))) === "the content");
    expect(served).to.equal(1);
  });

  it("HA6 cannot be read from the store, nor with the client's key by another provider", async () => {
    const gate = await open(file());
    const [entry] = (await quoteOf(gate.url)).accepts;
    const headers = { ...(await v1Headers(entry as never)), ...KEY };
    expect((await send(gate.url, { headers })).text).to.equal("the content");
    const stored = filesIn(folder).join("\n");
    expect(stored).to.match(/1\.[A-Za-z0-9_-]+\.[A-Za-z0-9+/]{40}/);
    const secrets = ["the content", "text/plain", KEY["Idempotency-Key"]];
    for (const plain of secrets) {
      expect(stored).to.not.include(plain);
      expect(stored).to.not.include(Buffer.from(plain).toString("base64").slice(0, -4));
    }
    const stranger = await open(file(), { more: { secret: "a secret of another provider, long enough for one" } });
    expect((await send(stranger.url, { headers })).json.error).to.equal("PaymentAlreadyUsed");
    expect((await send(gate.url, { headers })).text).to.equal("the content");
  });

  it("HA6 contain each part once, also when the client disconnects while one is awaited", async () => {
    let send: (text: string) => void = () => undefined;
    let close: () => void = () => undefined;
    const source = new ReadableStream<Uint8Array>({
      start(controller) {
        send = (part) => controller.enqueue(Buffer.from(part));
        close = () => controller.close();
      },
    });
    let kept: string | undefined;
    const settled = new Promise<void>((resolve) => {
      const settle = async (_how: string, answer?: { readonly body: Uint8Array }) => {
        kept = answer && Buffer.from(answer.body).toString();
        resolve();
      };
      void recordResponse(new Response(source), { maxBytes: 100, isHead: false, settle }).then(async ({ body }) => {
        const reader = body?.getReader();
        const reading = reader?.read();
        await new Promise(setImmediate);
        const leaving = reader?.cancel();
        send("one ");
        send("two");
        close();
        await Promise.all([reading, leaving]);
      });
    });
    await settled;
    expect(kept).to.equal("one two");
  });

  it("HA6 open only with the values that sealed them", () => {
    const gateKey = { id: "k1", secret: new Uint8Array(32).fill(1) };
    const purchased = {
      secret: ["key", "a key of a purchase"],
      paymentId: idOf("a"),
      method: "GET",
      resource: "https://api.example/paid",
      bodyHash: undefined,
    } as const;
    const text = seal(Buffer.from("the content"), purchased, gateKey);
    expect(Buffer.from(unseal(text, purchased, [gateKey]) ?? []).toString()).to.equal("the content");
    const others = [
      { ...purchased, secret: ["key", "another key"] as const },
      { ...purchased, secret: ["proof", "a key of a purchase"] as const },
      { ...purchased, paymentId: idOf("b") },
      { ...purchased, method: "HEAD" },
      { ...purchased, resource: "https://api.example/paid?" },
      { ...purchased, bodyHash: "00" },
    ];
    for (const other of others) expect(unseal(text, other, [gateKey])).to.equal(undefined);
    expect(unseal(text, purchased, [{ ...gateKey, secret: new Uint8Array(32).fill(2) }])).to.equal(undefined);
    expect(unseal(text, purchased, [{ ...gateKey, id: "k2" }])).to.equal(undefined);
    for (const torn of ["", text.slice(0, -8), `${text.slice(0, -8)}AAAAAAAA`, text.replace("1.", "2."), "1.k1.AAAA"]) {
      expect(unseal(torn, purchased, [gateKey]), torn).to.equal(undefined);
    }
  });

  it("HA6 survive a rotation of the gate's secret", async () => {
    const [old, fresh] = ["the first secret of this test, long enough", "the second secret of this test, long enough"];
    const before = await open(file(), { more: { secret: old } });
    const headers = await paidHeaders(before.url);
    expect((await send(before.url, { headers })).text).to.equal("the content");
    const after = await open(file(), { more: { secret: [fresh, old] } });
    expect((await send(after.url, { headers })).headers["idempotency-replayed"]).to.equal("true");
  });

  it("HA6 are bound to the purchased body, where the gate binds bodies", async () => {
    const gate = await open(memoryClaims({ warn: false }), { name: "fetch", gate: { bind: "body" } });
    const post = { method: "POST", headers: { "Content-Type": "text/plain", ...KEY } };
    const [entry] = (await quoteOf(gate.url, { ...post, body: "one" })).accepts;
    const paid = { ...post, headers: { ...post.headers, ...(await v1Headers(entry as never)) } };
    expect((await send(gate.url, { ...paid, body: "one" })).text).to.equal("the content");
    expect((await send(gate.url, { ...paid, body: "one" })).headers["idempotency-replayed"]).to.equal("true");
    expect((await send(gate.url, { ...paid, body: "two" })).json.error).to.equal("PaymentAlreadyUsed");
    expect(gate.served()).to.equal(1);
  });

  it("HA6 are returned, or reported as used, also after the payment's own window", async () => {
    let nowSec = NOW;
    let isWelcome = true;
    const more = { clock: { nowSec: () => nowSec }, publicUrl: undefined };
    const gate = await open(memoryClaims({ warn: false }), { more, gate: { authorize: () => isWelcome } });
    const [entry] = (await quoteOf(gate.url)).accepts;
    const payments = [await v1Headers(entry as never), await v2Headers(gate.url)];
    const unpaid = await v1Headers(entry as never);
    for (const payment of payments) {
      expect((await send(gate.url, { headers: { ...payment, ...KEY } })).text).to.equal("the content");
    }
    for (const later of [400, 700]) {
      nowSec = NOW + later;
      for (const payment of payments) {
        expect((await send(gate.url, { headers: { ...payment, ...KEY } })).text).to.equal("the content");
        expect((await send(gate.url, { headers: payment })).json.error).to.equal("PaymentAlreadyUsed");
      }
      expect((await send(gate.url, { headers: { ...unpaid, ...KEY } })).json.reason).to.equal("window");
    }
    isWelcome = false;
    for (const payment of payments)
      expect((await send(gate.url, { headers: { ...payment, ...KEY } })).status).to.equal(403);
    expect(gate.served()).to.equal(2);
  });

  it("are refused at the start in a store that lacks a part of what payments need", () => {
    for (const name of ["served", "facts", "note", "first", "shelve", "shelved"] as const) {
      const { [name]: _missing, ...store } = memoryClaims({ warn: false });
      expect(() => testProvider(facilitator, { claims: store as ClaimStore }), name).to.throw(
        ...[ConfigError, `a store without ${name}()`],
      );
    }
  });

  it("HA6 are limited in size and age by the settings, or disabled", async () => {
    const small = await open(memoryClaims({ warn: false }), { more: { replay: { maxBytes: 10 } } });
    const headers = await paidHeaders(small.url);
    expect((await send(small.url, { headers })).text).to.equal("the content");
    expect((await send(small.url, { headers })).json.error).to.equal("PaymentAlreadyUsed");
    for (const replay of [{ maxBytes: 0 }, { maxBytes: 2 ** 20 + 1 }, { keepSec: 0.5 }, { keepSec: 86_401 }]) {
      expect(() => testProvider(facilitator, { replay })).to.throw(ConfigError, /replay\.(maxBytes|keepSec)/);
    }
    const read = (env: Record<string, string>) => optionsFromEnvironment(env).replay;
    expect(read({})).to.equal(undefined);
    expect(read({ TURNPIKE_REPLAY_SEC: "0" })).to.equal(false);
    expect(read({ TURNPIKE_REPLAY_SEC: "60", TURNPIKE_REPLAY_BYTES: "1024" })).to.deep.equal({
      keepSec: 60,
      maxBytes: 1_024,
    });
    const replay = read({ TURNPIKE_REPLAY_BYTES: "many" }) as object;
    expect(() => testProvider(facilitator, { replay })).to.throw(ConfigError, /replay\.maxBytes is NaN/);
  });
});
