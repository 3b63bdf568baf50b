/** Large uploads: how long they may take, what reaches the server, and that they are held once. */
import { createHash } from "node:crypto";
import { createServer, type Server, type ServerResponse } from "node:http";
import { setTimeout as wait } from "node:timers/promises";
import { expect } from "chai";
import { closeServer, listen } from "../../support/gate";
import { agentFor } from "./support/world";

const LARGE = 12 * 1_024 * 1_024;

const hashOf = (bytes: Uint8Array): string => createHash("sha256").update(bytes).digest("hex");

function filled(length: number): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(length);
  for (let at = 0; at < length; at += 4_096) bytes[at] = at / 4_096;
  return bytes;
}

describe("large uploads of the agent", () => {
  const body = filled(LARGE);
  const whole = { bytes: LARGE, hash: hashOf(body), length: String(LARGE) };
  let server: Server;
  let url: string;
  /** how long the server waits after each part */
  let pauseMs = 0;
  let answer: (path: string, response: ServerResponse) => void;

  before(async () => {
    server = createServer(async (request, response) => {
      const hash = createHash("sha256");
      let bytes = 0;
      for await (const part of request as AsyncIterable<Uint8Array>) {
        hash.update(part);
        bytes += part.byteLength;
        if (pauseMs > 0) await wait(pauseMs);
      }
      const { "content-length": length, "content-type": type } = request.headers;
      response.setHeader("X-Seen", JSON.stringify({ bytes, hash: hash.digest("hex"), length, type }));
      answer(request.url ?? "", response);
    });
    url = await listen(server);
  });
  beforeEach(() => {
    pauseMs = 0;
    answer = (_path, response) => void response.end();
  });
  after(() => closeServer(server));

  const seenIn = (response: Response) => JSON.parse(response.headers.get("X-Seen") ?? "{}");

  for (const call of ["pay", "fetch"] as const) {
    it(`an upload that makes progress is not cut, however long it takes: agent.${call}`, async () => {
      pauseMs = 2;
      const { agent } = agentFor(url, { limits: { requestTimeoutMs: 100 } });
      const response = await agent[call](`${url}/slow`, { method: "POST", body });
      expect(seenIn(response)).to.deep.equal(whole);
    });
  }

  it("another fetch than the runtime's gets the body whole, and time for it", async () => {
    pauseMs = 2;
    let sent: unknown;
    const own: typeof fetch = (input, init) => {
      sent = init?.body;
      return fetch(input, init);
    };
    const { agent } = agentFor(url, { limits: { requestTimeoutMs: 100 }, fetch: own });
    expect(seenIn(await agent.pay(`${url}/own`, { method: "POST", body }))).to.deep.equal(whole);
    expect((sent as Uint8Array).buffer === body.buffer).to.equal(true);
  });

  it("a server that is silent after an upload is given up", async () => {
    answer = () => undefined;
    const { agent } = agentFor(url, { limits: { requestTimeoutMs: 50 } });
    const small = body.subarray(0, 60_000);
    const refused = await agent.pay(`${url}/silent`, { method: "POST", body: small }).catch((error: Error) => error);
    expect(String(refused)).to.include("requestTimeoutMs");
  });

  it("each form of a body arrives as fetch sends it", async () => {
    const parts = () =>
      new ReadableStream({
        start(controller) {
          for (let at = 0; at < LARGE; at += 1_000_000) controller.enqueue(body.subarray(at, at + 1_000_000));
          controller.close();
        },
      });
    const text = "a".repeat(100_000);
    const { agent } = agentFor(url);
    const forms: readonly (readonly [string, BodyInit, object])[] = [
      ["bytes", body, whole],
      ["a buffer", body.buffer, whole],
      [
        "a view",
        body.subarray(5, 100_005),
        { bytes: 100_000, hash: hashOf(body.subarray(5, 100_005)), length: "100000" },
      ],
      ["a stream", parts(), whole],
      ["a blob", new Blob([body], { type: "image/x" }), { ...whole, type: "image/x" }],
      [
        "text",
        text,
        { bytes: 100_000, hash: hashOf(Buffer.from(text)), length: "100000", type: "text/plain;charset=UTF-8" },
      ],
      ["little", body.subarray(0, 3), { bytes: 3, hash: hashOf(body.subarray(0, 3)), length: "3" }],
      ["nothing", new Uint8Array(), { bytes: 0, hash: hashOf(new Uint8Array()), length: "0" }],
    ];
    for (const [form, given, expected] of forms) {
      const response = await agent.pay(`${url}/form`, { method: "POST", body: given });
      expect(seenIn(response), form).to.deep.equal(expected);
    }
  });

  it("redirects are followed with the body where fetch sends it again, also beyond the origin", async () => {
    const elsewhere = createServer((request, response) => {
      request.resume().on("end", () => response.setHeader("X-Seen", request.headers["content-length"] ?? "").end());
    });
    const target = await listen(elsewhere);
    answer = (path, response) => {
      if (path === "/near") response.writeHead(307, { Location: "/there" });
      if (path === "/see") response.writeHead(303, { Location: "/there" });
      if (path === "/far") response.writeHead(308, { Location: `${target}/there` });
      response.end();
    };
    try {
      const { agent } = agentFor(url);
      expect(seenIn(await agent.fetch(`${url}/near`, { method: "POST", body }))).to.deep.equal(whole);
      expect(seenIn(await agent.fetch(`${url}/see`, { method: "POST", body })).bytes).to.equal(0);
      const far = await agent.fetch(`${url}/far`, { method: "POST", body });
      expect(far.headers.get("X-Seen")).to.equal(String(LARGE));
      const manual = await agent.fetch(`${url}/near`, { method: "POST", body, redirect: "manual" });
      expect(manual.status).to.equal(307);
      const refused = await agent.fetch(`${url}/near`, { method: "POST", body, redirect: "error" }).catch(String);
      expect(refused).to.include("Unavailable");
    } finally {
      await closeServer(elsewhere);
    }
  });

  it("what is sent is the caller's own memory", async () => {
    const buffers = new Set<ArrayBufferLike>();
    const native = globalThis.fetch;
    globalThis.fetch = async (_input, init) => {
      for await (const part of (init as { body: unknown }).body as AsyncIterable<Uint8Array>) buffers.add(part.buffer);
      return new Response();
    };
    try {
      const { agent } = agentFor(url);
      await agent.pay(`${url}/once`, { method: "POST", body });
      await agent.fetch(`${url}/once`, { method: "POST", body });
    } finally {
      globalThis.fetch = native;
    }
    expect([...buffers].map((buffer) => buffer === body.buffer)).to.deep.equal([true]);
  });
});
