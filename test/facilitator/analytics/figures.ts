import { expect } from "chai";
import type { Address } from "turnpike/protocol";
import { createAnalytics } from "../../../facilitator/src/analytics";
import { transactionCosts } from "../../../facilitator/src/analytics/costs";
import { recountSums } from "../../../facilitator/src/analytics/event-sums";
import { findWrongSums } from "../../../facilitator/src/analytics/recount";
import { createReports } from "../../../facilitator/src/analytics/reports";
import { deleteOld } from "../../../facilitator/src/analytics/retention";
import { createEventFeed } from "../../../facilitator/src/app/projections";
import type { Store } from "../../../facilitator/src/db/open";
import { bytes } from "../../../facilitator/src/db/sql";
import { enqueueTransaction, finaliseTransactions, recordMined } from "../../../facilitator/src/relayer/transactions";
import { freshStore } from "../../support/store";

const CHAIN_ID = 31_337;
const feed = createEventFeed(CHAIN_ID);
/** As the indexer does it with each block. */
const finalise = (store: Store, upToBlock: number) =>
  store.transaction(async (tx) =>
    transactionCosts.finalised(tx, CHAIN_ID, await finaliseTransactions(tx, CHAIN_ID, upToBlock)),
  );

const DAY_SEC = 86_400;
const TOKEN = "0x00000000000000000000000000000000000000C0" as Address;
const PROVIDER = "0x0000000000000000000000000000000000000001" as Address;
const OTHER = "0x0000000000000000000000000000000000000002" as Address;
/** midnight UTC */
const TODAY_SEC = 20_833 * DAY_SEC;
const NOW_SEC = TODAY_SEC + 7_200;
const QUERY = { fromSec: undefined, toSec: undefined, days: 7 };

