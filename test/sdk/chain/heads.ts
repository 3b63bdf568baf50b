import { expect } from "chai";
import {
  type ChainClock,
  createChainClock,
  createStateReader,
  type HeadWatcher,
  lensInterface,
  type Rpc,
  type StateReader,
  watchHeads,
} from "turnpike/chain";
import { type Hex, Unavailable } from "turnpike/protocol";
import { pollPaceMs } from "../../../sdk/src/chain/heads";

const TURNPIKE: Hex = `0x${"71".repeat(20)}`;
const idHash = (n: number): Hex => `0x${n.toString(16).padStart(64, "0")}`;
const hex = (n: number): Hex => `0x${n.toString(16)}`;

/** An endpoint whose chain the test writes. */
class HandMadeChain implements Rpc {
  blocks = [{ number: 100, hash: "0x100a", parentHash: "0x99a", timestamp: 5_000 }];
  readonly logs = new Map<string, string[]>();
  readonly calls: { method: string; params: readonly unknown[] }[] = [];
  subscriber = `0x${"aa".repeat(20)}`;
  isDown = false;
  /** runs between the request and the response of an eth_call */
  duringCall: () => void | Promise<void> = () => undefined;

  get head() {
    return this.blocks.at(-1) as (typeof this.blocks)[number];
  }
  mine(touched: string[] = [], fork = "a", secondsLater = 2): void {
    const { number, hash, timestamp } = this.head;
    const next = `0x${number + 1}${fork}`;
    this.blocks.push({ number: number + 1, hash: next, parentHash: hash, timestamp: timestamp + secondsLater });
    this.logs.set(next, touched);
  }
  count = (method: string) => this.calls.filter((call) => call.method === method).length;
  onBlock = () => () => undefined;
  close(): void {}

  async send<T>(method: string, params: readonly unknown[]): Promise<T> {
    this.calls.push({ method, params });
    if (this.isDown) throw new Unavailable("down");
    return (await this.answer(method, params)) as T;
  }

  private async answer(method: string, params: readonly unknown[]): Promise<unknown> {
    if (method === "eth_getBlockByNumber") {
      const block = params[0] === "latest" ? this.head : this.blocks.find(({ number }) => hex(number) === params[0]);
      return block && { ...block, number: hex(block.number), timestamp: hex(block.timestamp) };
    }
    if (method === "eth_getLogs") {
      const filter = params[0] as { blockHash?: string; fromBlock?: string; toBlock?: string };
      const inRange = this.blocks.filter(
        ({ hash, number }) =>
          hash === filter.blockHash || (number >= Number(filter.fromBlock) && number <= Number(filter.toBlock)),
      );
      return inRange.flatMap(({ hash }) =>
        (this.logs.get(hash) ?? []).map((topic) => ({ topics: ["0xevent", topic] })),
      );
    }
    const [{ data }] = params as [{ data: string }];
    const [ids] = lensInterface.decodeFunctionData("getStates", data);
    const answer = (ids as string[]).map((id) => this.state(id));
    await this.duringCall();
    return lensInterface.encodeFunctionResult("getStates", [answer]);
  }

  private state(id: string) {
    const known = BigInt(id) < 1_000n;
    return {
      subscription: {
        idHash: id,
        subscriber: known ? this.subscriber : `0x${"00".repeat(20)}`,
        planId: idHash(7),
        paidThrough: 9_000,
        version: 1,
        paused: false,
        ending: false,
        cancelled: false,
        status: 1,
        intro: false,
        anchorDay: 0,
        until: 0,
        nextPlanId: `0x${"00".repeat(32)}`,
      },
      allowance: { cap: 10, spent: 1, remaining: 9, cycle: 9_000, debits: 1 },
    };
  }
}

