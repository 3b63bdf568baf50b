/** A chain with Turnpike, plans and subscribers, behind an RPC that can be counted, cut and made to lie. */
import { Agent, createServer, request as httpRequest } from "node:http";
import { pipeline } from "node:stream";
import { text } from "node:stream/consumers";
import { Contract, MaxUint256 } from "ethers";
import { createPlan, tokenInterface, turnpikeInterface } from "turnpike/chain";
import { type Address, type Hex, idHashOf, keccakText, secretHashOf, subscriptionId } from "turnpike/protocol";
import { signupArgs } from "./acts";
import { type Chain, startChain } from "./chain";
import { deployAll, type LocalContracts } from "./deployment";
import { closeServer, listen } from "./gate";
import { until as waitUntil } from "./until";

export const DAY = 86_400;
export const PRICE = 10_000_000n;

export interface RpcProxy {
  readonly url: string;
  /** methods asked for, in order */
  readonly methods: string[];
  isDown: boolean;
  /** questions that were cut off while it was down */
  refused: number;
  stop(): Promise<void>;
}

/** @param target a real node, which answers for it */
export async function startRpcProxy(target: string): Promise<RpcProxy> {
  const methods: string[] = [];
  // A connection for each question: the node closes one that was idle, which may cross a question on its way.
  const agent = new Agent({ keepAlive: false });
  const server = createServer(async (request, response) => {
    if (proxy.isDown) {
      proxy.refused++;
      return void request.socket.destroy();
    }
    // The client or the node may be gone: the other one sees a connection that ended.
    const cut = (): void => void request.socket.destroy();
    const body = await text(request).catch(cut);
    if (typeof body !== "string") return;
    methods.push(String(JSON.parse(body).method));
    const headers = { "content-type": "application/json", "content-length": Buffer.byteLength(body) };
    const asked = httpRequest(target, { method: "POST", agent, headers }, (answer) => {
      response.writeHead(answer.statusCode ?? 502, { "content-type": "application/json" });
      pipeline(answer, response, () => undefined);
    });
    asked.on("error", cut).end(body);
  });
  const proxy: RpcProxy = {
    url: await listen(server),
    methods,
    isDown: false,
    refused: 0,
    stop: () => closeServer(server),
  };
  return proxy;
}

export interface Subscribed {
  readonly id: string;
  readonly idHash: Hex;
  readonly secret: Hex;
  /** Turnpike as this subscriber */
  readonly turnpike: Contract;
}

export interface SubscriptionWorld {
  readonly chain: Chain;
  readonly contracts: LocalContracts;
  readonly rpc: RpcProxy;
  readonly planId: Hex;
  readonly otherPlanId: Hex;
  readonly treasury: Address;
  subscribe(name: string, options?: { planId?: Hex; maxOverage?: bigint }): Promise<Subscribed>;
  /** sends and waits */
  mined(sent: Promise<{ wait(): Promise<unknown> }>): Promise<void>;
  stop(): Promise<void>;
}

export async function startSubscriptionWorld(): Promise<SubscriptionWorld> {
  const chain = await startChain();
  const contracts = await deployAll(chain);
  const rpc = await startRpcProxy(chain.rpcUrl);
  const provider = await chain.wallet("provider");
  const treasury = (await chain.wallet("treasury")).address as Address;
  const terms = { token: contracts.token, intervalSec: 30 * DAY, graceSec: 3 * DAY, payTo: treasury };
  const { planId } = await createPlan(provider, contracts.turnpike, { ...terms, amount: PRICE });
  const { planId: otherPlanId } = await createPlan(provider, contracts.turnpike, { ...terms, amount: 3n * PRICE });
  const mined: SubscriptionWorld["mined"] = async (sent) => void (await (await sent).wait());
  return {
    chain,
    contracts,
    rpc,
    planId,
    otherPlanId,
    treasury,
    mined,
    async subscribe(name, options = {}) {
      const wallet = await chain.wallet(name);
      await contracts.mint(wallet.address, 1_000n * PRICE);
      const token = new Contract(
        contracts.token,
        [...tokenInterface.fragments, "function approve(address,uint256) returns (bool)"],
        wallet,
      );
      await mined(token.getFunction("approve")(contracts.turnpike, MaxUint256));
      const turnpike = new Contract(contracts.turnpike, turnpikeInterface, wallet);
      const secret = keccakText(`secret of ${name} ${Math.random()}`);
      const subscriber = wallet.address as Address;
      const signup = { planId, ...options, secretHash: secretHashOf(secret) };
      await mined(turnpike.getFunction("subscribe")(...signupArgs(subscriber, signup)));
      const idHash = idHashOf(subscriber, secretHashOf(secret));
      return { id: subscriptionId(subscriber, secret), idHash, secret, turnpike };
    },
    async stop() {
      await rpc.stop();
      await chain.stop();
    },
  };
}

/** Polls until the condition holds; no test waits for a fixed time. */
export async function until(condition: () => Promise<boolean> | boolean, timeoutMs = 60_000): Promise<void> {
  const what = String(condition).replace(/\s+/g, " ").slice(0, 200);
  await waitUntil(async () => condition(), what, timeoutMs);
}
