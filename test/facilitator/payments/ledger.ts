/** What the chain says of a payment is judged with rows that another process may have changed since it was asked. */
import { expect } from "chai";
import { type Address, type Hex, keccakText } from "turnpike/protocol";
import { createEventFeed } from "../../../facilitator/src/app/projections";
import type { ChainFact } from "../../../facilitator/src/chain/facts";
import type { Store } from "../../../facilitator/src/db/open";
import type { PaymentRow } from "../../../facilitator/src/db/tables/payments";
import type { EventDraft } from "../../../facilitator/src/events/event";
import { RowSet } from "../../../facilitator/src/events/projection";
import type { Place } from "../../../facilitator/src/payments/evidence";
import { insertPayment } from "../../../facilitator/src/payments/intake";
import { adoptEvidence, failSpent, rebindPayment } from "../../../facilitator/src/payments/ledger";
import type { Acceptance, PaymentRequest } from "../../../facilitator/src/payments/payment-request";
import { paymentRules } from "../../../facilitator/src/payments/projection";
import { RefundRecords } from "../../../facilitator/src/payments/refund-records";
import { EIP3009 } from "../../../facilitator/src/payments/transfer";
import { freshStore } from "../../support/store";

const CHAIN = 31_337;
const TOKEN: Address = "0x00000000000000000000000000000000000000A1";
const PAYEE: Address = "0x00000000000000000000000000000000000000B2";
const PAID = 250_000n;

/** The applied blocks: headers below are deleted after a while. */
const OLDEST = 50;
const NEWEST = 60;

const hashOf = (block: number, branch = "ours"): Hex => keccakText(`${branch} ${block}`);

describe("the ledger of payments", function () {
  this.timeout(120_000);
  let store: Store;
  let made = 0;

  before(async () => {
    store = await freshStore();
    const numbers = Array.from({ length: NEWEST - OLDEST + 1 }, (_, index) => OLDEST + index);
    const blocks = numbers.map((number) => ({
      chain_id: CHAIN,
      number,
      hash: hashOf(number),
      parent_hash: hashOf(number - 1),
      timestamp: 1_000 + number,
    }));
    await store.db.insertInto("blocks").values(blocks).execute();
    await store.db.insertInto("cursors").values({ chain_id: CHAIN, name: "indexer", position: NEWEST }).execute();
  });
  after(() => store.close());

  function acceptanceOf(more: Partial<Acceptance> = {}): Acceptance {
    const nonce = keccakText(`nonce ${made++}`);
    const authorization = { from: PAYEE, to: PAYEE, value: PAID, validAfter: 0n, validBefore: 9_000n, nonce };
    const request = {
      channel: "settle",
      purchase: undefined,
      paymentId: keccakText(nonce),
      token: { address: TOKEN },
      authorization,
      transfer: EIP3009,
      signature: `0x${"1".repeat(130)}`,
      resourceHash: keccakText(""),
      resourceShown: "",
    } as unknown as PaymentRequest;
    return { chainId: CHAIN, request, state: "parked", hasCode: false, balance: PAID, atBlock: 40, ...more };
  }
  async function bound(): Promise<PaymentRow> {
    const acceptance = acceptanceOf();
    expect(await store.transaction((tx) => insertPayment(tx, acceptance))).to.equal("bound");
    return rowOf(acceptance.request.paymentId);
  }
  const rowOf = (id: string): Promise<PaymentRow> =>
    store.db.selectFrom("payments").selectAll().where("payment_id", "=", id).executeTakeFirstOrThrow();
  const placeAt = (blockNumber: number, branch?: string): Place => ({
    transaction: keccakText(`transaction ${made++}`),
    blockNumber,
    blockHash: hashOf(blockNumber, branch),
    blockTimeSec: 1_000 + blockNumber,
    logIndex: 1 + made,
  });
  /** @returns the states of two payments that are decided by logs of this place: a transfer, and another use of the nonce */
  async function decidedAt(blockNumber: number, branch?: string): Promise<string[]> {
    const ledger = { store, feed: createEventFeed(CHAIN) };
    const [moved, spent] = [await bound(), await bound()];
    const transfer = { kind: "transfer" as const, to: PAYEE, amount: PAID, ...placeAt(blockNumber, branch) };
    await adoptEvidence(ledger, moved, transfer);
    await failSpent(ledger, spent, "cancelled", placeAt(blockNumber, branch));
    const rows = [await rowOf(moved.payment_id), await rowOf(spent.payment_id)];
    const events = await store.db
      .selectFrom("events")
      .select("object_id")
      .where(
        "object_id",
        "in",
        rows.map((row) => row.payment_id),
      )
      .execute();
    const isReported = ({ state }: PaymentRow): boolean => state === "settled" || state === "failed";
    expect(events, "an event for each outcome").to.have.length(rows.filter(isReported).length);
    return rows.map(({ state }) => state);
  }

  it("B8 S4 logs of a block that was reverted meanwhile decide nothing", async () => {
    expect(await decidedAt(NEWEST, "theirs"), "another block is applied at its height").to.deep.equal([
      "parked",
      "parked",
    ]);
    expect(await decidedAt(NEWEST + 1), "no block is applied at its height").to.deep.equal(["parked", "parked"]);
  });

  it("B4 logs of an applied block decide, also when its header is deleted", async () => {
    expect(await decidedAt(NEWEST)).to.deep.equal(["settled", "failed"]);
    expect(await decidedAt(OLDEST - 1)).to.deep.equal(["settled", "failed"]);
  });

  it("B8 a payment that is bound again counts blocks that were reverted meanwhile as later", async () => {
    const acceptance = acceptanceOf();
    await store.transaction((tx) => insertPayment(tx, acceptance));
    const { paymentId } = acceptance.request;
    await store.db.updateTable("payments").set({ state: "failed" }).where("payment_id", "=", paymentId).execute();
    const again: Acceptance = { ...acceptance, state: "queued", atBlock: NEWEST + 1 };
    expect(await rebindPayment(store, again)).to.equal("bound");
    expect(await rowOf(paymentId)).to.include({ state: "queued", accepted_block: NEWEST });
  });

  it("HE11 a payment that was charged at 0 stays so when its nonce is used or cancelled for something else", async () => {
    const row: PaymentRow = { ...(await bound()), state: "waived", amount: "0", method: "upto" };
    const payments = new RowSet<PaymentRow>();
    payments.load(row.payment_id, row);
    const block = { number: NEWEST + 1, hash: hashOf(NEWEST + 1), parentHash: hashOf(NEWEST), timestampSec: 2_000 };
    const base = { paymentId: row.payment_id as Hex, transaction: keccakText("elsewhere"), logIndex: 3 };
    const facts: ChainFact[] = [
      { kind: "authorizationUsed", token: TOKEN, transfer: { to: TOKEN, amount: PAID, logIndex: 4 }, ...base },
      { kind: "authorizationCanceled", ...base },
    ];
    const input = { chainId: CHAIN, block: { ...block, transactions: [], baseFeeWei: 0n }, facts, expired: [] };
    const events: EventDraft[] = [];
    const rules = paymentRules(input, { payments, refunds: new RefundRecords([]) });
    for (const fact of facts) rules.apply(fact, events);
    expect([payments.changes(), events]).to.deep.equal([[], []]);
  });
});
