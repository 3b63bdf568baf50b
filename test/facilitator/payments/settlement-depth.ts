import { expect } from "chai";
import type { FacilitatorConfig } from "../../../facilitator/src/config";
import type { PaymentRow } from "../../../facilitator/src/db/tables/payments";
import type { Indexer } from "../../../facilitator/src/indexer";
import { SettlementDepth } from "../../../facilitator/src/payments/settlement-depth";

const TOKEN = "0x00000000000000000000000000000000000000A1";

const BLOCK = 100;

const config = {
  tokens: [{ address: TOKEN, largeAmount: 1_000n }],
  largeConfirmations: 3,
  finalityDepth: 5,
} as unknown as FacilitatorConfig;

interface Chain {
  readonly head: number;
  readonly keptTo?: number;
}

function depthAt({ head, keptTo = Number.POSITIVE_INFINITY }: Chain): SettlementDepth {
  const indexer = { head: () => ({ number: head }), applied: () => head, keptTo: () => keptTo };
  return new SettlementDepth(config, indexer as unknown as Indexer);
}

const rowOf = (row: Partial<PaymentRow>): PaymentRow =>
  ({ token: TOKEN, amount: "1000", block_number: BLOCK, fail_reason: null, ...row }) as PaymentRow;

describe("settlement depth", () => {
  it("confirms a large payment once its block has the required depth, and a smaller one at once", () => {
    const large = rowOf({ amount: "1000" });
    const small = rowOf({ amount: "999" });
    expect([BLOCK, BLOCK + 1, BLOCK + 2, BLOCK + 3].map((head) => depthAt({ head }).isDeepEnough(large))).to.deep.equal(
      [false, false, true, true],
    );
    expect(depthAt({ head: BLOCK }).isDeepEnough(small)).to.equal(true);
  });

  it("HD52 confirms any payment of a token that is served no more as a large one", () => {
    const other = rowOf({ amount: "1", token: "0x00000000000000000000000000000000000000b2" });
    expect([BLOCK + 1, BLOCK + 2].map((head) => depthAt({ head }).isDeepEnough(other))).to.deep.equal([false, true]);
  });

  it("confirms no payment of a block above the kept ones, and counts depth from the kept ones", () => {
    const small = rowOf({ amount: "999" });
    expect(depthAt({ head: BLOCK + 9, keptTo: BLOCK - 1 }).isDeepEnough(small)).to.equal(false);
    expect(depthAt({ head: BLOCK + 9, keptTo: BLOCK }).isDeepEnough(small)).to.equal(true);
    expect(depthAt({ head: BLOCK + 9, keptTo: BLOCK + 1 }).isDeepEnough(rowOf({}))).to.equal(false);
    expect(depthAt({ head: BLOCK + 9, keptTo: BLOCK + 2 }).isDeepEnough(rowOf({}))).to.equal(true);
  });

  it("makes a failure final by its block's depth, by expiry, or when no block proves it", () => {
    const spent = rowOf({ fail_reason: "nonce_spent_elsewhere" });
    expect([BLOCK + 4, BLOCK + 5].map((head) => depthAt({ head }).isFinalFailure(spent))).to.deep.equal([false, true]);
    expect(depthAt({ head: BLOCK + 9, keptTo: BLOCK + 4 }).isFinalFailure(spent)).to.equal(false);
    expect(depthAt({ head: BLOCK }).isFinalFailure(rowOf({ fail_reason: "expired" }))).to.equal(true);
    expect(depthAt({ head: BLOCK }).isFinalFailure(rowOf({ block_number: null }))).to.equal(true);
  });

  it("throws Unavailable for a block above the kept ones, and for no other", () => {
    const depth = depthAt({ head: BLOCK + 9, keptTo: BLOCK });
    expect(() => depth.requireKept(BLOCK + 1)).to.throw("it is not known yet whether this payment stays on the chain");
    expect(() => depth.requireKept(BLOCK)).not.to.throw();
    expect(() => depth.requireKept(null)).not.to.throw();
  });
});