describe("figures", () => {
  describe("of a service's database", function () {
    this.timeout(120_000);
    let store: Store;
    const config = {
      chainId: CHAIN_ID,
      nativePrice: 3_000,
      tokens: [{ address: TOKEN, name: "Test", version: "1", decimals: 6 }],
    } as never;
    const clock = { nowSec: () => NOW_SEC };
    const analytics = () => createAnalytics({ db: store.db, config, clock });

    before(async () => {
      store = await freshStore();
      await store.db
        .insertInto("plans")
        .values({
          chain_id: CHAIN_ID,
          plan_id: "plan",
          plan_index: 1,
          provider: PROVIDER,
          token: TOKEN,
          amount: "900",
          interval_sec: 30 * DAY_SEC,
          grace_sec: 60,
          pay_to: PROVIDER,
          salt: "0x",
          metadata: "",
          deprecated: false,
          successor: null,
          block_number: 1,
          created_at: 1,
        })
        .execute();
    });
    after(() => store.close());

    let events = 0;
    const happen = (type: string, daysAgo: number, more: object = {}, place: object = {}) =>
      store.transaction((tx) =>
        feed.append(tx, [
          {
            id: `event ${events++}`,
            chainId: CHAIN_ID,
            type,
            objectId: "object",
            provider: PROVIDER,
            payer: OTHER,
            payload: { token: TOKEN, planId: "plan", ...more },
            blockTime: NOW_SEC - daysAgo * DAY_SEC,
            ...place,
          },
        ]),
      );

    it("count trials that begin and convert, as reconcile does", async () => {
      await happen("subscription.created", 6, { charged: "0", intro: true });
      await happen("subscription.created", 6, { charged: "900", intro: false });
      await happen("subscription.renewed", 5, { charged: "900", intro: false, converted: true });
      await happen("subscription.renewed", 4, { charged: "900", intro: false });
      const { subscriptions } = await analytics().overview(PROVIDER, QUERY);
      expect(subscriptions.trials).to.deep.equal({ begun: 1, converted: 1 });
      const wrong = await findWrongSums(store.db, CHAIN_ID, 0);
      expect(wrong.filter(({ table }) => table === "rollup_totals")).to.deep.equal([]);
      await store.transaction((tx) => recountSums(tx, CHAIN_ID));
      expect((await analytics().overview(PROVIDER, QUERY)).subscriptions.trials).to.deep.equal({
        begun: 1,
        converted: 1,
      });
      await store.db.deleteFrom("events").execute();
      await store.transaction((tx) => recountSums(tx, CHAIN_ID));
    });

    it("list renewals by day, causes of failed attempts, recurring revenue and churn", async () => {
      await happen("subscription.created", 10, { charged: "900" });
      await happen("subscription.created", 3, { charged: "900" });
      await happen("subscription.renewed", 2, { charged: "900" });
      for (const reason of ["InsufficientFunds", "InsufficientFunds", "InsufficientAllowance"])
        await happen("subscription.renewal_failed", 1, { reason });
      await happen("subscription.expired", 1);
      const renewals = await analytics().renewals(PROVIDER, QUERY);
      expect(renewals).to.deep.include({ renewed: 1, failedAttempts: 3, pastDue: 0, expired: 1 });
      expect(renewals.causes).to.deep.equal([
        { cause: "InsufficientFunds", count: 2 },
        { cause: "InsufficientAllowance", count: 1 },
      ]);
      expect(renewals.points).to.have.length(2);

      const { points, churn } = await analytics().recurring(PROVIDER, QUERY);
      expect(points.map(({ recurring }) => recurring)).to.deep.equal([
        "900",
        "900",
        "900",
        "1800",
        "2700",
        "2700",
        "2700",
      ]);
      expect(points.at(-2)).to.include({ expired: 1, created: 0 });
      expect(churn).to.deep.equal({ atStart: 1, lost: 0, rate: 0 });
      expect((await analytics().recurring("everyone", QUERY)).points).to.deep.equal(points);
      expect((await analytics().recurring(OTHER, QUERY)).churn).to.deep.equal({ atStart: 0, lost: 0 });
    });

    it("count a transaction's cost once, when it is final, shared by what moved money in it", async () => {
      for (const [id, hash, success] of [
        ["t1", "0xa1", true],
        ["t2", "0xa2", false],
      ] as const) {
        await enqueueTransaction(store.db, {
          id,
          chainId: CHAIN_ID,
          purpose: "settle",
          idempotencyKey: id,
          to: TOKEN,
          data: "0x",
          gasLimit: 1n,
        });
        await store.db
          .updateTable("transactions")
          .set({ status: "stored", stored_at_ms: NOW_SEC * 1_000 })
          .where("id", "=", id)
          .execute();
        const gas = { gasUsed: 60_000n, gasPriceWei: 1_000_000_000n };
        await recordMined(store.db, id, { hash, blockNumber: 50, blockHash: "0xb", success, ...gas });
      }
      for (let payment = 0; payment < 3; payment++)
        await happen("payment.settled", 0, { amount: "5" }, { blockNumber: 50, blockHash: "0xb", transaction: "0xa1" });
      for (const block of [49, 50, 50, 51]) await finalise(store, block);
      const costs = await analytics().costs(QUERY);
      // 2 transactions of 60,000 gas at 1 gwei: 0.00012 coins of 3,000 tokens, 36 cents, for 3 payments.
      expect(costs.purposes).to.deep.equal([
        {
          purpose: "settle",
          transactions: 2,
          failed: 1,
          items: 3,
          gas: "120000",
          wei: "120000000000000",
          centsPerItem: 12,
          gasPerItem: 40_000,
          weiPerItem: "40000000000000",
        },
      ]);
      expect(costs.points).to.have.length(1);
      const { settlementCost } = await analytics().overview(PROVIDER, QUERY);
      expect(settlementCost).to.deep.equal({
        gasPerPayment: 40_000,
        weiPerPayment: "40000000000000",
        centsPerPayment: 12,
      });
      expect(await findWrongSums(store.db, CHAIN_ID, 0)).to.deep.equal([]);
      await store.db.updateTable("rollup_costs").set({ gas: "1" }).execute();
      expect((await findWrongSums(store.db, CHAIN_ID, 0)).map(({ table }) => table)).to.deep.equal(["rollup_costs"]);
      await store.db.updateTable("rollup_costs").set({ gas: "120000" }).execute();
    });

    it("rank providers by what they were paid", async () => {
      await happen("payment.settled", 0, { amount: "100000" }, {});
      await store.transaction((tx) =>
        feed.append(tx, [
          {
            id: "other",
            chainId: CHAIN_ID,
            type: "payment.settled",
            objectId: "o",
            provider: OTHER,
            payer: PROVIDER,
            payload: { token: TOKEN, amount: "7" },
            blockTime: NOW_SEC,
          },
        ]),
      );
      const { providers } = await analytics().providers({ ...QUERY, limit: 10 });
      expect(providers.map(({ provider }) => provider)).to.deep.equal([PROVIDER, OTHER]);
      expect(providers[1]).to.include({ count: 1, amount: "7" });
      expect((await analytics().providers({ ...QUERY, limit: 1 })).providers).to.have.length(1);
      expect(await analytics().countProviders(QUERY)).to.equal(2);
    });

    it("HF4 count a subscription once that changes its plan, at the new plan's price", async () => {
      const third = "0x0000000000000000000000000000000000000003" as Address;
      for (const [id, index, amount, days] of [
        ["annual", 11, "7300", 365],
        ["monthly", 12, "1000", 30],
      ] as const)
        await store.db
          .insertInto("plans")
          .values({
            chain_id: CHAIN_ID,
            plan_id: id,
            plan_index: index,
            provider: third,
            token: TOKEN,
            amount,
            interval_sec: days * DAY_SEC,
            grace_sec: 60,
            pay_to: third,
            salt: "0x",
            metadata: "",
            deprecated: false,
            successor: null,
            block_number: 1,
            created_at: 1,
          })
          .execute();
      const own = { provider: third, objectId: "changes its plan" };
      await happen("subscription.created", 100, { planId: "annual", charged: "7300" }, own);
      // The credit of the year pays for the month.
      await happen("subscription.plan_changed", 40, { planId: "monthly", charged: "0" }, own);
      await happen("subscription.renewed", 10, { planId: "monthly", charged: "1000" }, own);
      await happen("subscription.plan_changed", 4, { planId: "annual", charged: "31" }, own);
      for (const [daysAgo, recurring] of [
        [99, "600"],
        [41, "600"],
        [40, "1000"],
        [11, "1000"],
        [10, "1000"],
        [5, "1000"],
        [4, "600"],
        [0, "600"],
      ] as const) {
        const toSec = TODAY_SEC - (daysAgo - 1) * DAY_SEC;
        const { points } = await analytics().recurring(third, { ...QUERY, fromSec: toSec - DAY_SEC, toSec });
        expect(points[0], `${daysAgo} days ago`).to.deep.include({ recurring, subscriptions: 1 });
      }
    });

    it("HC19 count as churn only subscribers who were active before, left and did not come back", async () => {
      const FOURTH = "0x0000000000000000000000000000000000000004" as Address;
      const at = (type: string, daysAgo: number, objectId: string, payer: string = objectId) =>
        happen(`subscription.${type}`, daysAgo, {}, { objectId, payer, provider: FOURTH });
      for (const name of ["stays", "leaves", "expires", "resumes", "starts again"]) await at("created", 20, name);
      await at("cancelled", 5, "leaves");
      // Reported twice for one that leaves: it counts once.
      await at("expired", 2, "leaves");
      await at("expired", 4, "expires");
      await at("expired", 4, "resumes");
      await at("resumed", 3, "resumes");
      await at("cancelled", 4, "starts again");
      await at("created", 2, "another", "starts again");
      await at("created", 3, "comes and goes");
      await at("cancelled", 1, "comes and goes");
      const { churn } = await analytics().recurring(FOURTH, QUERY);
      expect(churn.lost).to.equal(2);
      const { subscriptions } = await analytics().overview(FOURTH, QUERY);
      expect(subscriptions).to.include({ created: 2, cancelled: 3, expired: 3, ended: 4 });
      const before = await analytics().recurring(FOURTH, { ...QUERY, toSec: TODAY_SEC - 10 * DAY_SEC, days: 30 });
      expect(before.churn).to.deep.equal({ atStart: 0, lost: 0 });
    });

    it("HC20 state since when figures exist, so that growth is against complete periods only", async () => {
      const FIFTH = "0x0000000000000000000000000000000000000005" as Address;
      expect(await analytics().overview(FIFTH, QUERY)).not.to.have.property("since");
      for (const [daysAgo, amount] of [
        [9, "1"],
        [1, "50"],
      ] as const)
        await happen("payment.settled", daysAgo, { amount }, { provider: FIFTH });
      const { since, volumeBefore, from, to } = await analytics().overview(FIFTH, QUERY);
      expect(volumeBefore.amount).to.equal("1");
      expect(since).to.equal(TODAY_SEC - 9 * DAY_SEC);
      expect(since).to.be.greaterThan(2 * from - to);
    });

    it("HC21 include signed requests with failed ones, also as amounts", async () => {
      const SIXTH = "0x0000000000000000000000000000000000000006" as Address;
      await happen("payment.settled", 1, { amount: "30" }, { provider: SIXTH });
      await happen("payment.failed", 1, { amount: "12", reason: "expired" }, { provider: SIXTH });
      await happen("payment.failed", 1, { amount: "12", token: OTHER, reason: "expired" }, { provider: SIXTH });
      const { steps } = await analytics().funnel(SIXTH, QUERY);
      expect(steps.find(({ step }) => step === "signed")).to.deep.equal({ step: "signed", count: 2, amount: "42" });
      const { payments } = await analytics().overview(SIXTH, QUERY);
      expect(payments).to.include({ settled: 1, failed: 1 });
    });

    it("HC22 return settlement times, of the newest payments that settled in the range's days", async () => {
      const payments = [100, 900, 1_500, 4_000].map((tookMs, index) => ({
        chain_id: CHAIN_ID,
        payment_id: `0x${index}`,
        door: "authorize" as const,
        resource_hash: bytes("0x"),
        resource_shown: "/",
        token: TOKEN,
        payer: OTHER,
        pay_to: PROVIDER,
        amount: "5",
        nonce: bytes("0x"),
        valid_after: 0,
        valid_before: 1,
        signature: bytes("0x"),
        has_code: false,
        state: "settled" as const,
        fail_code: null,
        fail_reason: null,
        is_reversed: false,
        attempts: 1,
        accepted_at_ms: NOW_SEC * 1_000,
        accepted_block: 1,
        transaction_id: null,
        tx_hash: null,
        block_number: null,
        block_hash: null,
        block_time: NOW_SEC,
        log_index: null,
        settled_at_ms: NOW_SEC * 1_000 + tookMs,
      }));
      await store.db.insertInto("payments").values(payments).execute();
      const { histogram, ...latency } = await analytics().latency(PROVIDER, QUERY);
      expect(latency).to.include({ sampled: 4, p50Ms: 900, p90Ms: 4_000, p99Ms: 4_000, maxMs: 4_000 });
      expect(histogram.filter(({ count }) => count > 0)).to.deep.equal([
        { upToMs: 500, count: 1 },
        { upToMs: 1_000, count: 1 },
        { upToMs: 2_000, count: 1 },
        { upToMs: 5_000, count: 1 },
      ]);
      // The chain's clock was moved on since: payments count in the days in which they settled.
      const aheadSec = 400 * DAY_SEC;
      const later = createAnalytics({ db: store.db, config, clock: { nowSec: () => NOW_SEC + aheadSec } });
      expect(await later.latency(PROVIDER, QUERY)).to.include({ sampled: 0 });
      const nowMs = Date.now();
      await store.db
        .updateTable("payments")
        .set({ block_time: NOW_SEC + aheadSec - DAY_SEC, accepted_at_ms: nowMs, settled_at_ms: nowMs + 900 })
        .where("payment_id", "=", "0x3")
        .execute();
      expect(await later.latency(PROVIDER, QUERY)).to.include({ sampled: 1, p50Ms: 900 });
      expect(await analytics().latency(PROVIDER, QUERY)).to.include({ sampled: 3 });
      expect(await analytics().latency(OTHER, QUERY))
        .to.include({ sampled: 0 })
        .and.not.have.property("p50Ms");
    });

    it("of gates agree with themselves: hours with days, routes with all, providers with everyone", async () => {
      const reports = createReports({ store, config, clock });
      const entry = { step: "asked" as const, offer: "one-time" as const, token: TOKEN, cause: "PaymentRequired" };
      for (let index = 0; index < 6; index++) {
        const hour = NOW_SEC - (index % 3) * 3_600;
        await reports.take(index % 2 ? PROVIDER : OTHER, {
          id: String(index).padStart(32, "0"),
          entries: [{ ...entry, hour: hour - (hour % 3_600), resource: `/${index % 2}`, count: 3, amount: 7n }],
        });
      }
      expect(await findWrongSums(store.db, CHAIN_ID, 0)).to.deep.equal([]);
      const everyone = await analytics().funnel("everyone", { ...QUERY, days: 30 });
      expect(everyone.steps[0]).to.deep.equal({ step: "asked", count: 18, amount: "42" });
      expect(everyone.resources).to.deep.equal([]);
      await store.db
        .updateTable("rollup_funnel")
        .set({ count: 99 })
        .where("provider", "=", "")
        .where("grain", "=", DAY_SEC)
        .execute();
      const wrong = await findWrongSums(store.db, CHAIN_ID, 0);
      expect(new Set(wrong.map(({ table }) => table))).to.deep.equal(new Set(["rollup_funnel"]));
      await store.db.deleteFrom("rollup_funnel").execute();
    });

    it("HF5 count moved money as received, and resumptions without a charge as access", async () => {
      const fourth = "0x0000000000000000000000000000000000000004" as Address;
      await store.db
        .insertInto("plans")
        .values(
          (["5", "10"] as const).map((amount) => ({
            chain_id: CHAIN_ID,
            plan_id: `of ${amount}`,
            plan_index: 20 + Number(amount),
            provider: fourth,
            token: TOKEN,
            amount,
            interval_sec: 30 * DAY_SEC,
            grace_sec: 60,
            pay_to: fourth,
            salt: "0x",
            metadata: "",
            deprecated: false,
            successor: null,
            block_number: 1,
            created_at: 1,
          })),
        )
        .execute();
      const hour = NOW_SEC - (NOW_SEC % 3_600);
      const entry = { hour, resource: "/report", token: TOKEN, offer: "subscription", count: 1, amount: 10n };
      const report = async (id: string, ...entries: object[]) =>
        createReports({ store, config, clock }).take(fourth, {
          id: id.padEnd(32, "0"),
          entries: entries.map((more) => ({ ...entry, ...more })) as never,
        });
      const funnel = () => analytics().funnel(fourth, QUERY);
      const own = (objectId: string) => ({ provider: fourth, objectId });
      const asked = { step: "asked", cause: "PaymentRequired" };
      await report("aa", asked, asked, { step: "subscribed", amount: 0n, token: undefined });
      await happen("subscription.created", 0, { planId: "of 10", charged: "10" }, own("one"));
      const before = await funnel();
      expect(before).to.include({ answered: "10", lost: "10" });
      expect(before.received).to.deep.equal({ "one-time": "0", subscription: "10" });
      // Nobody asked for it: it moves what is received, and nothing else.
      await happen("subscription.created", 0, { planId: "of 5", charged: "5" }, own("two"));
      expect(await funnel()).to.deep.equal({ ...before, received: { "one-time": "0", subscription: "15" } });
      const paused = { step: "refused", cause: "SubscriptionNotActive/paused" };
      await report("ab", paused, paused, paused, { step: "subscribed", amount: 0n, token: undefined, count: 3 });
      for (let time = 0; time < 3; time++)
        await happen("subscription.resumed", 0, { planId: "of 10", charged: "0" }, own("one"));
      const after = await funnel();
      expect(after).to.include({ answered: "40", lost: "10" });
      expect(after.received).to.deep.equal({ "one-time": "0", subscription: "15" });
      const volume = await analytics().volume(fourth, { ...QUERY, grain: "day" });
      expect(volume.points.reduce((sum, { amount }) => sum + Number(amount), 0)).to.equal(15);
    });

    it("keep hours for 90 days to the hour, and days for ever", async () => {
      const { db } = store;
      const edgeSec = TODAY_SEC - 90 * DAY_SEC;
      await happen("payment.settled", 0, { amount: "3" }, { blockTime: edgeSec });
      await happen("payment.settled", 0, { amount: "4" }, { blockTime: edgeSec - 1 });
      const before = await analytics().volume(PROVIDER, { ...QUERY, days: 400, grain: "day" });
      expect(await deleteOld(db, CHAIN_ID, NOW_SEC)).to.be.greaterThan(0);
      expect(await deleteOld(db, CHAIN_ID, NOW_SEC)).to.equal(0);
      const hours = await db
        .selectFrom("rollup_totals")
        .select("bucket")
        .where("grain", "=", 3_600)
        .orderBy("bucket")
        .execute();
      expect(hours[0]?.bucket).to.equal(edgeSec);
      expect(await analytics().volume(PROVIDER, { ...QUERY, days: 400, grain: "day" })).to.deep.equal(before);
      expect(await findWrongSums(db, CHAIN_ID, NOW_SEC - 90 * DAY_SEC)).to.deep.equal([]);
      const kept = await analytics().volume(PROVIDER, {
        fromSec: edgeSec,
        toSec: edgeSec + 3_600,
        days: 1,
        grain: "hour",
      });
      expect(kept.points).to.have.length(1);
    });
  });
});
