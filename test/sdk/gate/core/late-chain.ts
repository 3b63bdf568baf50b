/** Payers sign by their own clocks: what a gate makes of them while its chain has no new block, or its node is late. */
import { createServer, type Server } from "node:http";
import { text } from "node:stream/consumers";
import { expect } from "chai";
import { Wallet } from "ethers";
import type { Provider } from "turnpike/gate";
import { encodeJsonHeader, type Hex, keccakText, transferTypedData } from "turnpike/protocol";
import { readSignIn, signInChallenge } from "../../../../sdk/src/gate/schemes/subscription/sign-in";
import {
  addressOf,
  CHAIN_ID,
  closeServer,
  FRAMEWORKS,
  headerOf,
  keyOf,
  listen,
  ONE_TIME,
  OVER_PERMIT2,
  proofOf,
  type SmallFacilitator,
  send,
  signedSettlement,
  startSmallFacilitator,
  type TestServer,
  TOKEN,
  testProvider,
} from "../../../support/gate";
import { until } from "../../../support/until";
import { permit2Headers } from "../support/permit2";
import { answerTo } from "../support/sign-in";
import { type Accepted, requiredIn } from "../support/standard";

const wallSec = (): number => Math.floor(Date.now() / 1_000);

interface LateNode {
  readonly url: string;
  number: number;
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
    const block = {
      number: word(node.number),
      hash: keccakText(`block ${node.number}`),
      parentHash: hash,
      timestamp: word(startedSec - node.lateSec),
    };
    const answers: Record<string, unknown> = { eth_chainId: word(chainId), eth_getBlockByNumber: block };
    const result = answers[method] ?? "0x";
    response.setHeader("content-type", "application/json");
    response.end(JSON.stringify({ jsonrpc: "2.0", id, result }));
  });
  const startedSec = wallSec();
  const node: LateNode = { url: await listen(server), number: 16, lateSec: 0, stop: () => closeServer(server) };
  return node;
}

/** How a payer signs. */
interface Paying {
  /** by how much its clock is ahead */
  readonly offSec?: number;
  readonly version?: number;
  readonly lifeSec?: number;
  readonly accepted?: Accepted | undefined;
}

