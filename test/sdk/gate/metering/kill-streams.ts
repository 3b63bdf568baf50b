import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { closeSync, mkdtempSync, openSync, readFileSync, rmSync } from "node:fs";
import { Agent, get } from "node:http";
import { tmpdir } from "node:os";
import path from "node:path";
import { expect } from "chai";
import { Contract } from "ethers";
import { turnpikeInterface } from "turnpike/chain";
import { bundled } from "../../../support/bundled";
import { testKey } from "../../../support/chain";
import { addressOf, send } from "../../../support/gate";
import { startPostgres, type TestPostgres } from "../../../support/postgres";
import { type Subscribed, type SubscriptionWorld, startSubscriptionWorld, until } from "../../../support/subscriptions";
import type { StreamGateAssignment } from "../support/stream-gate-process";

const SCRIPT = path.join(__dirname, "../support/stream-gate-process.ts");
/** of both parts together: a fifth of them against two gates */
const STREAMS = Number(process.env.STREAMS ?? 200);
const SEED = Number(process.env.SEED ?? Math.floor(Math.random() * 2 ** 31));
const PARALLEL = 24;
/** in each part */
const KILLS = Number(process.env.KILLS ?? 3);
/** base units for so many units: no unit costs a whole number of them */
const PRICE = { amount: 30, per: 7 };
const STEP = 100;
const SMALL_CAP = 3_001n;
const MAX_UNITS = 9;

/** Of subscriber 0: the cap ends its streams. */
const isSmall = (stream: number): boolean => stream % 8 === 0;

const costOf = (units: number): bigint => BigInt(Math.ceil((units * PRICE.amount) / PRICE.per));

