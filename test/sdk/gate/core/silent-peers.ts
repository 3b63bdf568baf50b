/** Peers that accept a connection and never answer: each test here would hang for the transport's 40 seconds. */
import { createServer as createHttpServer } from "node:http";
import { createServer, type Server } from "node:net";
import { json } from "node:stream/consumers";
import { expect } from "chai";
import { ConfigError } from "turnpike";
import { connectRpc } from "turnpike/chain";
import type { Provider, ProviderOptions } from "turnpike/gate";
import {
  closeServer,
  listen,
  ONE_TIME,
  paidHeaders,
  type SmallFacilitator,
  send,
  startSmallFacilitator,
  testProvider,
} from "../../../support/gate";
import { until } from "../../../support/subscriptions";
import { ADAPTERS, type AdapterServer, PREFIX } from "../support/frameworks";
import { v1Headers, v2Headers } from "../support/standard";

const WAIT_MS = 200;
const codeOf = (error: { code?: string }) => error.code;

describe("peers that accept and never answer", function () {
  this.timeout(20_000);
  let facilitator: SmallFacilitator;
  let provider: Provider;
  let server: AdapterServer;
  let release: () => void;

  beforeEach(async () => {
    facilitator = await startSmallFacilitator();
  });
  afterEach(async () => {
    release?.();
    await server?.stop();
    await provider?.close();
    await facilitator.stop();
  });

  async function serve(options: ProviderOptions = {}): Promise<string> {
    provider = testProvider(facilitator, { facilitatorWaitMs: WAIT_MS, ...options });
    const start = ADAPTERS["node:http"] as NonNullable<(typeof ADAPTERS)[string]>;
    server = await start(provider, [{ path: "/paid", gate: { pricing: ONE_TIME }, handle: () => ({ body: "ok" }) }]);
    return `${server.url}${PREFIX}/paid`;
  }
  const fallSilent = () => {
    facilitator.held = new Promise<void>((resolve) => {
      release = resolve;
    });
  };
  const paths = () => facilitator.calls.map(({ path }) => path);

  it("HB8 a proof is answered 503 after facilitatorWaitMs, and serves once the Facilitator answers", async () => {
    const url = await serve();
    const headers = await paidHeaders(url);
    fallSilent();
    const answer = await send(url, { headers });
    expect([answer.status, answer.json.error], answer.text).to.deep.equal([503, "Unavailable"]);
    expect(Number(answer.headers["retry-after"])).to.be.above(0);
    release();
    facilitator.held = undefined;
    expect((await send(url, { headers })).status).to.equal(200);
  });

  for (const version of [1, 2] as const) {
    it(`HB8 a settlement of version ${version} is 503 once the Facilitator shows no sign of life, and unknown until then`, async () => {
      const url = await serve();
      const [entry] = (await send(url)).json.accepts;
      const headers = version === 1 ? await v1Headers(entry) : await v2Headers(url);
      fallSilent();
      // What the Facilitator supports is asked first: it falls silent after that.
      facilitator.holds = (path) => path !== "/supported";
      const answer = await send(url, { headers });
      expect([answer.status, answer.json.error], answer.text).to.deep.equal([503, "Unavailable"]);
      expect(Number(answer.headers["retry-after"])).to.be.above(0);
      expect(answer.headers).to.not.have.property("payment-required");
      expect(paths()).to.deep.equal(["/settle", "/healthz"]);
      release();
      facilitator.held = undefined;
      expect((await send(url, { headers })).status).to.equal(200);
    });
  }

  it("HB8 a settlement that takes long is waited for while the Facilitator is alive", async () => {
    const url = await serve();
    const [entry] = (await send(url)).json.accepts;
    facilitator.holds = (path) => path === "/settle";
    fallSilent();
    const answering = send(url, { headers: await v1Headers(entry) });
    await until(async () => paths().filter((path) => path === "/healthz").length >= 3);
    release();
    expect((await answering).status).to.equal(200);
    expect(paths().filter((path) => path === "/settle")).to.have.length(1);
  });

  it("HB8 facilitatorWaitMs is a whole number of milliseconds", () => {
    for (const facilitatorWaitMs of [0, -1, 1.5, Number.NaN]) {
      expect(() => testProvider(facilitator, { facilitatorWaitMs })).to.throw(ConfigError, /facilitatorWaitMs/);
    }
  });

  describe("an RPC node", () => {
    let silent: Server;
    let silentUrl: string;
    let asked: number;

    beforeEach(async () => {
      asked = 0;
      silent = createServer((socket) => {
        socket.on("data", () => asked++).on("error", () => undefined);
      });
      await new Promise<void>((resolve) => silent.listen(0, "127.0.0.1", resolve));
      silentUrl = `http://127.0.0.1:${(silent.address() as { port: number }).port}`;
    });
    afterEach(() => void silent.close());

    it("HB8 is asked last for a while after it was silent", async () => {
      const live = createHttpServer(async (request, response) => {
        const { id } = (await json(request)) as { id: number };
        response.setHeader("Content-Type", "application/json");
        response.end(JSON.stringify({ jsonrpc: "2.0", id, result: "0x7a69" }));
      });
      const rpc = connectRpc({ urls: [silentUrl, await listen(live)], chainId: 31_337, timeoutMs: WAIT_MS });
      for (let i = 0; i < 3; i++) expect(await rpc.send("eth_chainId", []).catch(codeOf)).to.equal("0x7a69");
      expect(asked).to.equal(1);
      rpc.close();
      await closeServer(live);
    });

    it("HB8 ends a call after two timeouts, however many nodes are silent", async () => {
      const urls = Array.from({ length: 5 }, (_each, index) => `${silentUrl}/${index}`);
      const rpc = connectRpc({ urls, chainId: 31_337, timeoutMs: WAIT_MS });
      expect(await rpc.send("eth_chainId", []).catch(codeOf)).to.equal("Unavailable");
      rpc.close();
      expect(asked).to.equal(2);
    });

    it("HB8 is a 503 for a proof that is verified on chain", async () => {
      const url = await serve({
        verify: "onchain",
        rpc: connectRpc({ urls: silentUrl, chainId: 31_337, timeoutMs: WAIT_MS }),
      });
      const answer = await send(url, { headers: await paidHeaders(url) });
      expect([answer.status, answer.json.error], answer.text).to.deep.equal([503, "Unavailable"]);
      expect(Number(answer.headers["retry-after"])).to.be.above(0);
    });
  });
});
