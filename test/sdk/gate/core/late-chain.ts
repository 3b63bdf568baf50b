/** Payers sign by their own clocks: what a gate makes of them while its chain has no new block, or its node is late. */
import { createServer, type Server } from "node:http";
import { text } from "node:stream/consumers";
import { expect } from "chai";
import { Wallet } from "ethers";
import type { Provider } from "turnpike/gate";
import { encodeJsonHeader, type Hex, keccakText, transferTypedData } from "turnpike/protocol";
import {
  addressOf,
  CHAIN_ID,
  closeServer,
  FRAMEWORKS,
  keyOf,
  listen,
  ONE_TIME,
  OVER_PERMIT2,
  type SmallFacilitator,
  send,
  signedSettlement,
  startSmallFacilitator,
  type TestServer,
  TOKEN,
  testProvider,
} from "../../../support/gate";
import { requiredIn } from "../support/standard";

const wallSec = (): number => Math.floor(Date.now() / 1_000);

interface LateNode {
  readonly url: string;
  /** how old its newest block is, seconds; negative: it is ahead */
  lateSec: number;
  stop(): Promise<void>;
}

/** A node that has answered one block since: sound, and late. */
async function startLateNode(chainId: number): Promise<LateNode> {
  const server: Server = createServer(async (request, response) => {
    const { id, method } = JSON.parse(await text(request));
    const word = (value: number): string => `0x${value.toString(16)}`;
    const hash = keccakText("block");
    const block = { number: "0x10", hash, parentHash: hash, timestamp: word(startedSec - node.lateSec) };
    const answers: Record<string, unknown> = { eth_chainId: word(chainId), eth_getBlockByNumber: block };
    const result = answers[method] ?? "0x";
    response.setHeader("content-type", "application/json");
    response.end(JSON.stringify({ jsonrpc: "2.0", id, result }));
  });
  const startedSec = wallSec();
  const node: LateNode = { url: await listen(server), lateSec: 0, stop: () => closeServer(server) };
  return node;
}

const PUBLIC = { network: "base-sepolia", chainId: 84_532 };
const LOCAL = { network: `local-${CHAIN_ID}`, chainId: CHAIN_ID };

