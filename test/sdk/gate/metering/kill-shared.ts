import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
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
import type { MeteredGateAssignment } from "../support/metered-gate-process";

const SCRIPT = path.join(__dirname, "../support/metered-gate-process.ts");
const KILLS = 3;
const CALLS_PER_LIFE = 50;
const WORKERS = 6;
const MAX_COST = 50;
const SMALL_CAP = 2_000n;

describe("Gates that share a meter in PostgreSQL, and kill -9", function () {
  this.timeout(180_000);
  let world: SubscriptionWorld;
  let postgres: TestPostgres;
  let assignment: MeteredGateAssignment;
  const children = new Set<ChildProcess>();
  let folder: string;
  let script: string;

  before(async () => {
    folder = mkdtempSync(path.join(tmpdir(), "turnpike-killed-"));
    script = bundled(SCRIPT, folder);
    world = await startSubscriptionWorld();
    postgres = await startPostgres();
    const { contracts, rpc, chain, planId } = world;
    await chain.wallet("provider");
    assignment = {
      database: await postgres.database(),
      planId,
      options: {
        network: `local-${chain.chainId}`,
        token: { address: contracts.token, name: contracts.tokenName, version: contracts.tokenVersion },
        payTo: addressOf("treasury"),
        facilitator: { url: "http://127.0.0.1:1", signers: [addressOf("facilitator")] },
        secret: "a secret of this test, long enough to be one",
        rpcUrl: rpc.url,
        turnpike: contracts.turnpike,
        operatorKey: testKey("provider") as `0x${string}`,
        pollMs: 50,
      },
    };
  });
  after(async () => {
    for (const child of children) child.kill("SIGKILL");
    await postgres?.stop();
    await world?.stop();
    rmSync(folder, { recursive: true, force: true });
  });

  async function launch(): Promise<{ child: ChildProcess; url: string }> {
    const child = spawn(process.execPath, [script, JSON.stringify(assignment)], {
      stdio: ["ignore", "pipe", "inherit"],
    });
    children.add(child);
    const [line] = (await once(child.stdout as NodeJS.ReadableStream, "data")) as [Buffer];
    return { child, url: line.toString().trim() };
  }

  it("A28 C13 charges are debited exactly once, though one gate after another is killed under load", async () => {
    const subscribers: Subscribed[] = [];
    for (let i = 0; i < 4; i++) {
      subscribers.push(await world.subscribe(`killed ${i}`, { maxOverage: i === 0 ? SMALL_CAP : 10n ** 12n }));
    }
    const gates = await Promise.all([launch(), launch()]);
    let [acknowledged, answered, isOver] = [0n, 0, false];

    const work = async (worker: number): Promise<void> => {
      for (let i = worker; !isOver; i++) {
        const { id } = subscribers[i % subscribers.length] as Subscribed;
        const url = gates[i % gates.length]?.url;
        const cost = 1 + ((i * 7) % MAX_COST);
        // A killed gate returns nothing: the bound below covers what it had charged.
        const answer = await send(`${url}/tokens?cost=${cost}`, { headers: { "X-Service-Sub": id } }).catch(() => null);
        if (answer?.status === 200) acknowledged += BigInt(answer.text);
        if (answer?.status === 200) answered++;
        else if (answer) expect(answer.status, answer.text).to.be.oneOf([402, 503]);
      }
    };
    const load = Promise.all(Array.from({ length: WORKERS }, (_, worker) => work(worker)));
    try {
      for (let kill = 0; kill < KILLS; kill++) {
        const goal = answered + CALLS_PER_LIFE;
        await until(() => answered >= goal, 60_000);
        const { child } = gates[kill % 2] as (typeof gates)[number];
        child.kill("SIGKILL");
        await once(child, "exit");
        gates[kill % 2] = await launch();
      }
    } finally {
      isOver = true;
      await load;
    }

    let books: bigint[] = [];
    await until(async () => {
      const { status, text } = await send(`${gates[0]?.url}/flush`);
      if (status === 200) books = text.split(" ").map(BigInt);
      return status === 200;
    }, 60_000);
    const turnpike = new Contract(world.contracts.turnpike, turnpikeInterface, world.chain.provider);
    const debited = (await turnpike.queryFilter("Debited", 0)).map((log) => turnpikeInterface.parseLog(log)?.args);
    const sum = debited.reduce((total, args) => total + (args?.amount as bigint), 0n);
    const [unsettled, settled, lost] = books;
    expect([unsettled, lost]).to.deep.equal([0n, 0n]);
    expect(settled, "the books say what the chain says").to.equal(sum);
    expect(sum >= acknowledged, `acknowledged ${acknowledged}, debited ${sum}`).to.equal(true);
    const bound = BigInt(KILLS * WORKERS * MAX_COST);
    expect(sum <= acknowledged + bound, `acknowledged ${acknowledged}, debited ${sum}`).to.equal(true);
    const ofSmall = debited.filter((args) => args?.idHash === subscribers[0]?.idHash);
    const spent = ofSmall.reduce((total, args) => total + (args?.amount as bigint), 0n);
    expect(spent <= SMALL_CAP, `${spent}`).to.equal(true);
    for (const { idHash } of subscribers) {
      const indexes = debited.filter((args) => args?.idHash === idHash).map((args) => Number(args?.index));
      expect(indexes, "each index once, in order").to.deep.equal(indexes.map((_, i) => i));
    }
  });
});
