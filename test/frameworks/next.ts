import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import path from "node:path";
import { expect } from "chai";
import {
  closeServer,
  listen,
  PAY_TO,
  paidHeaders,
  type Sent,
  type SmallFacilitator,
  send,
  startSmallFacilitator,
  TOKEN,
} from "../support/gate";
import { until } from "../support/subscriptions";

// Run by `npm run test:frameworks`, which installs and builds the application first.
describe("a Next.js application, built and served", function () {
  this.timeout(120_000);
  let facilitator: SmallFacilitator;
  let next: ChildProcess;
  let url: string;
  let folder: string;
  let output = "";

  /** By the machine's clock, as the application judges. */
  const paid = (where: string, sent: Sent = {}) => {
    const nowSec = Math.floor(Date.now() / 1_000);
    return paidHeaders(where, { settledAt: nowSec, expiresAt: nowSec + 600 }, sent);
  };

  before(async () => {
    facilitator = await startSmallFacilitator();
    folder = mkdtempSync(path.join(tmpdir(), "turnpike-next-"));
    const probe = createServer();
    url = await listen(probe);
    await closeServer(probe);
    const bin = path.join(__dirname, "node_modules/next/dist/bin/next");
    next = spawn(process.execPath, [bin, "start", "-H", "127.0.0.1", "-p", new URL(url).port], {
      cwd: __dirname,
      env: {
        ...process.env,
        NODE_ENV: "production",
        TURNPIKE_PUBLIC_URL: url,
        TURNPIKE_NETWORK: "local-31337",
        TURNPIKE_TOKEN: TOKEN,
        TURNPIKE_TOKEN_NAME: "Test USD",
        TURNPIKE_TOKEN_VERSION: "1",
        TURNPIKE_PAY_TO: PAY_TO,
        TURNPIKE_FACILITATOR_URL: facilitator.url,
        TURNPIKE_FACILITATOR_SIGNERS: facilitator.signer,
        TURNPIKE_SECRET: "a secret of this test that is long enough",
        TURNPIKE_CLAIMS: folder,
      },
      stdio: ["ignore", "pipe", "pipe"],
    });
    for (const stream of [next.stdout, next.stderr]) stream?.on("data", (chunk) => (output += String(chunk)));
    await until(async () => (await send(url).catch(() => ({ status: 0 }))).status > 0, 30_000);
  });
  after(async () => {
    next.kill("SIGTERM");
    await once(next, "exit");
    await facilitator.stop();
    rmSync(folder, { recursive: true, force: true });
  });

  it("serves a paid request once, with the route's own arguments", async () => {
    const where = `${url}/api/paid/7?a=1&b=%20`;
    const headers = await paid(where);
    const served = await send(where, { headers });
    expect(served.status, served.text + output).to.equal(200);
    expect(served.json.id).to.equal("7");
    expect(served.headers["cache-control"]).to.equal("private, no-store");
    expect(served.headers["x-payment-response"]).to.be.a("string");
    const again = await send(where, { headers });
    expect([again.text, again.headers["idempotency-replayed"]]).to.deep.equal([served.text, "true"]);
  });

  it("hands the body on, and streams", async () => {
    const post = { method: "POST", headers: { "Content-Type": "text/plain" }, body: "x".repeat(100_000) };
    const headers = { ...post.headers, ...(await paid(`${url}/api/paid/8`, post)) };
    expect((await send(`${url}/api/paid/8`, { ...post, headers })).json.body).to.have.length(100_000);
    const streamed = await send(`${url}/api/paid/stream`, { headers: await paid(`${url}/api/paid/stream`) });
    expect(streamed.text).to.equal("one two three");
  });

  it("HB4 prices and binds a body that the price reads, and hands the handler an unread one", async () => {
    const where = `${url}/api/sized`;
    const post = { method: "POST", headers: { "Content-Type": "application/json" }, body: '{"size":7}' };
    expect((await send(where, post)).json.accepts[0].amount).to.equal("7");
    const headers = { ...post.headers, ...(await paid(where, post)) };
    expect((await send(where, { ...post, headers, body: '{"size":70}' })).json.reason).to.equal("memo");
    expect((await send(where, { ...post, headers })).json).to.deep.equal({ got: { size: 7 } });
    const large = await send(where, { ...post, body: `{"size":${"7".repeat(2_000)}}` });
    expect([large.status, large.json.error]).to.deep.equal([413, "PayloadTooLarge"]);
  });

  it("knows HEAD, and answers a preflight for nothing", async () => {
    const head = await send(`${url}/api/paid/7`, { method: "HEAD" });
    expect([head.status, head.text]).to.deep.equal([402, ""]);
    const preflight = await send(`${url}/api/paid/7`, { method: "OPTIONS" });
    expect(preflight.status).to.equal(204);
    expect(preflight.headers["access-control-allow-headers"]).to.include("X-PAYMENT");
  });

  it("C14 keeps the payment of a handler that throws, and not of one that redirects", async () => {
    const broken = await paid(`${url}/api/broken`);
    for (let i = 0; i < 4; i++) expect((await send(`${url}/api/broken`, { headers: broken })).status).to.equal(500);
    const moved = await paid(`${url}/api/moved`);
    const answer = await send(`${url}/api/moved`, { headers: moved });
    expect([answer.status, answer.headers.location]).to.deep.equal([307, "/elsewhere"]);
    expect((await send(`${url}/api/moved`, { headers: moved })).json.reason).to.equal("already_used");
  });

  it("C5 serves no spelling of a path unpaid, nor by another path's payment", async () => {
    const headers = await paid(`${url}/api/paid/7`);
    const targets = [
      ...[
        "/api/paid/7/",
        "//api/paid/7",
        "/api//paid/7",
        "/api/paid/%37",
        "/API/paid/7",
        "/api/paid/7%2f",
        "/api/paid/7;x",
      ],
      ...[
        "/api/paid\\7",
        "/api/paid/8/../9",
        "/api/paid/7/%2e%2e/9",

        "/api/paid/7.rsc",
      ],
      ...["/_next/data/x/api/paid/7.json", "/api/paid/7?id=9&nxtPid=9", "/api/paid/7%23"],
    ];
    for (const target of targets) {
      const unpaid = await send(url, { path: target });
      expect(unpaid.status, target).to.be.within(300, 499);
      const served = await send(url, { path: target, headers });
      expect(served.status, `${target}: ${served.text}`).to.be.within(300, 499);
    }
    const spoofs = ["x-middleware-subrequest", "x-nextjs-data", "rsc", "next-router-prefetch", "x-now-route-matches"];
    for (const name of [...spoofs, "x-matched-path", "x-invoke-path", "x-original-url", "x-rewrite-url"]) {
      const spoofed = await send(`${url}/api/paid/9`, { headers: { ...headers, [name]: "/api/paid/7" } });
      expect(spoofed.status, name).to.be.within(300, 499);
    }
    expect((await send(`${url}/api/paid/7`, { headers })).json.id).to.equal("7");
  });
});