describe(`Streams that are cut while their gates are killed (SEED=${SEED})`, function () {
  this.timeout(900_000);
  let world: SubscriptionWorld;
  let postgres: TestPostgres;
  let folder: string;
  let script: string;
  const children = new Set<ChildProcess>();
  const outputs: string[] = [];

  before(async () => {
    folder = mkdtempSync(path.join(tmpdir(), "turnpike-streams-"));
    script = bundled(SCRIPT, folder);
    [world, postgres] = await Promise.all([startSubscriptionWorld(), startPostgres()]);
    await world.chain.wallet("provider");
  });
  after(async () => {
    for (const child of children) child.kill("SIGKILL");
    await postgres?.stop();
    await world?.stop();
    rmSync(folder, { recursive: true, force: true });
  });
  beforeEach(() => void outputs.splice(0));

  async function launch(store: StreamGateAssignment["store"]): Promise<{ child: ChildProcess; url: string }> {
    const { contracts, rpc, chain, planId } = world;
    const options = {
      network: `local-${chain.chainId}`,
      token: { address: contracts.token, name: contracts.tokenName, version: contracts.tokenVersion },
      payTo: addressOf("treasury"),
      facilitator: { url: "http://127.0.0.1:1", signers: [addressOf("facilitator")] },
      secret: "a secret of this test, long enough to be one",
      rpcUrl: rpc.url,
      turnpike: contracts.turnpike,
      operatorKey: testKey("provider") as `0x${string}`,
      pollMs: 50,
    };
    // A file, not a pipe: it keeps what the gate wrote before it was killed.
    const output = path.join(folder, `output-${children.size}`);
    const out = openSync(output, "a");
    const assignment: StreamGateAssignment = { options, planId, unitPrice: PRICE, step: STEP, store };
    const child = spawn(process.execPath, [script, JSON.stringify(assignment)], {
      stdio: ["ignore", out, "inherit"],
      env: { ...process.env, NODE_NO_WARNINGS: "1" },
    });
    closeSync(out);
    children.add(child);
    outputs.push(output);
    let url = "";
    await until(() => {
      expect(child.exitCode).to.equal(null);
      url = /^(http\S+)\n/.exec(readFileSync(output, "utf8"))?.[1] ?? "";
      return url !== "";
    }, 180_000);
    return { child, url };
  }

  /** Reads a stream, and leaves after so many bytes. @returns its status, 0 where the gate was killed */
  function read(url: string, id: string, leaveAfter: number, agent: Agent): Promise<number> {
    return new Promise((resolve) => {
      const request = get(url, { agent, headers: { "X-Service-Sub": id } }, (answer) => {
        let bytes = 0;
        answer.on("data", (chunk: Buffer) => {
          bytes += chunk.length;
          if (bytes >= leaveAfter) answer.destroy();
        });
        answer.on("error", () => undefined);
        answer.on("close", () => resolve(answer.statusCode ?? 0));
      });
      request.on("error", () => resolve(0));
    });
  }

  interface Delivered {
    /** base units, of what was delivered */
    readonly cost: bigint;
    /** base units charged, where the stream ended before its gate was killed */
    readonly ended: bigint | undefined;
  }

  function deliveries(): Map<number, Delivered> {
    const units = new Map<number, number>();
    const ended = new Map<number, bigint>();
    for (const output of outputs) {
      for (const line of readFileSync(output, "utf8").split("\n")) {
        const [word, name, amount] = line.split(" ");
        const stream = Number(name);
        if (word === "part") units.set(stream, (units.get(stream) ?? 0) + Number(amount));
        if (word === "end") ended.set(stream, BigInt(amount ?? 0));
      }
    }
    return new Map([...units].map(([stream, sum]) => [stream, { cost: costOf(sum), ended: ended.get(stream) }]));
  }

  async function debited(idHash: string): Promise<bigint> {
    const turnpike = new Contract(world.contracts.turnpike, turnpikeInterface, world.chain.provider);
    const logs = (await turnpike.queryFilter("Debited", 0)).map((log) => turnpikeInterface.parseLog(log)?.args);
    const own = logs.filter((args) => args?.idHash === idHash);
    expect(own.map((args) => Number(args?.index))).to.deep.equal(own.map((_, i) => i));
    return own.reduce((sum, args) => sum + (args?.amount as bigint), 0n);
  }

  /** Runs the streams against these gates, kills one after the other, settles, and compares. */
  async function run(streams: number, stores: readonly StreamGateAssignment["store"][]): Promise<void> {
    const random = randomOf(SEED);
    const subscribers: Subscribed[] = [];
    for (let i = 0; i < 4; i++) {
      const maxOverage = i === 0 ? SMALL_CAP : 10n ** 9n;
      subscribers.push(await world.subscribe(`${stores.length} gates ${i}`, { maxOverage }));
    }
    const of = (stream: number): number => (isSmall(stream) ? 0 : 1 + (stream % 3));
    const gates = await Promise.all(stores.map((store) => launch(store)));
    const agent = new Agent({ keepAlive: true, maxSockets: PARALLEL });
    const perKill = Math.floor(streams / (KILLS + 1));
    let [next, done, killed] = [0, 0, 0];
    let killing: Promise<void> | undefined;

    async function kill(): Promise<void> {
      const at = killed++ % gates.length;
      const child = gates[at]?.child;
      child?.kill("SIGKILL");
      if (child) await once(child, "exit");
      gates[at] = await launch(stores[at] as StreamGateAssignment["store"]);
      killing = undefined;
    }
    async function work(): Promise<void> {
      while (next < streams) {
        // One gate alone: nothing is served until it is back.
        if (gates.length === 1) await killing;
        const stream = next++;
        const parts = Array.from({ length: 1 + Math.floor(random() * 12) }, () => 1 + Math.floor(random() * MAX_UNITS));
        const leaveAfter = random() < 0.5 ? Math.floor(random() * 150) : Number.POSITIVE_INFINITY;
        const url = `${gates[stream % gates.length]?.url}/stream?name=${stream}&parts=${parts.join(",")}`;
        const status = await read(url, (subscribers[of(stream)] as Subscribed).id, leaveAfter, agent);
        expect(status).to.be.oneOf([0, 200, 402, 503]);
        done++;
        if (done >= (killed + 1) * perKill && killed < KILLS) killing ??= kill();
      }
    }
    await Promise.all(Array.from({ length: PARALLEL }, work));
    await killing;
    const small = subscribers[0] as Subscribed;
    // What a killed gate had reserved is free again, and can be used.
    await until(async () => {
      await read(`${gates[0]?.url}/stream?name=${8 * next++}&parts=9,9,9`, small.id, Number.POSITIVE_INFINITY, agent);
      return (await send(`${gates[0]?.url}/flush`)).status === 200 && (await debited(small.idHash)) >= SMALL_CAP;
    }, 180_000);
    agent.destroy();

    let books: bigint[] = [];
    await until(async () => {
      const { status, text } = await send(`${gates[0]?.url}/flush`);
      if (status === 200) books = text.split(" ").map(BigInt);
      // What killed gates had reserved counts as unsettled until it is released.
      return status === 200 && books[0] === 0n;
    }, 180_000);
    expect([books[0], books[2]], "unsettled and lost").to.deep.equal([0n, 0n]);
    await compare(subscribers, of);
  }

  async function compare(subscribers: readonly Subscribed[], of: (stream: number) => number): Promise<void> {
    const delivered = deliveries();
    let cut = 0;
    for (const [index, { idHash }] of subscribers.entries()) {
      const [isCapped, sum] = [index === 0, await debited(idHash)];
      let [most, least] = [0n, 0n];
      for (const [stream, { cost, ended }] of delivered) {
        if (of(stream) !== index) continue;
        if (ended === undefined) cut++;
        if (ended !== undefined && !isCapped) expect(ended, `stream ${stream}`).to.equal(cost);
        // At the cap a stream delivers at most one part that is not wholly paid.
        if (ended !== undefined) expect(cost - ended < costOf(MAX_UNITS) + 1n).to.equal(true);
        most += ended ?? cost;
        least += ended ?? (cost > STEP ? cost - BigInt(STEP) : 0n);
      }
      const text = `subscriber ${index}: debited ${sum}, delivered ${least} to ${most}`;
      expect(sum <= most, text).to.equal(true);
      expect(sum >= least, text).to.equal(true);
      if (isCapped) expect(sum, "the cap, to the unit").to.equal(SMALL_CAP);
    }
    expect(cut, "streams whose gate was killed").to.be.greaterThan(0);
  }

  it("SM5 charge what was delivered, within a reserved step for each that a kill has cut: a journal", async () => {
    await run(STREAMS - Math.floor(STREAMS / 5), [{ file: path.join(folder, "journal") }]);
  });

  it("SM5 charge what was delivered, within a reserved step for each that a kill has cut: two gates, one database", async () => {
    const store = { database: await postgres.database() };
    await run(Math.floor(STREAMS / 5), [store, store]);
  });
});

/** mulberry32 */
function randomOf(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4_294_967_296;
  };
}
