/** A fee spike: the base fee rises above what was signed, and stays there while the chain makes blocks. */
import { expect } from "chai";
import pino from "pino";
import type { Address, Hex, SignedPayment } from "turnpike/protocol";
import { type Core, startCore } from "../../../facilitator/src/app/core";
import { readinessOf } from "../../../facilitator/src/app/readiness";
import { createMetrics, type Metrics } from "../../../facilitator/src/telemetry/metrics";
import { testKey } from "../../support/chain";
import { type FacilitatorWorld, fund, startWorld, until, walletOf } from "../../support/facilitator";

const GWEI = 10n ** 9n;
const CEILING = 40n * GWEI;
const BLOCK_MS = 250;

describe("chain weather: fees", function () {
  this.timeout(240_000);
  let world: FacilitatorWorld;
  let core: Core;
  let metrics: Metrics;
  let named = 0;

  beforeEach(async () => {
    world = await startWorld({ blockMs: BLOCK_MS });
  });
  afterEach(async () => {
    await core?.stop();
    metrics?.close();
    await world?.stop();
  });

  const send = (method: string, params: unknown[] = []) => world.chain.provider.send(method, params);
  const lane = () => core.relayer.health().lanes[0];

  async function start(more: Record<string, string> = {}): Promise<Address> {
    const key = testKey(`spike ${process.pid} ${named++}`) as Hex;
    const { address } = walletOf(world.chain, key);
    await fund(world.chain, address as Address);
    metrics = createMetrics();
    const config = world.config({
      RELAYER_KEYS: key,
      BUMP_AFTER_MS: "500",
      MAX_FEE_PER_GAS_WEI: String(CEILING),
      ...more,
    });
    core = await startCore(config, { log: pino({ level: config.logLevel }), metrics });
    return address as Address;
  }

  /** Makes one block whose base fee is this, so that what was signed for less stays in the pool. */
  async function blockAt(baseFeeWei: bigint): Promise<void> {
    await send("hardhat_setNextBlockBaseFeePerGas", [`0x${baseFeeWei.toString(16)}`]);
    await send("evm_mine");
  }

  /** Makes such blocks until `look` answers. */
  function spikeUntil<T>(baseFeeWei: bigint, look: () => Promise<T | undefined | false>, what: string): Promise<T> {
    return until(async () => {
      await blockAt(baseFeeWei);
      return look();
    }, what);
  }

  const signAll = async (count: number): Promise<SignedPayment[]> => {
    const payers = await Promise.all(Array.from({ length: count }, () => world.payer()));
    return Promise.all(payers.map((payer) => world.signPayment({ payer, validForSec: 3_000 })));
  };

  const forms = () =>
    core.store.db
      .selectFrom("transaction_hashes as h")
      .innerJoin("transactions as t", "t.id", "h.transaction_id")
      .select(["h.hash", "h.max_fee_wei", "h.priority_fee_wei", "t.nonce", "t.gas_limit", "t.id"])
      .orderBy("h.signed_at_ms")
      .execute();

  async function raises(): Promise<number> {
    const text = await metrics.text();
    return Number(/^turnpike_transaction_fee_raises_total (\d+)$/m.exec(text)?.[1]);
  }

  async function requireOneEach(signed: readonly SignedPayment[]): Promise<void> {
    for (const one of signed) {
      await until(
        async () => (await core.payments.authorize(one, { waitMs: 500 })).kind === "settled",
        "it is settled",
      );
    }
    const payers = signed.map(({ authorization }) => authorization.from as string);
    const moved = (await world.transfers()).filter(({ from }) => payers.includes(from));
    expect(moved.map(({ from }) => from)).to.have.members(payers);
  }

  it("HG1 stuck transactions are replaced up to the ceiling, new payments are refused early, and it drains as fees fall", async () => {
    const signed = await signAll(3);
    const late = await signAll(1);
    const key = await start({ BATCH_ITEMS: "1" });
    await send("evm_setIntervalMining", [0]);
    await Promise.all(signed.map((one) => core.payments.authorize(one, { waitMs: 0 })));
    await until(async () => (await forms()).length >= signed.length, "they are sent");
    const isAtCeiling = async () => lane()?.isStuck && /fee ceiling/.test(lane()?.reason ?? "") && (await raises()) > 0;
    await spikeUntil(CEILING + GWEI, isAtCeiling, "the ceiling is reached");

    const all = await forms();
    const lowest = all.filter(({ nonce }) => nonce === 0);
    expect(lowest.length, "the lowest nonce was replaced").to.be.greaterThan(1);
    for (const [index, form] of lowest.slice(1).entries()) {
      expect(BigInt(form.max_fee_wei) * 10n >= BigInt(lowest[index]?.max_fee_wei ?? 0) * 11n, "by a tenth").to.equal(
        true,
      );
    }
    for (const form of all) expect(BigInt(form.max_fee_wei) <= CEILING, "within the ceiling").to.equal(true);
    expect(await raises()).to.equal(all.length - signed.length);
    expect(readinessOf(core).ready).to.equal(false);
    const refused = await core.payments.authorize(late[0] as SignedPayment);
    expect(refused.kind === "refused" && refused.error).to.include({ code: "Unavailable", reason: "relayer" });

    await blockAt(GWEI);
    await send("evm_setIntervalMining", [BLOCK_MS]);
    await until(async () => readinessOf(core).ready, "it is well again");
    await requireOneEach([...signed, ...late]);
    expect(await world.chain.provider.getTransactionCount(key), "a nonce for each").to.equal(4);
  });

  it("HG2 what a key commits in a day stays below its ceiling, in first forms and in replacements", async () => {
    const signed = await signAll(6);
    await start({ BATCH_ITEMS: "1", LANE_IN_FLIGHT: "8", BUMP_AFTER_MS: "60000" });
    await send("evm_setIntervalMining", [0]);
    await core.payments.authorize(signed[0] as SignedPayment, { waitMs: 0 });
    await until(async () => (await forms()).length === 1, "the first is sent");
    const [one] = await forms();
    const costWei = BigInt(one?.gas_limit ?? 0) * BigInt(one?.max_fee_wei ?? 0);
    await core.stop();

    // The same key once more: three of its transactions fit in a day, and no replacement of them.
    const { relayerKeys: _, ...config } = world.config();
    expect(config.maxFeePerDayWei > costWei * 6n, "six fit in the default").to.equal(true);
    await world.loseDatabase();
    await send("hardhat_dropTransaction", [one?.hash]);
    await start({
      BATCH_ITEMS: "1",
      LANE_IN_FLIGHT: "8",
      MAX_FEE_PER_DAY_WEI: String((costWei * 7n) / 2n),
    });
    await Promise.all(signed.map((payment) => core.payments.authorize(payment, { waitMs: 0 })));
    await until(async () => /day's fee ceiling/.test(lane()?.reason ?? ""), "the day's ceiling is reached");
    const committed = async (): Promise<bigint> => {
      const dearest = new Map(
        (await forms()).map((form) => [form.id, BigInt(form.gas_limit) * BigInt(form.max_fee_wei)]),
      );
      return [...dearest.values()].reduce((sum, wei) => sum + wei, 0n);
    };
    expect((await committed()) <= core.config.maxFeePerDayWei, `${await committed()} wei`).to.equal(true);
    const baseFeeWei = BigInt(one?.max_fee_wei ?? 0) + GWEI;
    let blocks = 0;
    await spikeUntil(baseFeeWei, async () => ++blocks > 20 && (await raises()) === 0, "twenty blocks outbid it");
    expect((await committed()) <= core.config.maxFeePerDayWei, `${await committed()} wei`).to.equal(true);
    expect(readinessOf(core).ready).to.equal(false);

    // Mined for less than their maximum, the rest fits into the day.
    await blockAt(GWEI / 2n);
    await send("evm_setIntervalMining", [BLOCK_MS]);
    await requireOneEach(signed);
  });

  it("HG9 no fee is raised while the chain makes no block", async () => {
    const signed = await signAll(1);
    await start({ BUMP_AFTER_MS: "500" });
    await send("evm_setIntervalMining", [0]);
    await Promise.all(signed.map((one) => core.payments.authorize(one, { waitMs: 0 })));
    await until(async () => lane()?.isStuck, "the lane says that it is stuck");
    expect(lane()?.reason).to.match(/not mined since/);
    expect(await raises()).to.equal(0);
    expect(await forms()).to.have.length(1);
    await send("evm_setIntervalMining", [BLOCK_MS]);
    await requireOneEach(signed);
  });
});