const MEMO_KEY = { id: "k1", secret: new Uint8Array(32).fill(7) };

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

  type Gate = Awaited<ReturnType<typeof gateOn>>;

  async function gateOn({ network, chainId }: typeof PUBLIC, lateSec: number, transferMethod?: "permit2") {
    const node = await startLateNode(chainId);
    node.lateSec = lateSec;
    const kinds = OVER_PERMIT2.kinds.map((kind) => ({ ...kind, network: `eip155:${chainId}` }));
    facilitator.supported = { ...OVER_PERMIT2, kinds, network, chainId };
    facilitator.settle = (asked) => signedSettlement(asked, `0x${"ab".repeat(32)}`, "facilitator", chainId);
    const provider: Provider = testProvider(facilitator, {
      network,
      rpcUrl: node.url,
      clock: undefined as never,
      token: { address: TOKEN, name: "Test USD", version: "1", ...(transferMethod && { transferMethod }) },
    });
    const server: TestServer = await FRAMEWORKS.express(provider, [
      { path: "/report", gate: { pricing: ONE_TIME, settle: "before" } },
      {
        path: "/upto",
        gate: { pricing: [{ type: "upto", max: 500_000 }] as never },
        handle: (payment) => async () => {
          if (payment.kind === "one-time") await payment.charge(200_000n);
          return {};
        },
      },
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
    return { url: `${server.url}/report`, base: server.url, chainId, ready, server, node };
  }

  /** As `@x402/fetch` signs: valid from ten minutes ago until `maxTimeoutSeconds` from now, by its own clock. */
  async function paid(
    { url, chainId }: { url: string; chainId: number },
    { offSec = 0, version = 2, lifeSec = 300, accepted: quotedEntry }: Paying = {},
  ) {
    const quoted = await send(url);
    const accepted = quotedEntry ?? requiredIn(quoted).accepts[0];
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

  /** Over Permit2, whose deadline is the payload's end. */
  async function paidOverPermit2({ base, chainId }: Gate, path: string, { offSec = 0, lifeSec = 300 }) {
    const [accepted] = requiredIn(await send(`${base}${path}`)).accepts;
    const atSec = wallSec() + offSec;
    const window = { validAfter: BigInt(atSec - 600), deadline: BigInt(atSec + lifeSec) };
    return send(`${base}${path}`, { headers: permit2Headers(accepted as never, { chainId, ...window }) });
  }

  for (const [what, place, lateSec] of [
    ["a quiet local chain", LOCAL, 7_200],
    ["a public chain that was silent for 100 s", PUBLIC, 100],
  ] as const) {
    it(`serves payments over Permit2, exact and upto, on ${what}, and none whose deadline has passed`, async () => {
      const gate = await gateOn(place, lateSec, "permit2");
      for (const path of ["/report", "/upto"]) {
        for (const offSec of [-60, 0, 59]) {
          const answer = await paidOverPermit2(gate, path, { offSec });
          expect(answer.status, `${path}, ${offSec} s: ${answer.text}`).to.equal(200);
        }
        for (const lifeSec of [-3_600, -1, 2, 420]) {
          const answer = await paidOverPermit2(gate, path, { lifeSec });
          expect([answer.status, answer.json.reason], `${path}, ${lifeSec} s`).to.deep.equal([402, "window"]);
        }
      }
    });

    it(`ends quotes by the later time on ${what}: the machine's, and the chain's once it is ahead`, async () => {
      const gate = await gateOn(place, lateSec);
      const [accepted] = requiredIn(await send(gate.url)).accepts;
      gate.node.lateSec = -1_000;
      gate.node.number += 1;
      await until(async () => {
        const [entry] = requiredIn(await send(gate.url)).accepts;
        return Number(String(entry?.extra.memo).split(".")[2]) > wallSec() + 1_500;
      }, "the gate has seen the chain's next block");
      const answer = await paid(gate, { offSec: 1_000, accepted });
      expect([answer.status, answer.json.reason], answer.text).to.deep.equal([402, "memo_expired"]);
    });
  }

  for (const [what, place, lateSec] of [
    ["a quiet local chain", LOCAL, 7_200],
    ["a public chain that is far behind", PUBLIC, 600],
  ] as const) {
    it(`serves a proof of a payment in a block that its own node does not have, on ${what}`, async () => {
      const gate = await gateOn(place, lateSec);
      const [entry] = (await send(gate.url)).json.accepts;
      const settledAt = wallSec();
      const proof = proofOf(entry, { chainId: gate.chainId, settledAt, expiresAt: settledAt + 604_800 });
      const answer = await send(gate.url, { headers: headerOf(proof) });
      expect(answer.status, answer.text).to.equal(200);
    });
  }

  it("takes a sign-in for five minutes of the later time, by wallets whose clocks are 60 s off", async () => {
    for (const [place, lateSec] of [
      [LOCAL, 7_200],
      [LOCAL, -30],
      [PUBLIC, 100],
      [PUBLIC, 600],
    ] as const) {
      const chainSec = () => wallSec() - lateSec;
      const time = { nowSec: chainSec, latestSec: () => Math.max(chainSec(), wallSec()) };
      const settings = { network: { name: place.network, chainId: place.chainId }, memoKeys: [MEMO_KEY] };
      const at = { method: "GET", resource: "https://api.example/report" };
      const context = { settings, time, rpc: undefined } as never;
      const judged = async (ageSec: number, say: object = {}) => {
        const info = signInChallenge(settings as never, at, time.latestSec() - ageSec);
        const supportedChains = [{ chainId: `eip155:${place.chainId}`, type: "eip191" }];
        const headers = await answerTo({ info, supportedChains }, new Wallet(keyOf("payer")), { say: say as never });
        const found = await readSignIn(context, at, headers["SIGN-IN-WITH-X"]);
        return typeof found === "string" ? found : "taken";
      };
      const iso = (sec: number) => new Date(sec * 1_000).toISOString();
      expect([await judged(0), await judged(290), await judged(310)], `${lateSec} s`).to.deep.equal([
        ...["taken", "taken", "expired"],
      ]);
      expect(await judged(0, { notBefore: iso(wallSec() + 55) })).to.equal("taken");
      expect(await judged(0, { expirationTime: iso(time.latestSec() - 1) })).to.equal("expired");
    }
  });

  it("refuses what ends before it could settle, or far too late, also on a quiet chain", async () => {
    const gate = await gateOn(LOCAL, 7_200);
    for (const lifeSec of [-3_600, -1, 2, 420]) {
      const answer = await paid(gate, { lifeSec });
      expect([answer.status, answer.json.reason], `${lifeSec} s`).to.deep.equal([402, "window"]);
    }
    expect(gate.server.served.size).to.equal(0);
    expect(facilitator.calls).to.have.length(0);
  });

  it("answers 503 with the reason to payments over Permit2 on a public chain that is far behind", async () => {
    const gate = await gateOn(PUBLIC, 600, "permit2");
    for (const path of ["/report", "/upto"]) {
      for (const lifeSec of [300, -1]) {
        const answer = await paidOverPermit2(gate, path, { lifeSec });
        expect([answer.status, answer.json.reason], `${path}: ${answer.text}`).to.deep.equal([503, "chain_late"]);
      }
    }
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
