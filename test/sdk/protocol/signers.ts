import { expect } from "chai";
import { type Address, checksum, parseInstant, parseProofSigner, trustSigners } from "turnpike/protocol";

const A = checksum(`0x${"a1".repeat(20)}`);
const B = checksum(`0x${"b2".repeat(20)}`);

describe("trusted signers", () => {
  it("HD3 judge by the settlement's time: a retired one counts before its end and not at it", () => {
    const signers = trustSigners([{ address: A }, { address: B, until: 1_000 }]);
    expect(signers.isTrustedSigner(A, Number.MAX_SAFE_INTEGER)).to.equal(true);
    expect(signers.isTrustedSigner(B, 999)).to.equal(true);
    expect(signers.isTrustedSigner(B, 1_000)).to.equal(false);
    expect(signers.isTrustedSigner(B, Number.POSITIVE_INFINITY)).to.equal(false);
    expect(signers.isTrustedSigner(B, Number.NaN)).to.equal(false);
    expect(signers.isTrustedSigner(B.toLowerCase() as Address, 999)).to.equal(true);
    expect(signers.isTrustedSigner(checksum(`0x${"c3".repeat(20)}`), 0)).to.equal(false);
  });

  it("HD3 are written as an address, or with @ and a time", () => {
    expect(parseProofSigner(A.toLowerCase())).to.deep.equal({ address: A });
    expect(parseProofSigner(`${A}@1790000000`)).to.deep.equal({ address: A, until: 1_790_000_000 });
    expect(parseProofSigner(`${A}@2026-09-21T14:13:20Z`)).to.deep.equal({ address: A, until: 1_790_000_000 });
    expect(parseProofSigner(`${A}@2026-09-21T16:13:20.5+02:00`)).to.deep.equal({ address: A, until: 1_790_000_000 });
    for (const wrong of ["", "@1", A.slice(0, -1), `${A}@`, `${A}@1@2`, `${A}@soon`, `${A}@-5`, `${A} @1790000000`]) {
      expect(parseProofSigner(wrong), wrong).to.equal(undefined);
    }
  });

  it("HD3 take no time that two readers may read differently", () => {
    // A day alone, a time without a zone, milliseconds, a date that does not exist.
    for (const wrong of ["2026-09-21", "2026-09-21T14:13:20", "1790000000000", "2026-13-41T00:00:00Z", "1e9", "0x10"]) {
      expect(parseInstant(wrong), wrong).to.equal(undefined);
    }
  });
});
