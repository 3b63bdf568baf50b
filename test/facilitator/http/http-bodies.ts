import { once } from "node:events";
import { request as httpRequest } from "node:http";
import { connect } from "node:net";
import { gzipSync } from "node:zlib";
import { expect } from "chai";
import { startServer } from "../../../facilitator/src/http/server";
import { createLog } from "../../../facilitator/src/telemetry/log";
import { until } from "../../support/facilitator";
import { paymentToWire } from "../support/payments";
import { expectProblem } from "../support/problem";
import { type Service, type ServiceWorld, startServiceWorld } from "../support/service";

const JSON_TYPE = { "content-type": "application/json" };
/** One that is read on the connection, one that goes through the app. */
const PATHS = ["/authorize", "/proofs/verify"];

describe("Facilitator: how a body arrives", function () {
  this.timeout(120_000);
  let world: ServiceWorld;
  let service: Service;
  let lines: Record<string, unknown>[];

  before(async () => {
    world = await startServiceWorld();
    const write = (line: string) => void lines.push(JSON.parse(line));
    lines = [];
    service = await world.service({ RENEWALS: "false" }, createLog({ level: "info", secrets: [], write }));
  });
  beforeEach(() => {
    lines = [];
  });
  after(() => world?.stop());

  const post = (path: string, body: BodyInit, headers: Record<string, string>) =>
    fetch(service.url + path, { method: "POST", body, headers: { ...JSON_TYPE, ...headers } });

  it("HB8 every endpoint refuses an encoded body with 415, however it is labelled, and says what it takes", async () => {
    const document = (await (await fetch(`${service.url}/openapi.json`)).json()) as {
      paths: Record<string, Record<string, { requestBody?: object }>>;
    };
    let tried = 0;
    for (const [path, methods] of Object.entries(document.paths)) {
      for (const [method, { requestBody }] of Object.entries(methods)) {
        if (!requestBody) continue;
        tried += 1;
        const response = await fetch(service.url + path.replaceAll(/\{\w+\}/g, "x"), {
          method: method.toUpperCase(),
          body: gzipSync("{}"),
          headers: { ...JSON_TYPE, "content-encoding": "gzip" },
        });
        const problem = await expectProblem(response, 415, "UnsupportedMediaType");
        expect(problem.message, path).to.match(/^content-encoding: /);
        expect(response.headers.get("accept-encoding")).to.equal("identity");
      }
    }
    expect(tried).to.be.above(10);
    const good = JSON.stringify({ signedPayment: paymentToWire(await world.signPayment()) });
    for (const label of ["gzip", "GZIP", "x-gzip", "deflate", "br", "zstd", "gzip, gzip", "identity, gzip", "none"]) {
      await expectProblem(await post("/authorize", good, { "content-encoding": label }), 415, "UnsupportedMediaType");
    }
    for (const label of ["identity", "Identity"]) {
      expect((await post("/authorize", good, { "content-encoding": label })).status, label).to.equal(200);
    }
  });

  for (const path of PATHS) {
    for (const isInChunks of [false, true]) {
      it(`HB8 a client that leaves in the middle of its body is no fault, at ${path}${isInChunks ? " in chunks" : ""}`, async () => {
        const framing = isInChunks ? { "transfer-encoding": "chunked" } : { "content-length": "1000" };
        const leaving = httpRequest(service.url + path, {
          method: "POST",
          headers: { ...JSON_TYPE, ...framing },
          agent: false,
        });
        leaving.on("error", () => undefined);
        await new Promise<void>((resolve) => leaving.write('{"signedPayment":', () => resolve()));
        const isLine = ({ route }: Record<string, unknown>) => route === path;
        await new Promise(setImmediate);
        leaving.destroy();
        await until(async () => lines.some(isLine), "the request is logged");
        const [line] = lines.filter(isLine);
        expect(line).to.include({ level: "info", status: 400, code: "InvalidRequest" });
        expect(lines.filter(({ level }) => level === "error")).to.deep.equal([]);
        const metrics = await (await fetch(`${service.url}/metrics`)).text();
        expect(metrics).to.not.match(new RegExp(`route="${path}",method="POST",status="500"`));
      });
    }
  }

  it("HB8 a client that leaves while it waits for its answer is no fault", async () => {
    const body = JSON.stringify({ signedPayment: paymentToWire(await world.signPayment()) });
    const leaving = httpRequest(`${service.url}/authorize`, { method: "POST", headers: JSON_TYPE, agent: false });
    leaving.on("error", () => undefined);
    await new Promise<void>((resolve) => leaving.end(body, () => resolve()));
    await new Promise(setImmediate);
    leaving.destroy();
    await until(async () => lines.some(({ route }) => route === "/authorize"), "the request is logged");
    expect(lines.filter(({ level }) => level === "error")).to.deep.equal([]);
  });
});

describe("Facilitator: a request that does not end", function () {
  // Far below Node's own interval of 30 s between looks at slow connections.
  this.timeout(10_000);

  for (const [what, sent] of [
    ["head", "POST / HTTP/1.1\r\nHost: x\r\n"],
    ["body", "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 60000\r\n\r\n{"],
    ["body in chunks", "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{\r\n"],
  ] as const) {
    it(`HB8 is ended at its time-out, although its ${what} trickles on`, async () => {
      const server = await startServer({
        fetch: async (request) => new Response(await request.text()),
        host: "127.0.0.1",
        port: 0,
        requestTimeoutMs: 300,
      });
      const socket = connect(Number(new URL(server.url).port), "127.0.0.1");
      let answer = "";
      socket.on("data", (chunk) => (answer += chunk)).on("error", () => undefined);
      socket.write(sent);
      const trickle = setInterval(() => socket.write(what === "head" ? "a" : what === "body" ? " " : "1\r\n \r\n"), 20);
      await once(socket, "close");
      clearInterval(trickle);
      expect(answer).to.match(/^HTTP\/1\.1 408 /);
      await server.stop(0);
    });
  }
});
