/** What a provider should look at now, of rows as the service keeps them. */
import { expect } from "chai";
import { sql } from "kysely";
import type { Address } from "turnpike/protocol";
import { createAnalytics } from "../../../facilitator/src/analytics";
import type { Store } from "../../../facilitator/src/db/open";
import { DAY_SEC } from "../../../facilitator/src/lib/durations";
import { freshStore } from "../../support/store";

const CHAIN_ID = 31_337;
const TOKEN = "0x00000000000000000000000000000000000000C0" as Address;
const PROVIDER = "0x0000000000000000000000000000000000000001" as Address;
const OTHER = "0x0000000000000000000000000000000000000002" as Address;
const NOW_SEC = 1_800_000_000;

/** Subscriptions of the plan, which costs 900 and has a grace of three days. */
const SUBSCRIPTIONS = {
  /** was tried, and is served in its grace */
  late: { paidThrough: NOW_SEC - DAY_SEC, attempts: 2 },
  /** is only due */
  due: { paidThrough: NOW_SEC - 5, attempts: 0 },
  over: { paidThrough: NOW_SEC - 4 * DAY_SEC, attempts: 5 },
  cancelled: { paidThrough: NOW_SEC - DAY_SEC, attempts: 2, cancelled: true },
  /** was warned for this period */
  risky: { paidThrough: NOW_SEC + 2 * DAY_SEC, attempts: 0, warnedOf: NOW_SEC + 2 * DAY_SEC },
  /** was warned for the period before, which it paid */
  safe: { paidThrough: NOW_SEC + 2 * DAY_SEC, attempts: 0, warnedOf: NOW_SEC - 28 * DAY_SEC },
};

describe("what needs attention", function () {
  this.timeout(120_000);
  let store: Store;

  const insert = (table: string, row: Readonly<Record<string, unknown>>) =>
    sql`insert into ${sql.table(table)} (${sql.join(Object.keys(row).map((name) => sql.ref(name)))})
      values (${sql.join(Object.values(row))})`.execute(store.db);

  const attention = (provider: Address) => {
    const config = {
      chainId: CHAIN_ID,
      tokens: [{ address: TOKEN, name: "Test", version: "1", decimals: 6 }],
    } as never;
    return createAnalytics({ db: store.db, config, clock: { nowSec: () => NOW_SEC } }).attention(provider);
  };

  before(async () => {
    store = await freshStore();
    await insert("plans", {
      ...{ chain_id: CHAIN_ID, plan_id: "plan", plan_index: 1, provider: PROVIDER, token: TOKEN, amount: "900" },
      ...{ interval_sec: 30 * DAY_SEC, grace_sec: 3 * DAY_SEC, pay_to: PROVIDER, salt: "0x", metadata: "" },
      ...{ deprecated: false, block_number: 1, created_at: 1 },
    });
    for (const [name, subscription] of Object.entries(SUBSCRIPTIONS)) {
      const { paidThrough: paid_through, attempts, ...more } = subscription;
      const id_hash = name;
      await insert("subscriptions", {
        ...{ chain_id: CHAIN_ID, id_hash, subscriber: OTHER, plan_id: "plan", paid_through, version: 1, paused: false },
        ...{ ending: false, cancelled: "cancelled" in more, block_number: 1, created_at: 1, transaction: "0x" },
      });
      await insert("renewal_due", {
        chain_id: CHAIN_ID,
        id_hash,
        due_at: paid_through,
        paid_through,
        attempts,
        lease_until: 0,
      });
      if (!("warnedOf" in more)) continue;
      await insert("events", {
        ...{ id: `warning ${name}`, chain_id: CHAIN_ID, type: "subscription.renewal_at_risk", object_id: id_hash },
        ...{ sequence: 1, provider: PROVIDER, payload: JSON.stringify({ dueAt: more.warnedOf }), block_time: 1 },
      });
    }
    for (const [payment_id, state, ageMs] of [
      ["0x01", "sent", 120_000],
      ["0x02", "queued", 1_000],
      ["0x03", "settled", 120_000],
      ["0x04", "parked", 240_000],
    ] as const)
      await sql`insert into payments (chain_id, payment_id, door, resource_hash, resource_shown, token, payer, pay_to, amount,
          nonce, valid_after, valid_before, signature, has_code, state, is_reversed, attempts, accepted_at_ms, accepted_block)
        values (${CHAIN_ID}, ${payment_id}, 'authorize', '\\x00', '', ${TOKEN}, ${OTHER}, ${PROVIDER}, 5, '\\x00', 0, 9,
          '\\x00', false, ${state}, false, 1, (extract(epoch from clock_timestamp()) * 1000)::bigint - ${ageMs}::bigint, 1)`.execute(
        store.db,
      );
  });
  after(() => store?.close());

  it("names what is past due, at risk or stuck, and nothing that is well", async () => {
    const { pastDue, atRisk, stuck } = await attention(PROVIDER);
    expect(pastDue).to.deep.equal([{ token: TOKEN, count: 1, amount: "900", since: SUBSCRIPTIONS.late.paidThrough }]);
    expect(atRisk).to.deep.equal([{ token: TOKEN, count: 1, amount: "900", firstAt: SUBSCRIPTIONS.risky.paidThrough }]);
    expect(stuck.map(({ paymentId, state }) => [paymentId, state])).to.deep.equal([
      ["0x04", "parked"],
      ["0x01", "sent"],
    ]);
  });

  it("B22 names nothing of another provider", async () => {
    expect(await attention(OTHER)).to.deep.equal({ pastDue: [], atRisk: [], stuck: [] });
  });
});
