/** What an agent says of a server, a chain or an option that is not what it should be: always an error with a remedy. */
import { createServer, type RequestListener, type Server } from "node:http";
import { expect } from "chai";
import { type Agent, type AgentOptions, createAgent, walletFromKey } from "turnpike/agent";
import { connectRpc } from "turnpike/chain";
import { isTurnpikeError, type TurnpikeError } from "turnpike/protocol";
import { createChainReader } from "../../../sdk/src/chain/reader";
import { errorAnswer } from "../../../sdk/src/gate/core/answer";
import { closeServer, listen } from "../../support/gate";
import { rejection } from "./support/rejection";

const TOKEN: `0x${string}` = `0x${"70".repeat(20)}`;

const OPTIONS: AgentOptions = {
  wallet: walletFromKey(`0x${"11".repeat(32)}`),
  policy: { perPayment: 1_000_000, perDay: 1_000_000, tokens: [TOKEN] },
  facilitators: ["http://127.0.0.1:9"],
};

describe("an agent's messages", () => {
  const servers: Server[] = [];
  const agents: Agent[] = [];
  afterEach(async () => {
    for (const agent of agents.splice(0)) await agent.close();
    for (const server of servers.splice(0)) await closeServer(server);
  });
  const agentOf = (more: object = {}): Agent => {
    const agent = createAgent({ ...OPTIONS, ...more });
    agents.push(agent);
    return agent;
  };
  async function serve(answer: RequestListener): Promise<string> {
    const server = createServer(answer);
    servers.push(server);
    return listen(server);
  }
  async function goneServer(): Promise<string> {
    const server = createServer();
    const url = await listen(server);
    await closeServer(server);
    return url;
  }

  it("are of an Unavailable where the provider cannot be reached, by pay, fetch and quote", async () => {
    const url = `${await goneServer()}/quote?key=secret`;
    const failing = { fetch: () => Promise.reject(new TypeError("fetch failed")) };
    for (const [agent, said] of [
      [agentOf(), "cannot be reached: ECONNREFUSED"],
      [agentOf(failing), "cannot be reached: fetch failed"],
    ] as const) {
      for (const call of [() => agent.pay(url), () => agent.fetch(url), () => agent.quote(url)]) {
        const error = await rejection(call());
        expect(isTurnpikeError(error), String(error)).to.equal(true);
        expect(error).to.include({ code: "Unavailable", retryable: true });
        expect(error.message).to.include(said).and.to.not.include("secret");
      }
    }
  });

  const terms: Record<string, [RequestListener, RegExp]> = {
    "another protocol's challenge": [
      (_, response) => void response.writeHead(402, { "www-authenticate": 'Payment id="x", method="tempo"' }).end(),
      /WWW-Authenticate: Payment \(MPP\) names no charge of the method evm/,
    ],
    "no terms at all": [
      (_, response) => void response.writeHead(402).end("pay me"),
      /neither a JSON body .* nor .*PAYMENT-REQUIRED/,
    ],
  };
  for (const [name, [answer, said]] of Object.entries(terms)) {
    it(`say what is wrong with a 402 of ${name}, and do not ask for a wider policy`, async () => {
      const url = await serve(answer);
      const error = await rejection(agentOf().pay(url));
      expect(error).to.include({ code: "PolicyRefused", reason: "quote" });
      expect(error.message).to.match(said);
      expect(error.remedy).to.not.include("Widen the policy");
    });
  }

  it("keep the remedy of a policy that is too narrow", async () => {
    const url = await serve((request, response) => {
      const resource = `http://${request.headers.host}${request.url}`;
      const entry = {
        ...{ scheme: "exact", network: "base", maxAmountRequired: "5000000", resource, description: "", mimeType: "" },
        ...{ payTo: `0x${"22".repeat(20)}`, maxTimeoutSeconds: 60, asset: TOKEN, extra: { name: "A", version: "1" } },
      };
      response.writeHead(402, { "content-type": "application/json" });
      response.end(JSON.stringify({ x402Version: 1, error: "", accepts: [entry] }));
    });
    const error = await rejection(agentOf().pay(url));
    expect(error.code).to.equal("PolicyRefused");
    expect(error.remedy).to.equal("Widen the policy, or do without.");
  });

  const nodes: Record<string, [RequestListener, string]> = {
    "a wrong key": [(_, response) => void response.writeHead(401).end("no"), "HTTP 401"],
    "a web page": [(_, response) => void response.end("<html>"), "an answer that is not JSON"],
  };
  for (const [name, [answer, said]] of Object.entries(nodes)) {
    it(`name the chain's endpoint without its key, and what came back: ${name}`, async () => {
      const url = `${await serve(answer)}/v2/s3cr3t`;
      const { host } = new URL(url);
      const rpc = connectRpc({ urls: url, chainId: 31_337 });
      const ofGate = await rejection(rpc.send("eth_getBlockByNumber", ["latest", false]));
      expect(ofGate.message).to.include("eth_getBlockByNumber").and.to.include(said).and.to.include(host);
      expect(errorAnswer(ofGate).body, "what a gate's client gets").to.include("Unavailable").and.to.not.include(host);
      rpc.close();
      const { signal } = new AbortController();
      const reader = createChainReader({ url, chainId: 31_337, fetch, signal, timeoutMs: 5_000 });
      const ofAgent = await rejection(reader.balance(TOKEN, TOKEN));
      expect(ofAgent.message).to.include(host).and.to.include(said);
      for (const { message } of [ofGate, ofAgent]) expect(message).to.not.include("s3cr3t");
    });
  }

  const wrong: readonly (readonly [name: string, options: unknown])[] = [
    ["options", undefined],
    ["options", "wallet"],
    ["policy", { ...OPTIONS, policy: undefined }],
    ["policy", { ...OPTIONS, policy: "all" }],
    ["wallet", { ...OPTIONS, wallet: undefined }],
    ["facilitators[0]", { ...OPTIONS, facilitators: [undefined] }],
    ["facilitators[0]", { ...OPTIONS, facilitators: [5] }],
    ["facilitators", { ...OPTIONS, facilitators: undefined }],
    ["networks", { ...OPTIONS, networks: {} }],
    ["deployments", { ...OPTIONS, deployments: {} }],
    ["tokens", { ...OPTIONS, tokens: "0x" }],
    ["rpc", { ...OPTIONS, rpc: 5 }],
    ["rpc.8453", { ...OPTIONS, rpc: { 8453: 5 } }],
    ["fetch", { ...OPTIONS, fetch: "fetch" }],
    ["onEvent", { ...OPTIONS, onEvent: {} }],
    ["ledger", { ...OPTIONS, ledger: "ledger.json" }],
    ["receipts", { ...OPTIONS, receipts: "receipts" }],
    ["limits", { ...OPTIONS, limits: 5 }],
    ["clock", { ...OPTIONS, clock: 5 }],
  ];
  for (const [name, options] of wrong) {
    it(`name an option that is missing or of another kind: ${name}`, () => {
      let error: TurnpikeError | undefined;
      try {
        createAgent(options as AgentOptions);
      } catch (thrown) {
        error = thrown as TurnpikeError;
      }
      expect(error?.code, String(error)).to.equal("ConfigError");
      expect(error?.message).to.match(new RegExp(`\\b${name.replace(/[[\]]/g, "\\$&")}`));
    });
  }
});