describe("following the chain's head", () => {
  let chain: HandMadeChain;
  let clock: ChainClock;
  let heads: HeadWatcher;
  let states: StateReader;
  let nowMs: number;
  const monotonicMs = () => nowMs;

  beforeEach(() => {
    chain = new HandMadeChain();
    nowMs = 0;
    clock = createChainClock({ monotonicMs });
    // The timer never fires within a test: the test requests every poll.
    heads = watchHeads({
      rpc: chain,
      clock,
      turnpike: TURNPIKE,
      pollMs: 3_600_000,
      askMs: 0,
      maxAgeMs: 5_000,
      monotonicMs,
    });
    states = createStateReader({ rpc: chain, turnpike: TURNPIKE, heads, monotonicMs, unknownPerSec: 5 });
  });
  afterEach(() => {
    states.close();
    heads.close();
  });

  const newest = async () => {
    nowMs += 1;
    await heads.newest();
  };

  it("returns chain time: the head's timestamp plus the time since it was read", async () => {
    expect(() => clock.nowSec()).to.throw(Unavailable);
    await newest();
    expect(clock.nowSec()).to.equal(5_000);
    nowMs += 4_999;
    expect(clock.nowSec()).to.equal(5_004);
    chain.mine([], "a", 30);
    await newest();
    expect(clock.nowSec()).to.equal(5_030);
  });

  it("reads a record once for any number of callers and calls", async () => {
    const asked = await Promise.all([states.read(idHash(1)), states.read(idHash(1)), states.read(idHash(2))]);
    expect(asked[0]).to.equal(asked[1]);
    expect(asked[0]).to.deep.include({ known: true, paidThroughSec: 9_000, blockNumber: 100 });
    for (let i = 0; i < 10; i++) await states.read(idHash(1));
    expect(chain.count("eth_call")).to.equal(1);
    expect(chain.calls.find(({ method }) => method === "eth_call")?.params[1]).to.equal("0x64");
  });

  it("invalidates only the records that a new block touched", async () => {
    await Promise.all([states.read(idHash(1)), states.read(idHash(2))]);
    chain.mine([idHash(1)]);
    await newest();
    expect(states.peek(idHash(1))).to.equal(undefined);
    expect(states.peek(idHash(2))).to.not.equal(undefined);
    chain.mine();
    chain.mine([idHash(2)]);
    chain.mine();
    await newest();
    expect(states.peek(idHash(2))).to.equal(undefined);
    expect(chain.count("eth_getLogs")).to.equal(2);
  });

  it("does not cache a read that a new block overtook", async () => {
    await newest();
    let mined = false;
    chain.duringCall = async () => {
      if (mined) return;
      mined = true;
      chain.subscriber = `0x${"bb".repeat(20)}`;
      chain.mine([idHash(1)]);
      await newest();
    };
    const state = await states.read(idHash(1));
    expect(state.subscriber.toLowerCase()).to.equal(chain.subscriber);
    expect(state.blockNumber).to.equal(101);
  });

  it("invalidates everything after a reorganization", async () => {
    chain.mine();
    await states.read(idHash(1));
    chain.blocks.pop();
    chain.mine([], "b");
    await newest();
    expect(states.peek(idHash(1))).to.equal(undefined);

    await states.read(idHash(1));
    chain.blocks.pop();
    chain.mine([], "c");
    chain.mine([], "c");
    await newest();
    expect(states.peek(idHash(1))).to.equal(undefined);
  });

  it("caches an unknown id for one block, and limits how often it is read", async () => {
    expect((await states.read(idHash(5_000))).known).to.equal(false);
    await states.read(idHash(5_000));
    expect(chain.count("eth_call")).to.equal(1);
    chain.mine();
    await newest();
    expect(states.peek(idHash(5_000))).to.equal(undefined);

    for (let i = 0; i < 4; i++) await states.read(idHash(6_000 + i));
    const refused = await states.read(idHash(7_000)).catch((error: unknown) => error);
    expect(refused).to.be.instanceOf(Unavailable);
    await states.read(idHash(1)).catch((error: unknown) => error);
    nowMs += 1_000;
    expect((await states.read(idHash(7_000))).known).to.equal(false);
  });

  it("C6 returns nothing once the head has been unconfirmed for too long", async () => {
    await states.read(idHash(1));
    chain.isDown = true;
    nowMs += 4_000;
    expect(states.peek(idHash(1)), "within the ceiling").to.not.equal(undefined);
    nowMs += 2_000;
    expect(states.peek(idHash(1))).to.equal(undefined);
    expect(await states.read(idHash(1)).catch((error: unknown) => error)).to.be.instanceOf(Unavailable);
    chain.isDown = false;
    expect((await states.read(idHash(1))).known).to.equal(true);
  });

  it("C6 does not count a lagging endpoint as a confirmation", async () => {
    chain.mine();
    await states.read(idHash(1));
    chain.blocks.pop();
    nowMs += 4_000;
    const lagging = await heads.newest().catch((error: unknown) => error);
    expect(lagging).to.deep.include({ number: 101 });
    nowMs += 2_000;
    expect(states.peek(idHash(1))).to.equal(undefined);
  });

  it("C6 detects a head that no longer advances", async () => {
    const watched = watchHeads({
      rpc: chain,
      clock,
      turnpike: TURNPIKE,
      pollMs: 3_600_000,
      askMs: 0,
      maxAgeMs: 5_000,
      monotonicMs,
      maxSilenceMs: 60_000,
    });
    await watched.current();
    nowMs += 60_001;
    expect(await watched.current().catch((error: unknown) => error)).to.be.instanceOf(Unavailable);
    chain.mine();
    nowMs += 1;
    expect((await watched.current()).number).to.equal(101);
    watched.close();
  });

  it("HA5 shares one read of the newest head among all callers, and returns older facts to none of them", async () => {
    await states.read(idHash(1));
    nowMs += 1;
    const before = chain.count("eth_getBlockByNumber");
    await Promise.all(Array.from({ length: 500 }, () => states.recheck(idHash(1))));
    expect(chain.count("eth_getBlockByNumber") - before).to.be.at.most(2);
    expect(chain.count("eth_call"), "no block has touched it").to.equal(1);
    // More than are rechecked in a second, and one of them changed.
    chain.subscriber = `0x${"cc".repeat(20)}`;
    chain.mine([idHash(1)]);
    nowMs += 1;
    expect((await states.recheck(idHash(1))).subscriber.toLowerCase()).to.equal(chain.subscriber);
  });

  it("HA5 reads the newest head no more often than configured", async () => {
    const spaced = watchHeads({ rpc: chain, clock, turnpike: TURNPIKE, pollMs: 3_600_000, askMs: 30 });
    const startedMs = performance.now();
    const before = chain.count("eth_getBlockByNumber");
    for (let i = 0; i < 6; i++) await spaced.newest();
    const most = Math.ceil((performance.now() - startedMs) / 30) + 1;
    expect(chain.count("eth_getBlockByNumber") - before).to.be.within(1, most);
    spaced.close();
  });

  it("HA5 polls at the chain's block time, within bounds", () => {
    expect([1, 250, 400, 1_000, 12_000].map(pollPaceMs)).to.deep.equal([250, 250, 400, 1_000, 1_000]);
  });

  it("reads a record again at its maximum age, regardless of the logs", async () => {
    await states.read(idHash(1));
    for (let i = 0; i < 13; i++) {
      nowMs += 5_000;
      chain.mine();
      await newest();
    }
    expect(states.peek(idHash(1))).to.equal(undefined);
  });

  it("reads the head again where the poll and the timer of a request that ended are lost, as on workerd", async () => {
    const chain = new HandMadeChain();
    const answer = chain.send.bind(chain);
    let isLost = true;
    chain.send = async (method, params) => (isLost ? new Promise<never>(() => undefined) : answer(method, params));
    const now = performance.now.bind(performance);
    let passedMs = 0;
    performance.now = () => now() + passedMs;
    const lost = watchHeads({ rpc: chain, clock: createChainClock(), turnpike: TURNPIKE, pollMs: 60_000 });
    try {
      void lost.newest();
      await new Promise((resolve) => setImmediate(resolve));
      isLost = false;
      passedMs = 13_000;
      expect((await lost.newest()).number).to.equal(100);
    } finally {
      performance.now = now;
      lost.close();
    }
  });
});
