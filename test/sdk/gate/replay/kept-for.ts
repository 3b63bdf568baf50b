/** HA6: a kept answer belongs to what was asked: its range and coding are served again, made exactly, or refused. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { brotliCompressSync, deflateRawSync, deflateSync, gzipSync } from "node:zlib";
import { expect } from "chai";
import { type ClaimStore, fileClaims, memoryClaims, type Provider } from "turnpike/gate";
import type { AcceptEntryWire } from "turnpike/protocol";
import { fitAnswer } from "../../../../sdk/src/gate/replay/fit";
import { findServed, seal } from "../../../../sdk/src/gate/replay/keeper";
import {
  type Answer,
  ONE_TIME,
  paidHeaders,
  quoteOf,
  RESERVING,
  type SmallFacilitator,
  send,
  startSmallFacilitator,
  testProvider,
} from "../../../support/gate";
import { ADAPTERS, type AdapterServer, type Asked, type Handled, PREFIX } from "../support/frameworks";
import { v1Headers, v2Headers } from "../support/standard";

const CONTENT = "the whole content of this answer";
const TAGS = { ETag: '"one"', "Last-Modified": "Wed, 01 Jan 2025 00:00:00 GMT" };
const KEY = { "Idempotency-Key": "one-purchase-of-this-test" };

const PAYMENTS: Readonly<Record<string, (url: string) => Promise<Record<string, string>>>> = {
  "a proof": async (url) => paidHeaders(url),
  "version 1": async (url) => ({ ...(await v1Headers((await quoteOf(url)).accepts[0] as AcceptEntryWire)), ...KEY }),
  "version 2": async (url) => ({ ...(await v2Headers(url)), ...KEY }),
};

/** As a file server answers. */
function ranged({ header }: Asked): Handled {
  const [, from, to] = /^bytes=(\d+)-(\d+)$/.exec(header("range") ?? "") ?? [];
  if (from === undefined) return { headers: TAGS, body: CONTENT };
  const body = CONTENT.slice(Number(from), Number(to) + 1);
  return { status: 206, headers: { ...TAGS, "Content-Range": `bytes ${from}-${to}/${CONTENT.length}` }, body };
}

const CODERS: Readonly<Record<string, (bytes: string) => Uint8Array>> = {
  gzip: gzipSync,
  br: brotliCompressSync,
  deflate: deflateSync,
};

/** As a compressing middleware answers. */
function coded({ header }: Asked): Handled {
  const coding = Object.keys(CODERS).find((each) => header("accept-encoding")?.includes(each));
  const headers = { ...TAGS, Vary: "Accept-Encoding", "Content-Type": "text/plain" };
  if (coding === undefined) return { headers, body: CONTENT };
  return { headers: { ...headers, "Content-Encoding": coding }, body: new Uint8Array(CODERS[coding]?.(CONTENT) ?? []) };
}

/** 20 MB of nothing. */
const BOMB = new Uint8Array(gzipSync(new Uint8Array(20_000_000)));

