import { expect } from "chai";
import pino from "pino";
import { systemSchema } from "turnpike/facilitator";
import { isStale } from "../../../facilitator/src/chain/node-health";
import { createRpc } from "../../../facilitator/src/chain/rpc";
import { freePort } from "../../../scripts/sandbox/chain";
import { type Service, type ServiceWorld, startServiceWorld } from "../support/service";

const CHAIN_ID = 8453;
const log = pino({ enabled: false });

interface Question {
  readonly id: number;
  readonly method: string;
}
type Behaviour = (questions: readonly Question[], signal: AbortSignal) => Response | Promise<Response>;

const answering =
  (head: number, chainId = CHAIN_ID): Behaviour =>
  (questions) =>
    Response.json(
      questions.map(({ id, method }) => ({
        id,
        result: `0x${(method === "eth_chainId" ? chainId : head).toString(16)}`,
      })),
    );
const silent: Behaviour = (_, signal) =>
  new Promise((_resolve, reject) => signal.addEventListener("abort", () => reject(signal.reason)));

/** Nodes by what they do; each may be changed while it runs. */
function nodesOf(behaviours: Record<string, Behaviour>) {
  const urls = Object.keys(behaviours).map((host) => `https://user:hunter2@${host}/v2/s3cr3t?key=s3cr3t`);
  const fetch = (async (url: string, { body, signal }: { body: string; signal: AbortSignal }) => {
    const questions = JSON.parse(body) as Question | Question[];
    return behaviours[new URL(url).host]?.(Array.isArray(questions) ? questions : [questions], signal);
  }) as unknown as typeof globalThis.fetch;
  return createRpc({ urls, chainId: CHAIN_ID, timeoutMs: 40, log, fetch });
}

describe("Facilitator: a node whose newest block stays the same", () => {
  const seen = (number: number, sinceMs: number) => ({ number, sinceMs });

  it("HG7 is stale after half a minute in which another's has grown", () => {
    expect(isStale(seen(10, 0), [seen(10, 0), seen(13, 31_000)], 31_000)).to.equal(true);
    expect(isStale(seen(10, 0), [seen(10, 0), seen(13, 29_000)], 29_000), "too early").to.equal(false);
    expect(isStale(seen(13, 31_000), [seen(10, 0), seen(13, 31_000)], 31_000), "the other one").to.equal(false);
  });

  it("HG7 is not stale while the whole chain has stopped, although another is ahead", () => {
    expect(isStale(seen(10, 5_000), [seen(10, 5_000), seen(12, 4_000)], 90_000)).to.equal(false);
    expect(isStale(seen(10, 5_000), [seen(10, 5_000), undefined], 90_000)).to.equal(false);
    expect(isStale(undefined, [undefined, seen(12, 4_000)], 90_000)).to.equal(false);
  });
});

describe("Facilitator: how each node does", () => {
  it("reports which node answers, is behind, fails and by what, or serves another chain", async () => {
    const rpc = nodesOf({
      "well.example": answering(1_000),
      "behind.example:8545": answering(990),
      "limited.example": () => new Response("", { status: 429 }),
      "silent.example": silent,
      "other.example": answering(5_000, 1),
      "garbled.example": () => new Response("<html>"),
    });
    const nodes = await rpc.refreshNodes();
    expect(
      nodes.map(({ position, host, status, head, behind, lastFault }) => ({
        position,
        host,
        status,
        head,
        behind,
        code: lastFault?.code,
      })),
    ).to.deep.equal([
      { position: 1, host: "well.example", status: "well", head: 1_000, behind: 0, code: undefined },
      { position: 2, host: "behind.example:8545", status: "well", head: 990, behind: 10, code: undefined },
      { position: 3, host: "limited.example", status: "failing", head: undefined, behind: undefined, code: "http_429" },
      { position: 4, host: "silent.example", status: "failing", head: undefined, behind: undefined, code: "timeout" },
      {
        position: 5,
        host: "other.example",
        status: "wrong_chain",
        head: undefined,
        behind: undefined,
        code: undefined,
      },
      { position: 6, host: "garbled.example", status: "failing", head: undefined, behind: undefined, code: "no_json" },
    ]);
    expect(JSON.stringify(nodes)).not.to.match(/s3cr3t|hunter2|user/);
  });

  it("reports what the service's own requests showed, before any probe", async () => {
    const behaviours: Record<string, Behaviour> = {
      "first.example": () => new Response("", { status: 503 }),
      "second.example": answering(7),
    };
    const rpc = nodesOf(behaviours);
    expect(await rpc.request("eth_gasPrice", [])).to.equal("0x7");
    expect(rpc.nodes().map(({ status }) => status)).to.deep.equal(["failing", "well"]);
    behaviours["first.example"] = answering(8);
    behaviours["second.example"] = () => new Response("", { status: 503 });
    expect(await rpc.request("eth_gasPrice", [])).to.equal("0x8");
    const [first] = rpc.nodes();
    // It answers again; that it did not is still worth knowing.
    expect(first).to.include({ status: "well" });
    expect(first?.lastFault?.code).to.equal("http_503");
  });

  describe("in a service", function () {
    this.timeout(120_000);
    let world: ServiceWorld;
    let service: Service;
    let operatorKey: string;

    before(async () => {
      world = await startServiceWorld();
      const operator = await world.payer(0n);
      const nobody = `http://127.0.0.1:${await freePort()}/s3cr3t`;
      const settings = { RPC_URLS: `${world.chain.rpcUrl}/?key=s3cr3t,${nobody}`, OPERATORS: operator.address };
      service = await world.service({ RENEWALS: "false", ...settings });
      operatorKey = await service.apiKey({ wallet: operator, scopes: ["read"] });
    });
    after(() => world?.stop());

    it("B22 shows its operator each node without its URL", async () => {
      const answer = await fetch(`${service.url}/operator/system`, {
        headers: { authorization: `Bearer ${operatorKey}` },
      });
      const text = await answer.text();
      const { rpcNodes } = systemSchema.parse(JSON.parse(text));
      expect(rpcNodes.map(({ status }) => status)).to.deep.equal(["well", "failing"]);
      expect(rpcNodes[0]?.head).to.be.a("number");
      expect(rpcNodes[0]?.behind).to.equal(0);
      expect(rpcNodes[1]?.lastFault?.code).to.equal("econnrefused");
      expect(text).not.to.include("s3cr3t");
      const metrics = await (await fetch(`${service.url}/metrics`)).text();
      expect(metrics)
        .to.include('turnpike_rpc_node_well{node="1"} 1')
        .and.include('turnpike_rpc_node_well{node="2"} 0');
      expect(metrics).to.include('turnpike_rpc_node_behind_blocks{node="1"} 0').and.not.include("s3cr3t");
    });
  });
});
