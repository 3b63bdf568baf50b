import { expect } from "chai";
import { FairShares, type Party } from "../../../facilitator/src/lib/fair-shares";

const PLACES = 100;

describe("Facilitator: shares of a queue", () => {
  let shares: FairShares;
  beforeEach(() => {
    shares = new FairShares();
  });

  function enter(party: Party): boolean {
    const isAdmitted = shares.mayEnter(party, shares.taken / PLACES);
    if (isAdmitted) shares.enter(party);
    return isAdmitted;
  }
  const flood = (partyOf: (index: number) => Party): number =>
    Array.from({ length: PLACES * 3 }, (_, index) => enter(partyOf(index))).filter(Boolean).length;

  it("B26 a payer alone gets half of the places, and a provider alone three quarters", () => {
    expect(flood(() => ({ payer: "greedy", payee: "shop" }))).to.equal(50);
    expect(flood((index) => ({ payer: `payer ${index}`, payee: "shop" }))).to.equal(25);
  });

  it("B26 another payer is admitted beside a flood, and another provider's beside a flooded provider", () => {
    flood(() => ({ payer: "greedy", payee: "shop" }));
    expect(enter({ payer: "quiet", payee: "shop" })).to.equal(true);
    flood((index) => ({ payer: `payer ${index}`, payee: "shop" }));
    expect(enter({ payer: "late", payee: "shop" })).to.equal(false);
    expect(enter({ payer: "late", payee: "stall" })).to.equal(true);
    expect(enter({ payer: "greedy", payee: "stall" }), "the greedy payer, at another provider").to.equal(false);
  });

  it("admits nobody past the last place", () => {
    flood((index) => ({ payer: `payer ${index}`, payee: `provider ${index}` }));
    expect(shares.taken).to.equal(PLACES);
    expect(enter({ payer: "new", payee: "new" })).to.equal(false);
  });

  it("admits a payer again whose places are free again", () => {
    const greedy = { payer: "greedy", payee: "shop" };
    const taken = flood(() => greedy);
    for (let i = 0; i < taken; i++) shares.leave(greedy);
    expect(shares.taken).to.equal(0);
    expect(flood(() => greedy)).to.equal(50);
  });
});
