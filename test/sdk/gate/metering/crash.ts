import { copyFileSync, mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { expect } from "chai";
import type { DebitSender } from "turnpike/chain";
import type { Hex } from "turnpike/protocol";
import { createMeter, type Meter } from "../../../../sdk/src/gate/metering/meter";
import type { MeterStore } from "../../../../sdk/src/gate/metering/store";
import { createFileMeterStore } from "../../../../sdk/src/gate/provider/create-meter";
import { MeteredChain } from "../../../support/metered-chain";
import { until } from "../../../support/until";

/** Runs `lifeSteps` effects. The next one, and all after it, never return, as in a killed process. */
class Fuse {
  steps = 0;
  readonly names: string[] = [];
  constructor(
    private readonly lifeSteps: number,
    private readonly onDeath: () => void,
  ) {}

  async step(name: string): Promise<void> {
    this.steps++;
    this.names.push(name);
    if (this.steps === this.lifeSteps + 1) this.onDeath();
    if (this.steps > this.lifeSteps) await new Promise(() => undefined);
  }

  around<A extends unknown[], R>(name: string, act: (...args: A) => Promise<R>): (...args: A) => Promise<R> {
    return async (...args) => {
      await this.step(`before ${name}`);
      const result = await act(...args);
      await this.step(`after ${name}`);
      return result;
    };
  }
}

/** Copies the files of a log under another name. */
function copyLog(from: string, to: string): void {
  const folder = path.dirname(from);
  const names = readdirSync(folder).filter(
    (name) => name.startsWith(`${path.basename(from)}-`) && name.endsWith(".log"),
  );
  for (const name of names) copyFileSync(path.join(folder, name), to + name.slice(path.basename(from).length));
}

function fusedStore(store: MeterStore, fuse: Fuse): MeterStore {
  return {
    ...store,
    get isSender() {
      return store.isSender;
    },
    reserve: fuse.around("reserve", store.reserve),
    record: (entry) => fuse.around(`record ${entry.kind}`, store.record)(entry),
  };
}

function fusedSender(sender: DebitSender, fuse: Fuse): DebitSender {
  return {
    prepare: fuse.around("prepare", sender.prepare),
    submit: fuse.around("submit", sender.submit),
    outcome: fuse.around("outcome", sender.outcome),
    replace: sender.replace,
  };
}

const COST = 10n;
const MOVED: Hex = `0x${"77".repeat(32)}`;

describe("Metering under crashes", () => {
  let folder: string;
  beforeEach(() => {
    folder = mkdtempSync(path.join(tmpdir(), "turnpike-meter-"));
  });

  const opened: MeterStore[] = [];
  const stores = new Map<string, MeterStore>();
  afterEach(async () => {
    for (const store of opened.splice(0)) await store.close();
    rmSync(folder, { recursive: true, force: true });
  });

  function meterAt(file: string, chain: MeteredChain, fuse?: Fuse): Meter {
    const store = createFileMeterStore({ path: file, compactAtBytes: 600, leaseMs: 50 });
    if (fuse !== undefined) opened.push(store);
    stores.set(file, store);
    return createMeter({
      store: fuse ? fusedStore(store, fuse) : store,
      sender: fuse ? fusedSender(chain.sender, fuse) : chain.sender,
      states: chain.states,
      clock: { nowSec: () => 1_000 },
      limits: { settleAgeMs: 3_600_000, settleAmount: 10n ** 30n, pollMs: 1 },
    });
  }

  /** Calls three subscriptions: one is rekeyed, and one has no funds at first. */
  async function live(chain: MeteredChain, meter: Meter, counted: { charged: bigint; asked: bigint }): Promise<void> {
    const [rich, poor, moving] = [chain.subscribe(1), chain.subscribe(2, { funds: 15n }), chain.subscribe(3)];
    const call = async (idHash: Hex) => {
      counted.asked += COST;
      counted.charged += (await meter.reserve(idHash, COST, chain.facts(idHash))).charged;
    };
    await Promise.all([rich, rich, poor, poor, moving].map(call));
    await meter.flush();
    await call(rich);
    chain.rekey(moving, MOVED);
    await call(moving);
    chain.of(poor).funds = 1_000n;
    await meter.flush();
    await call(MOVED);
    await meter.flush();
  }

  it("loses nothing and debits nothing twice, at any step at which the process is killed", async function () {
    this.timeout(120_000);
    const names: string[] = [];
    let total = Number.POSITIVE_INFINITY;
    for (let life = 0; life <= total; life++) {
      const chain = new MeteredChain();
      const [file, left] = [path.join(folder, `run-${life}`), path.join(folder, `left-${life}`)];
      let die: () => void = () => undefined;
      const died = new Promise<"died">((resolve) => {
        die = () => resolve("died");
      });
      // The next process gets only what is on disk at that moment.
      const fuse = new Fuse(life, () => {
        copyLog(file, left);
        die();
      });
      const counted = { charged: 0n, asked: 0n };
      const doomed = meterAt(file, chain, fuse);
      await doomed.start();
      const end = await Promise.race([live(chain, doomed, counted).then(() => "lived" as const), died]);
      if (end === "lived") {
        total = life;
        names.push(...fuse.names);
        copyLog(file, left);
      }

      if (chain.subscriptions.has(MOVED) === false) chain.rekey(`0x${"3".padStart(64, "0")}`, MOVED);
      for (const subscription of chain.subscriptions.values()) subscription.funds = 10n ** 6n;
      const heir = meterAt(left, chain);
      await heir.start();
      // The lease of the process that was killed ends.
      await until(async () => stores.get(left)?.isSender === true, "the lease ends");
      await heir.flush();
      const { unsettled, charged, settled, lost } = heir.unsettled();
      const at = `killed at step ${life + 1}, ${fuse.names[life] ?? "the end"}`;
      expect([unsettled, lost], at).to.deep.equal([0n, 0n]);
      expect(settled, at).to.equal(chain.sumDebited());
      expect(charged, at).to.equal(settled);
      expect(charged >= counted.charged, `${at}: returned ${counted.charged}, debited ${charged}`).to.equal(true);
      expect(charged <= counted.asked, `${at}: asked ${counted.asked}, debited ${charged}`).to.equal(true);
      await heir.stop();
      for (const store of opened.splice(0)) await store.close();
    }
    for (const step of ["sealed", "resolved", "rekeyed", "blocked"]) {
      expect(names.join()).to.include(`after record ${step}`);
    }
  });

  it("A28 sends the same bytes again after a crash between record and broadcast", async () => {
    const chain = new MeteredChain();
    const file = path.join(folder, "journal");
    const idHash = chain.subscribe(1);
    const { submit } = chain.sender;
    const broadcast = new Promise<void>((resolve) => {
      chain.sender.submit = () => {
        resolve();
        return new Promise(() => undefined);
      };
    });
    const doomed = meterAt(file, chain, new Fuse(Number.POSITIVE_INFINITY, () => undefined));
    await doomed.start();
    await doomed.reserve(idHash, COST, chain.facts(idHash));
    void doomed.flush().catch(() => undefined);
    // The bytes are on disk before they are sent.
    await broadcast;
    copyLog(file, `${file}-left`);
    chain.sender.submit = submit;

    const heir = meterAt(`${file}-left`, chain);
    await heir.start();
    await until(async () => stores.get(`${file}-left`)?.isSender === true, "the lease ends");
    await heir.flush();
    expect(chain.submitted).to.deep.equal(chain.prepared.slice(0, 1));
    expect(chain.sumDebited()).to.equal(COST);
    await heir.stop();
  });
});
