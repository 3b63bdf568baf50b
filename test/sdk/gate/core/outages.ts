/** Routes whose terms cannot be read: an outage is 503, a wrong setting 500, and neither asks for money. */
import { createServer, type Server } from "node:http";
import { json } from "node:stream/consumers";
import { expect } from "chai";
import { createProvider, type GateOptions, memoryClaims, type Provider, type ProviderOptions } from "turnpike/gate";
import type { TurnpikeError } from "turnpike/protocol";
import {
  addressOf,
  CHAIN_ID,
  closeServer,
  listen,
  ONE_TIME,
  PAY_TO,
  type SmallFacilitator,
  send,
  startSmallFacilitator,
  TOKEN,
} from "../../../support/gate";
import { until } from "../../../support/subscriptions";
import { ADAPTERS, type AdapterServer, PREFIX } from "../support/frameworks";
import { v1Headers } from "../support/standard";

/** Nothing listens there. */
const DEAD = "http://127.0.0.1:1";
const PLAN = `0x${"77".repeat(32)}`;

describe("routes whose terms cannot be read", function () {
  this.timeout(60_000);
  let facilitator: SmallFacilitator;
  let chain: Server;
  let rpcUrl: string;
  /** what a call of a contract answers */
  let answer: unknown;
  let chainId: number;
  const warnings: string[] = [];
  const note = ({ name, message }: Error) => void warnings.push(`${name}: ${message}`);
  const open: (() => Promise<void>)[] = [];

  before(async () => {
    facilitator = await startSmallFacilitator();
    chain = createServer(async (request, response) => {
      const { id, method } = (await json(request)) as { id: number; method: string };
      const results: Record<string, unknown> = {
        eth_chainId: `0x${chainId.toString(16)}`,
        eth_getCode: "0x6000",
        eth_call: answer,
        eth_getBlockByNumber: { number: "0x1", hash: `0x${"11".repeat(32)}`, timestamp: "0x6b49d200" },
      };
      response.end(JSON.stringify({ jsonrpc: "2.0", id, result: results[method] ?? null }));
    });
    rpcUrl = await listen(chain);
  });
  after(async () => {
    await facilitator.stop();
    await closeServer(chain);
  });
  beforeEach(() => {
    process.on("warning", note);
    answer = "0x";
    chainId = CHAIN_ID;
  });
  afterEach(async () => {
    process.off("warning", note);
    for (const stop of open.splice(0).reverse()) await stop();
    warnings.length = 0;
  });

  function provider(more: ProviderOptions): Provider {
    const made = createProvider({
      network: `local-${CHAIN_ID}`,
      token: TOKEN,
      turnpike: `0x${"71".repeat(20)}`,
      payTo: PAY_TO,
      facilitator: { url: facilitator.url, signers: [facilitator.signer] },
      secret: "a secret of this test, long enough to be one",
      claims: memoryClaims({ warn: false }),
      ...more,
    });
    open.push(() => made.close());
    return made;
  }

  async function serve(adapter: string, more: ProviderOptions, gate: object = { pricing: ONE_TIME }): Promise<string> {
    const start = ADAPTERS[adapter] as (typeof ADAPTERS)[string];
    const route = { path: "/paid", gate: gate as GateOptions<never>, handle: () => ({ body: "served" }) };
    const server: AdapterServer = await start(provider(more), [route]);
    open.push(() => server.stop());
    return `${server.url}${PREFIX}/paid`;
  }

  const statuses = async (url: string, times = 6) => {
    const seen = [];
    for (let i = 0; i < times; i++) seen.push((await send(url)).status);
    return seen;
  };

  for (const adapter of Object.keys(ADAPTERS)) {
    it(`J1 a dead rpcUrl is 503 with Retry-After and never 402, through ${adapter}`, async () => {
      for (const gate of [{ pricing: ONE_TIME }, { pricing: [{ type: "subscription", plan: PLAN }] }]) {
        const url = await serve(adapter, { rpcUrl: `${DEAD}/v2/its-api-key` }, gate);
        for (let i = 0; i < 4; i++) {
          const unpaid = await send(url);
          expect([unpaid.status, unpaid.json.error], unpaid.text).to.deep.equal([503, "Unavailable"]);
          expect(Number(unpaid.headers["retry-after"])).to.be.above(0);
          expect(unpaid.headers).to.not.have.property("payment-required");
          expect(unpaid.text).to.not.include("127.0.0.1").and.not.include("its-api-key");
        }
      }
      await until(() => warnings.some((line) => line.includes("rpcUrl (127.0.0.1:1)")));
      expect(warnings.join("\n")).to.not.include("its-api-key");
      expect(warnings.filter((line) => line.includes("cannot be read"))).to.have.length(2);
    });

    it(`J2 a token that is none, and the RPC of another chain, are 500 each time, through ${adapter}`, async () => {
      const url = await serve(adapter, { rpcUrl });
      expect(await statuses(url)).to.deep.equal(Array(6).fill(500));
      const token = warnings.filter((line) => line.startsWith("ConfigError: token is"));
      expect(token).to.have.length(1);
      expect(token[0]).to.include(TOKEN).and.include(new URL(rpcUrl).host);
      chainId = 8453;
      const other = await serve(adapter, { rpcUrl });
      expect(await statuses(other)).to.deep.equal(Array(6).fill(500));
      const network = warnings.filter((line) => line.startsWith("ConfigError: network is chain"));
      expect(network).to.have.length(1);
      expect(network[0]).to.include("rpcUrl serves chain 8453").and.include(new URL(rpcUrl).host);
    });
  }

  it("J1 a payment of version 1 is 503 while the chain cannot be read", async () => {
    const url = await serve("node:http", { rpcUrl: DEAD });
    const headers = await v1Headers({ payTo: PAY_TO, amount: "500000", network: `local-${CHAIN_ID}` } as never);
    const answered = await send(url, { headers });
    expect([answered.status, answered.json.error], answered.text).to.deep.equal([503, "Unavailable"]);
  });

  it("J1 offers what can be quoted without the chain, and leaves out the rest", async () => {
    const token = { address: TOKEN, name: "Test USD", version: "1" };
    const pricing = [...ONE_TIME, { type: "subscription", plan: PLAN }];
    const url = await serve("Express 5", { rpcUrl: DEAD, token }, { pricing });
    for (let i = 0; i < 4; i++) {
      const unpaid = await send(url);
      expect(unpaid.status).to.equal(402);
      expect(unpaid.json.accepts).to.have.length(1);
      expect(unpaid.json).to.not.have.property("plans");
    }
    const headers = await v1Headers({ payTo: PAY_TO, amount: "500000", network: `local-${CHAIN_ID}` } as never);
    expect((await send(url, { headers })).status, "what is offered can be paid").to.not.equal(503);
  });

  it("J2 quotes nothing with a token's own domain either while rpcUrl serves another chain", async () => {
    chainId = 8453;
    const token = { address: TOKEN, name: "Test USD", version: "1" };
    const url = await serve("Express 5", { rpcUrl, token });
    await until(() => warnings.length > 0);
    expect(await statuses(url, 4)).to.deep.equal([500, 500, 500, 500]);
  });

  it("J2 ready() names the wrong token, the contract that is not Turnpike, and the RPC that is dead", async () => {
    const failure = (given: ProviderOptions, pricing: object[] = [...ONE_TIME]) =>
      provider(given)
        .gate({ pricing: pricing as never })
        .ready()
        .then(
          () => "ready",
          (error: TurnpikeError) => `${error.code}: ${error.message}`,
        );
    expect(await failure({ rpcUrl })).to.match(/^ConfigError: token is 0x.*correct the address/);
    const plan = [{ type: "subscription", plan: PLAN }];
    expect(await failure({ rpcUrl, turnpike: addressOf("a token") }, plan)).to.match(/^ConfigError: turnpike is 0x/);
    expect(await failure({ rpcUrl: DEAD })).to.equal(
      "Unavailable: The chain cannot be read at rpcUrl (127.0.0.1:1): ECONNREFUSED.",
    );
  });
});