for (const [name, start] of Object.entries(ADAPTERS)) {
  describe(`kept answers and what was asked, through ${name}`, () => {
    let facilitator: SmallFacilitator;
    let provider: Provider;
    let server: AdapterServer;
    let served: number;
    let handle: (asked: Asked) => Handled;
    let folder: string;

    before(async () => {
      folder = mkdtempSync(path.join(tmpdir(), "turnpike-kept-for-"));
      facilitator = await startSmallFacilitator();
      facilitator.supported = RESERVING;
      const isOdd = Object.keys(ADAPTERS).indexOf(name) % 2 === 1;
      const claims: ClaimStore = isOdd ? fileClaims({ folder }) : memoryClaims({ warn: false });
      provider = testProvider(facilitator, { replay: {}, claims });
      const run = (asked: Asked) => {
        served++;
        return handle(asked);
      };
      server = await start(provider, [
        { path: "/after", gate: { pricing: ONE_TIME, settle: "after" } as never, handle: run },
        { path: "/before", gate: { pricing: ONE_TIME, settle: "before" } as never, handle: run },
      ]);
      await provider.ready();
    });
    beforeEach(() => {
      served = 0;
      handle = ranged;
      facilitator.calls.length = 0;
    });
    after(async () => {
      await server.stop();
      await provider.close();
      await facilitator.stop();
      rmSync(folder, { recursive: true, force: true });
    });

    const at = (route: string) => `${server.url}${PREFIX}/${route}`;
    const shown = ({ status, text, headers }: Answer) => [status, text, headers["content-range"]];
    const expectRefused = (answer: Answer, why: RegExp) => {
      expect([answer.status, answer.json?.error], answer.text).to.deep.equal([400, "InvalidRequest"]);
      expect(answer.json.message).to.match(why);
      expect(answer.text).not.to.include("whole content");
    };

    for (const route of ["after", "before"]) {
      for (const [payment, pay] of Object.entries(PAYMENTS)) {
        it(`HA6 cuts a range from the whole answer that ${payment} bought (settle: ${route})`, async () => {
          const url = at(route);
          const headers = await pay(url);
          const ask = async (more: object) => shown(await send(url, { headers: { ...headers, ...more } }));
          const whole = [200, CONTENT, undefined];
          const size = CONTENT.length;
          expect(await ask({})).to.deep.equal(whole);
          expect(await ask({ Range: "bytes=4-8" })).to.deep.equal([206, "whole", `bytes 4-8/${size}`]);
          expect(await ask({ Range: "bytes=-6" })).to.deep.equal([
            206,
            "answer",
            `bytes ${size - 6}-${size - 1}/${size}`,
          ]);
          expect(await ask({ Range: `bytes=${size - 6}-999` })).to.deep.include("answer");
          expect(await ask({ Range: `bytes=${size}-` })).to.deep.equal([416, "", `bytes */${size}`]);
          for (const range of ["bytes=0-3,5-8", "bytes=8-4", "lines=1-2", "nonsense"]) {
            expect(await ask({ Range: range }), range).to.deep.equal(whole);
          }
          const part = [206, "whole", `bytes 4-8/${size}`];
          for (const [condition, expected] of [
            ['"one"', part],
            [TAGS["Last-Modified"], part],
            ['W/"one"', whole],
            ['"two"', whole],
            ["Thu, 02 Jan 2025 00:00:00 GMT", whole],
          ] as const) {
            expect(await ask({ Range: "bytes=4-8", "If-Range": condition }), condition).to.deep.equal(expected);
          }
          expect(served).to.equal(1);
        });
      }

      it(`HA6 gives a kept part to its own range alone, and says why not to another (settle: ${route})`, async () => {
        const url = at(route);
        for (const pay of Object.values(PAYMENTS)) {
          const headers = await pay(url);
          const ask = (more: object) => send(url, { headers: { ...headers, ...more } });
          const part = [206, "whole", `bytes 4-8/${CONTENT.length}`];
          expect(shown(await ask({ Range: "bytes=4-8" }))).to.deep.equal(part);
          for (const more of [{}, { Range: "bytes=4-9" }, { Range: "bytes=4-8", "If-Range": '"two"' }]) {
            expectRefused(await ask(more), /bytes 4-8.*repeat.*Range: bytes=4-8/i);
          }
          expect(shown(await ask({ Range: "bytes=4-8" })), "still kept").to.deep.equal(part);
          expect(shown(await ask({ Range: "bytes=4-8", "If-Range": '"one"' }))).to.deep.equal(part);
        }
        const all = `bytes=0-${CONTENT.length - 1}`;
        const headers = await paidHeaders(url);
        expect((await send(url, { headers: { ...headers, Range: all } })).status).to.equal(206);
        expect(shown(await send(url, { headers })), "every byte").to.deep.equal([200, CONTENT, undefined]);
      });

      it(`HA6 decodes for a client that refuses the kept coding (settle: ${route})`, async () => {
        handle = coded;
        const url = at(route);
        for (const coding of Object.keys(CODERS)) {
          const headers = await paidHeaders(url);
          const ask = (accepted?: string) =>
            send(url, { headers: { ...headers, ...(accepted === undefined ? {} : { "Accept-Encoding": accepted }) } });
          const first = await ask(coding);
          expect(first.headers["content-encoding"]).to.equal(coding);
          for (const accepted of [undefined, "identity", `${coding};q=0`, "*;q=0, identity", "zstd"]) {
            const answer = await ask(accepted);
            expect([answer.status, answer.text], accepted).to.deep.equal([200, CONTENT]);
            expect(answer.headers["content-encoding"], accepted).to.equal(undefined);
            expect(answer.headers.etag, "the same content, not the same bytes").to.equal('W/"one"');
          }
          for (const accepted of [coding, `zstd, ${coding.toUpperCase()};q=0.5`, "*"]) {
            const again = await ask(accepted);
            expect([again.headers["content-encoding"], again.text], accepted).to.deep.equal([coding, first.text]);
          }
        }
        const headers = await paidHeaders(url);
        expect((await send(url, { headers })).text).to.equal(CONTENT);
        const plain = await send(url, { headers: { ...headers, "Accept-Encoding": "gzip" } });
        expect([plain.text, plain.headers["content-encoding"], plain.headers.etag]).to.deep.equal([
          ...[CONTENT, undefined, '"one"'],
        ]);
        expect(served).to.equal(Object.keys(CODERS).length + 1);
      });

      it(`HA6 says why where it cannot decode, exactly and within bounds (settle: ${route})`, async () => {
        const url = at(route);
        const raw = new Uint8Array(deflateRawSync(CONTENT));
        for (const [coding, body] of [
          ["custom", new Uint8Array([1, 2, 3])],
          ["gzip", new Uint8Array([1, 2, 3])],
          ["gzip", raw],
          ["gzip", BOMB],
          ["gzip, custom", raw],
        ] as const) {
          handle = () => ({ headers: { "Content-Encoding": coding }, body });
          const headers = { ...(await paidHeaders(url)), "Accept-Encoding": coding };
          expect((await send(url, { headers })).status).to.equal(200);
          const refused = await send(url, { headers: { ...headers, "Accept-Encoding": "identity" } });
          expectRefused(refused, /coded as .*repeat.*Accept-Encoding/i);
          expect((await send(url, { headers })).status, "still kept").to.equal(200);
        }
      });

      it(`HA6 refuses no kept answer for its language, its type or what was seen (settle: ${route})`, async () => {
        const url = at(route);
        const headers = await paidHeaders(url);
        expect((await send(url, { headers: { ...headers, Accept: "text/plain" } })).status).to.equal(200);
        const more = { Accept: "image/png", "Accept-Language": "fr", "If-None-Match": "*", "If-Modified-Since": "now" };
        expect(shown(await send(url, { headers: { ...headers, ...more } }))).to.deep.equal([200, CONTENT, undefined]);
      });

      it(`HA6 answers no HEAD with a kept GET, nor the reverse (settle: ${route})`, async () => {
        handle = () => ({ headers: { ...TAGS, "Content-Length": String(CONTENT.length) }, body: CONTENT });
        const url = at(route);
        const v1 = async () => ({
          ...(await v1Headers((await quoteOf(url)).accepts[0] as AcceptEntryWire)),
          ...KEY,
        });
        for (const [first, other] of [
          ["GET", "HEAD"],
          ["HEAD", "GET"],
        ] as const) {
          const headers = await v1();
          const bought = await send(url, { method: first, headers });
          expect([bought.status, bought.text]).to.deep.equal([200, first === "GET" ? CONTENT : ""]);
          const crossed = await send(url, { method: other, headers });
          expect(crossed.status).to.equal(402);
          expect(crossed.text).not.to.include(CONTENT);
          const again = await send(url, { method: first, headers });
          expect([again.status, again.text, again.headers["idempotency-replayed"]]).to.deep.equal([
            ...[200, bought.text, "true"],
          ]);
          expect([again.headers.etag, again.headers["content-length"]]).to.deep.equal([
            ...['"one"', String(CONTENT.length)],
          ]);
        }
      });
    }

    it("HA6 settles no stored answer for another range, and the same one once", async () => {
      const url = at("after");
      const headers = { ...(await v1Headers((await quoteOf(url)).accepts[0] as AcceptEntryWire)), Range: "bytes=4-8" };
      const pending = { success: false, errorReason: "settlement_pending", transaction: "", network: "local-31337" };
      facilitator.settlements.push(pending as never);
      expect((await send(url, { headers })).status).to.equal(503);
      const settles = () => facilitator.calls.filter((call) => call.path === "/settle").length;
      const { Range: _range, ...wide } = headers;
      expectRefused(await send(url, { headers: wide }), /Range: bytes=4-8/);
      expect(settles()).to.equal(1);
      expect(shown(await send(url, { headers }))).to.deep.equal([206, "whole", `bytes 4-8/${CONTENT.length}`]);
      expect([served, settles()]).to.deep.equal([1, 2]);
    });
  });
}

