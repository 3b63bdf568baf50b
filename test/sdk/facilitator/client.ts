import { createServer, type RequestListener, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { expect } from "chai";
import { createFacilitatorClient, problemOf } from "turnpike/facilitator";
import { type ErrorCode, type Hex, TurnpikeError } from "turnpike/protocol";

const ID: Hex = `0x${"11".repeat(32)}`;
const PAYMENT = {} as never;

describe("Facilitator client", () => {
  const servers: Server[] = [];
  async function serve(answer: RequestListener): Promise<string> {
    const server = createServer(answer);
    servers.push(server);
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  }
  afterEach(() => {
    for (const server of servers.splice(0)) {
      server.closeAllConnections();
      server.close();
    }
  });

  const answering = (status: number, body: string, headers: Record<string, string> = {}): Promise<string> =>
    serve((_request, response) =>
      response.writeHead(status, { "content-type": "application/json", ...headers }).end(body),
    );
  const answeringError = (code: ErrorCode, status: number): Promise<string> =>
    answering(status, JSON.stringify({ ...problemOf(new TurnpikeError(code, "why", { retryAfterSec: 7 })), status }));
  const authorize = (url: string, timeoutMs = 10_000) =>
    createFacilitatorClient({ url, timeoutMs })
      .authorize(PAYMENT)
      .catch((error: TurnpikeError) => error);

  async function expectUnavailable(url: string, timeoutMs?: number): Promise<TurnpikeError> {
    const outcome = await authorize(url, timeoutMs);
    expect(outcome).to.be.instanceOf(TurnpikeError).and.include({ code: "Unavailable", retryable: true });
    return outcome as TurnpikeError;
  }

  it("D2 treats a malformed answer as an unknown outcome, never as a refusal", async () => {
    await expectUnavailable("http://127.0.0.1:9");
    await expectUnavailable(await serve(() => undefined), 50);
    await expectUnavailable(await serve((request) => request.socket.destroy()));
    await expectUnavailable(await answering(200, "<html>", { "content-type": "text/html" }));
    await expectUnavailable(await answering(200, "{"));
    await expectUnavailable(await answering(200, '{"proof":{}}'));
    await expectUnavailable(await answering(202, '{"status":"pending"}'));
    await expectUnavailable(await answering(402, "{}"));
    await expectUnavailable(await answering(418, "[]"));
    await expectUnavailable(await answeringError("Internal", 500));
    await expectUnavailable(await answeringError("NotFound", 404));
    await expectUnavailable(await answeringError("MethodNotAllowed", 405));
  });

  it("D2 reports when to retry, and why", async () => {
    for (const [code, status] of [
      ["RateLimited", 429],
      ["PaymentPending", 503],
    ] as const) {
      const error = await expectUnavailable(await answeringError(code, status));
      expect(error.retryAfterSec).to.equal(7);
      expect(error.cause).to.include({ code });
    }
  });

  it("D7 follows no redirect, not even to itself", async () => {
    let reached = 0;
    const target = await serve((_request, response) => {
      reached++;
      response.end();
    });
    for (const status of [301, 302, 303, 307, 308]) {
      await expectUnavailable(await answering(status, "{}", { location: target }));
    }
    expect(reached).to.equal(0);
  });

  it("reads once more where a kept connection was closed before the answer, and posts nothing twice", async () => {
    const asked: string[] = [];
    const used = new WeakSet<object>();
    const url = await serve(({ method, url: path, socket }, response) => {
      asked.push(`${method} ${path}`);
      if (used.has(socket)) return void socket.resetAndDestroy();
      used.add(socket);
      response.writeHead(404, { "content-type": "application/json" }).end("{}");
    });
    const client = createFacilitatorClient({ url });
    const payment = () => client.payment(ID).catch((error: TurnpikeError) => error.message);
    const first = await payment();
    expect(new Set(await Promise.all(Array.from({ length: 4 }, payment)))).to.deep.equal(new Set([first]));
    for (let i = 0; i < 3; i++) expect(await payment()).to.equal(first);
    const before = asked.length;
    await expectUnavailable(url);
    expect(asked.slice(before)).to.deep.equal(["POST /authorize"]);
  });

  it("stops reading an endless response", async () => {
    let written = 0;
    const url = await serve((_request, response) => {
      response.writeHead(200, { "content-type": "application/json" });
      const more = (): void => {
        while (written < 200_000_000 && !response.destroyed) {
          written += 65_536;
          if (!response.write(" ".repeat(65_536))) return void response.once("drain", more);
        }
      };
      more();
    });
    const error = await expectUnavailable(url);
    expect(error.message).to.include("larger than");
    expect(written).to.be.lessThan(50_000_000);
  });

  it("returns a refusal with its code, remedy and details", async () => {
    const error = new TurnpikeError("InsufficientFunds", "7 of 9", { details: { required: "9", available: "7" } });
    const outcome = await authorize(await answering(422, JSON.stringify(problemOf(error))));
    if (outcome instanceof Error || outcome.kind !== "refused") throw new Error("not refused");
    expect(outcome.error).to.include({ code: "InsufficientFunds", message: "7 of 9", remedy: error.remedy });
    expect(outcome.error.details).to.deep.equal({ required: "9", available: "7" });
  });

  it("returns pending with the delay", async () => {
    const outcome = await authorize(
      await answering(202, JSON.stringify({ status: "pending", id: ID }), { "retry-after": "3" }),
    );
    expect(outcome).to.deep.equal({ kind: "pending", id: ID, retryAfterSec: 3 });
  });

  it("reports a proof as invalid only when the Facilitator judged it", async () => {
    const verify = (url: string) =>
      createFacilitatorClient({ url })
        .verifyProof(PAYMENT)
        .catch((error: TurnpikeError) => error.code);
    expect(await verify(await answering(200, '{"valid":false,"reason":"reversed"}'))).to.deep.equal({
      valid: false,
      reason: "reversed",
    });
    expect(await verify(await answeringError("InvalidRequest", 400))).to.deep.equal({
      valid: false,
      reason: "InvalidRequest",
    });
    expect(await verify(await answeringError("RateLimited", 429))).to.equal("Unavailable");
    expect(await verify(await answeringError("Unavailable", 503))).to.equal("Unavailable");
  });

  it("reads standard answers of other makes, whose optional fields are absent or null", async () => {
    const asked = { paymentPayload: { x402Version: 2 }, paymentRequirements: { network: "eip155:1" } } as never;
    const settled = { success: true, transaction: ID, network: "eip155:1" };
    const clientOf = async (answer: object) =>
      createFacilitatorClient({ url: await answering(200, JSON.stringify(answer)) });
    for (const more of [{}, { payer: null, errorReason: null, extensions: null, amount: null }]) {
      expect(await (await clientOf({ ...settled, ...more })).x402Settle(asked)).to.deep.equal(settled);
      expect(await (await clientOf({ isValid: true, ...more })).x402Verify(asked)).to.deep.equal({ isValid: true });
    }
    const refused = await (await clientOf({ success: false, transaction: "", network: "" })).x402Settle(asked);
    expect(refused).to.include({ success: false, errorReason: "unexpected_settle_error" });
    const invalid = await (await clientOf({ isValid: false })).x402Verify(asked);
    expect(invalid).to.include({ isValid: false, invalidReason: "unexpected_verify_error" });
  });

  it("stops when its caller aborts", async () => {
    const url = await serve(() => undefined);
    const abort = new AbortController();
    const waiting = createFacilitatorClient({ url })
      .payment(ID, { signal: abort.signal })
      .catch((error: TurnpikeError) => error.code);
    abort.abort();
    expect(await waiting).to.equal("Unavailable");
  });

  it("keeps the base URL's path, and rejects URLs with credentials, a query or a fragment", async () => {
    let path: string | undefined;
    const url = await serve((request, response) => {
      path = request.url;
      response
        .writeHead(200, { "content-type": "application/json" })
        .end(JSON.stringify({ id: ID, status: "unknown" }));
    });
    await createFacilitatorClient({ url: `${url}/pay/` }).payment(ID);
    expect(path).to.equal(`/pay/payments/${ID}`);
    for (const bad of ["ftp://x", "nonsense", "http://user:pass@x", "http://x/?a=1", "http://x/#a"]) {
      expect(() => createFacilitatorClient({ url: bad }))
        .to.throw(TurnpikeError)
        .with.property("code", "ConfigError");
    }
  });
});