describe("a gate whose chain is late", () => {
  let facilitator: SmallFacilitator;
  let warnings: string[];
  const running: (() => Promise<void>)[] = [];
  const onWarning = (warning: Error) => warnings.push(warning.message);

  before(async () => {
    facilitator = await startSmallFacilitator();
  });
  beforeEach(() => {
    warnings = [];
    facilitator.calls.length = 0;
    process.on("warning", onWarning);
  });
  afterEach(async () => {
    process.off("warning", onWarning);
    for (const stop of running.splice(0).reverse()) await stop();
  });
  after(() => facilitator.stop());

  async function gateOn({ network, chainId }: typeof PUBLIC, lateSec: number) {
    const node = await startLateNode(chainId);
    node.lateSec = lateSec;
    facilitator.supported = { ...OVER_PERMIT2, network, chainId };
    facilitator.settle = (asked) => signedSettlement(asked, `0x${"ab".repeat(32)}`, "facilitator", chainId);
    const provider: Provider = testProvider(facilitator, {
      network,
      rpcUrl: node.url,
      clock: undefined as never,
      token: { address: TOKEN, name: "Test USD", version: "1" },
    });
    const server: TestServer = await FRAMEWORKS.express(provider, [
      { path: "/report", gate: { pricing: ONE_TIME, settle: "before" } },
    ]);
    running.push(
      () => node.stop(),
      () => provider.close(),
      () => server.stop(),
    );
    const ready = await provider.ready().then(
      () => undefined,
      (error: Error) => error.message,
    );
    return { url: `${server.url}/report`, chainId, ready, server };
  }

  /** As `@x402/fetch` signs: valid from ten minutes ago until `maxTimeoutSeconds` from now, by its own clock. */
  async function paid({ url, chainId }: { url: string; chainId: number }, { offSec = 0, version = 2, lifeSec = 300 }) {
    const quoted = await send(url);
    const [accepted] = requiredIn(quoted).accepts;
    if (!accepted) throw new TypeError("nothing is offered");
    const nowSec = wallSec() + offSec;
    const authorization = {
      from: addressOf("payer"),
      to: accepted.payTo as Hex,
      value: BigInt(accepted.amount),
      validAfter: BigInt(nowSec - 600),
      validBefore: BigInt(nowSec + lifeSec),
      nonce: keccakText(`late ${Math.random()}`),
    };
    const typed = transferTypedData({ chainId, token: TOKEN, name: "Test USD", version: "1" }, authorization);
    const wallet = new Wallet(keyOf("payer"));
    const signature = await wallet.signTypedData(typed.domain as never, typed.types as never, typed.message);
    const wire = Object.fromEntries(Object.entries(authorization).map(([name, each]) => [name, String(each)]));
    const payload = { signature, authorization: wire };
    const { network } = quoted.json.accepts[0];
    const body =
      version === 2 ? { x402Version: 2, payload, accepted } : { x402Version: 1, scheme: "exact", network, payload };
    return send(url, { headers: { "PAYMENT-SIGNATURE": encodeJsonHeader(body) } });
  }

  for (const [what, place, lateSec] of [
    ["a quiet local chain", LOCAL, 7_200],
    ["a local chain that is a minute late", LOCAL, 70],
    ["a local chain whose clock was advanced", LOCAL, -30],
    ["a public chain that was silent for 100 s", PUBLIC, 100],
  ] as const) {
    it(`serves payers whose clocks are up to 60 s off, on ${what}`, async () => {
      const gate = await gateOn(place, lateSec);
      expect(gate.ready).to.equal(undefined);
      for (const version of [1, 2]) {
        for (const offSec of lateSec < 0 ? [0, 60] : [-60, 0, 59]) {
          const answer = await paid(gate, { offSec, version });
          expect(answer.status, `version ${version}, ${offSec} s: ${answer.text}`).to.equal(200);
        }
      }
      const entry = requiredIn(await send(gate.url)).accepts[0];
      expect(Number(String(entry?.extra.memo).split(".")[2]), "the quote ends after now").to.be.above(wallSec() + 500);
      expect(warnings.join()).to.not.include("behind");
    });
  }

  it("refuses what ends before it could settle, or far too late, also on a quiet chain", async () => {
    const gate = await gateOn(LOCAL, 7_200);
    for (const lifeSec of [-3_600, -1, 2, 420]) {
      const answer = await paid(gate, { lifeSec });
      expect([answer.status, answer.json.reason], `${lifeSec} s`).to.deep.equal([402, "window"]);
    }
    expect(gate.server.served.size).to.equal(0);
    expect(facilitator.calls).to.have.length(0);
  });

  it("answers 503 with the reason on a public chain that is far behind, and names it at start-up and in the log", async () => {
    const gate = await gateOn(PUBLIC, 600);
    expect(gate.ready).to.match(/base-sepolia.*60\d s behind.*node/);
    for (const version of [1, 2]) {
      for (const lifeSec of [300, 900]) {
        const answer = await paid(gate, { version, lifeSec });
        expect(answer.status, answer.text).to.equal(503);
        expect(answer.json.message).to.match(/behind/);
        expect(Number(answer.headers["retry-after"])).to.be.above(0);
      }
    }
    expect(warnings.filter((each) => /base-sepolia.*behind/.test(each))).to.have.length(1);
    expect((await send(gate.url)).status, "a request without a payment").to.equal(402);
    expect(gate.server.served.size).to.equal(0);
    expect(facilitator.calls.filter(({ path }) => path === "/settle")).to.have.length(0);
  });

  it("names a public chain that is ahead of the machine's clock at start-up, and serves by its time", async () => {
    const gate = await gateOn(PUBLIC, -200);
    expect(gate.ready).to.equal(undefined);
    const answer = await paid(gate, { offSec: 200 });
    expect(answer.status, answer.text).to.equal(200);
    const named = warnings.filter((each) => /base-sepolia is (199|20\d) s ahead of this machine's clock/.test(each));
    expect(named).to.have.length(1);
  });
});