describe("answers that an earlier version has sealed", () => {
  const gateKey = { id: "k1", secret: new Uint8Array(32).fill(1) };
  const paymentId = `0x${"ab".repeat(32)}` as const;
  const purchased = {
    secret: ["proof", "00"] as const,
    paymentId,
    method: "GET",
    resource: "https://api.example/paid",
    bodyHash: undefined,
  };

  /** Without what was asked for. */
  async function kept(status: number, headers: Record<string, string>, body: string) {
    const head = Buffer.from(JSON.stringify({ status, headers }));
    const length = Buffer.alloc(4);
    length.writeUInt32BE(head.length);
    const text = seal(Buffer.concat([length, head, Buffer.from(body)]), purchased, gateKey);
    const store = { ...memoryClaims({ warn: false }), served: async () => ({ answer: text }) } as ClaimStore;
    const found = await findServed({ store, paymentId, purchased, gateKeys: [gateKey], nowMs: 0 });
    if (found?.kind !== "answer") throw new TypeError("it does not open");
    return found.answer;
  }

  const ask = async (answer: Awaited<ReturnType<typeof kept>>, headers: Record<string, string>) => {
    const found = await fitAnswer(answer, { method: "GET", header: (name) => headers[name] });
    return found.kind === "unfit" ? "unfit" : [found.answer.status, Buffer.from(found.answer.body).toString()];
  };

  it("HA6 are given by their own headers", async () => {
    const whole = await kept(200, {}, CONTENT);
    expect(await ask(whole, {})).to.deep.equal([200, CONTENT]);
    expect(await ask(whole, { range: "bytes=4-8" })).to.deep.equal([206, "whole"]);
    const part = await kept(206, { "content-range": `bytes 4-8/${CONTENT.length}` }, "whole");
    expect(await ask(part, {})).to.equal("unfit");
    expect(await ask(part, { range: "bytes=4-9" })).to.equal("unfit");
    expect(await ask(part, { range: "bytes=4-8" })).to.deep.equal([206, "whole"]);
    const several = await kept(206, { "content-type": "multipart/byteranges; boundary=x" }, "--x");
    expect(await ask(several, { range: "bytes=0-1,3-4" })).to.equal("unfit");
  });

  it("HA6 are cut only where their server has ranges, and only of status 200", async () => {
    for (const [status, headers] of [
      [200, { "accept-ranges": "none" }],
      [201, {}],
      [404, {}],
    ] as const) {
      expect(await ask(await kept(status, headers, CONTENT), { range: "bytes=4-8" })).to.deep.equal([status, CONTENT]);
    }
  });
});
