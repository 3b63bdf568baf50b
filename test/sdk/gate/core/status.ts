import { connect, createServer, type Server, type Socket } from "node:net";
import { expect } from "chai";
import type { Provider } from "turnpike/gate";
import { NO_AUTH } from "../../../support/acts";
import {
  FRAMEWORKS,
  type SmallFacilitator,
  send,
  startSmallFacilitator,
  type TestServer,
  testProvider,
} from "../../../support/gate";
import { type SubscriptionWorld, startSubscriptionWorld, until } from "../../../support/subscriptions";

describe("a subscription's status", function () {
  this.timeout(120_000);
  let world: SubscriptionWorld;
  let facilitator: SmallFacilitator;
  let provider: Provider;
  let server: TestServer;
  let relay: Server;
  const sockets = new Set<Socket>();

  before(async () => {
    world = await startSubscriptionWorld();
    facilitator = await startSmallFacilitator();
    // The node's own socket, through a relay that can be cut.
    relay = createServer((near) => {
      const far = connect(Number(new URL(world.chain.rpcUrl).port), "127.0.0.1");
      for (const socket of [near, far]) sockets.add(socket.on("error", () => undefined));
      near.pipe(far).pipe(near);
    });
    await new Promise<void>((resolve) => relay.listen(0, "127.0.0.1", resolve));
  });
  after(async () => {
    cut();
    relay.close();
    await facilitator.stop();
    await world.stop();
  });
  afterEach(async () => {
    await server.stop();
    await provider.close();
  });

  function cut(): void {
    for (const socket of sockets) socket.destroy();
    sockets.clear();
  }

  async function gateOver(rpcUrl: string, pollMs: number): Promise<void> {
    const { contracts, planId } = world;
    provider = testProvider(facilitator, {
      token: { address: contracts.token, name: contracts.tokenName, version: contracts.tokenVersion },
      rpcUrl,
      turnpike: contracts.turnpike,
      pollMs,
      clock: undefined as never,
    });
    const gate = { pricing: [{ type: "subscription", plan: planId }] } as const;
    server = await FRAMEWORKS.express(provider, [{ path: "/feed", gate }]);
    await provider.ready();
  }
  const ask = (id: string) => send(`${server.url}/feed`, { headers: { "X-Service-Sub": id } });
  const socketUrl = () => `ws://127.0.0.1:${(relay.address() as { port: number }).port}`;

  it("costs no call of any kind per request: of 300 requests the chain hears nothing but the clock's polls", async () => {
    const pollMs = 200;
    await gateOver(world.rpc.url, pollMs);
    const { id } = await world.subscribe("counted");
    expect((await ask(id)).status).to.equal(200);
    const beganMs = performance.now();
    world.rpc.methods.length = 0;
    for (let i = 0; i < 300; i++) expect((await ask(id)).status).to.equal(200);
    const polls = Math.ceil((performance.now() - beganMs) / pollMs) + 1;
    const asked = world.rpc.methods.filter((method) => method !== "eth_getLogs");
    expect(new Set(asked)).to.satisfy((kinds: Set<string>) =>
      [...kinds].every((one) => one === "eth_getBlockByNumber"),
    );
    expect(asked.length).to.be.at.most(2 * polls);
  });

  it("C12 is pushed over a websocket: a cancellation is refused without waiting for a poll", async () => {
    await gateOver(socketUrl(), 30_000);
    const { id, idHash, turnpike } = await world.subscribe("pushed");
    expect((await ask(id)).status).to.equal(200);
    await world.mined(turnpike.getFunction("cancel")(idHash, false, NO_AUTH));
    // Sooner than the next poll.
    await until(async () => (await ask(id)).status === 402, 25_000);
  });

  it("C12 is followed again after the connection dropped", async () => {
    await gateOver(socketUrl(), 500);
    const { id, idHash, turnpike } = await world.subscribe("dropped");
    expect((await ask(id)).status).to.equal(200);
    cut();
    await world.mined(turnpike.getFunction("cancel")(idHash, false, NO_AUTH));
    await until(async () => (await ask(id)).status === 402);
    const next = await world.subscribe("after the drop");
    await until(async () => (await ask(next.id)).status === 200);
  });

  it("C6 is served from nothing older than its ceiling: then 503, never 402, until the chain is there again", async () => {
    await gateOver(world.rpc.url, 100);
    const { id } = await world.subscribe("aged");
    expect((await ask(id)).status).to.equal(200);
    world.rpc.isDown = true;
    await until(async () => (await ask(id)).status === 503);
    world.rpc.isDown = false;
    await until(async () => (await ask(id)).status === 200);
  });
});
