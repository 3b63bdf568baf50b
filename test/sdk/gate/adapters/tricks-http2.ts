/** HTTP/2 has no Host, no Transfer-Encoding and no required Content-Length: the gate may not depend on them. */
import { type ClientHttp2Session, connect, type OutgoingHttpHeaders } from "node:http2";
import { expect } from "chai";
import fastify from "fastify";
import type { GateOptions, Provider } from "turnpike/gate";
import { fastifyGate } from "turnpike/gate/fastify";
import {
  headerOf,
  ONE_TIME,
  proofOf,
  type SmallFacilitator,
  startSmallFacilitator,
  testProvider,
} from "../../../support/gate";

describe("attacks over HTTP/2, through Fastify", () => {
  let facilitator: SmallFacilitator;
  let provider: Provider;
  let session: ClientHttp2Session;
  let stop: () => Promise<unknown>;
  let served = 0;

  beforeEach(async () => {
    served = 0;
    facilitator = await startSmallFacilitator();
    provider = testProvider(facilitator, { publicUrl: "https://api.example" });
    const app = fastify({ http2: true });
    // Typed for HTTP/1.1, which is the default of Fastify's own hooks.
    const gateOf = (options: GateOptions<never>) => fastifyGate(provider.gate(options)) as never;
    const handler = async () => `served ${++served}`;
    const sized = (raw: unknown) => BigInt((raw as { body?: { size?: number } }).body?.size ?? 1);
    const bound = { pricing: [{ type: "one-time", amount: sized }], bind: "body" } as GateOptions<never>;
    app.get("/paid", { preHandler: gateOf({ pricing: ONE_TIME }) }, handler);
    app.post("/parsed", { preHandler: gateOf(bound) }, handler);
    app.post("/unread", { onRequest: gateOf(bound) }, handler);
    session = connect(await app.listen({ port: 0, host: "127.0.0.1" }));
    stop = async () => {
      session.destroy();
      await app.close();
    };
  });
  afterEach(async () => {
    await stop();
    await provider.close();
    await facilitator.stop();
  });

  function ask(headers: OutgoingHttpHeaders, body?: string) {
    return new Promise<{ status: number; text: string }>((resolve, reject) => {
      const stream = session.request(headers, { endStream: body === undefined });
      let status = 0;
      let text = "";
      stream.on("response", (answer) => {
        status = answer[":status"] ?? 0;
      });
      stream.setEncoding("utf8").on("data", (chunk: string) => {
        text += chunk;
      });
      stream.on("error", reject).on("end", () => resolve({ status, text }));
      if (body !== undefined) stream.end(body);
    });
  }

  it("requires payment, serves once, and refuses two credentials", async () => {
    const unpaid = await ask({ ":path": "/paid" });
    expect(unpaid.status, unpaid.text).to.equal(402);
    const headers = headerOf(proofOf(JSON.parse(unpaid.text).accepts[0]));
    const { "X-PAYMENT": proof } = headers;
    expect((await ask({ ":path": "/paid", "x-payment": [proof, proof] as never })).status).to.equal(400);
    expect((await ask({ ":path": "/paid?other", "x-payment": proof })).status).to.equal(402);
    expect((await ask({ ":path": "/x/../paid", "x-payment": proof })).status).to.be.oneOf([400, 404]);
    expect(served).to.equal(0);
    expect((await ask({ ":path": "/paid", "x-payment": proof })).status).to.equal(200);
    expect(JSON.parse((await ask({ ":path": "/paid", "x-payment": proof })).text).reason).to.equal("already_used");
  });

  it("C4 sends no quote for a body whose bytes are already consumed", async () => {
    const json = { ":path": "/parsed", ":method": "POST", "content-type": "application/json" };
    for (const headers of [json, { ...json, "content-length": "10" }]) {
      const answer = await ask(headers, '{"size":1}');
      expect(answer.status, answer.text).to.equal(500);
    }
    expect((await ask({ ":path": "/parsed", ":method": "POST" })).status, "no body at all").to.equal(402);
    expect(served).to.equal(0);
  });

  it("HB4 C4 binds a body of no declared length before it is parsed", async () => {
    const json = { ":path": "/unread", ":method": "POST", "content-type": "application/json" };
    const quoted = JSON.parse((await ask(json, '{"size":7}')).text).accepts[0];
    expect(quoted.amount).to.equal("7");
    const paid = { ...json, "x-payment": headerOf(proofOf(quoted))["X-PAYMENT"] };
    expect(JSON.parse((await ask(paid, '{"size":70}')).text).reason).to.equal("memo");
    expect((await ask(paid, '{"size":7}')).text).to.equal("served 1");
  });
});
