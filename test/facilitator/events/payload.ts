import { expect } from "chai";
import { compactPayload, wholePayload } from "../../../facilitator/src/events/payload";

const SETTLED = {
  type: "payment.settled",
  object_id: "0x01",
  provider: "0x02",
  payer: "0x03",
  block_number: 4,
  block_time: 5,
  transaction: "0x06",
  payload: {
    paymentId: "0x01",
    door: "settle",
    token: "0x07",
    payer: "0x03",
    payTo: "0x02",
    amount: "8",
    resource: "/a",
    status: "settled",
    transaction: "0x06",
    blockNumber: 4,
    settledAt: 5,
  },
};

describe("Facilitator: payloads of events", () => {
  it("of settled payments are stored without what the columns repeat, and read whole", () => {
    const payload = { ...compactPayload(SETTLED) };
    expect(payload).to.deep.equal({ door: "settle", token: "0x07", amount: "8", resource: "/a" });
    expect(wholePayload({ ...SETTLED, payload })).to.deep.equal(SETTLED.payload);
  });

  it("that say something else than the columns, and those of other events, are stored as they are", () => {
    const other = { ...SETTLED, payload: { ...SETTLED.payload, transaction: "0x09" } };
    const created = { ...SETTLED, type: "plan.created", payload: { paymentId: "0x01" } };
    const reversed = { ...SETTLED, type: "payment.reversed" };
    for (const row of [other, created, reversed]) {
      const payload = { ...compactPayload(row) };
      expect(payload).to.deep.equal(row.payload);
      expect(wholePayload({ ...row, payload })).to.deep.equal(row.payload);
    }
  });
});
