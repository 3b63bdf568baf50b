import { expect } from "chai";
import { verifyTypedData } from "ethers";
import fc from "fast-check";
import {
  addressOfKey,
  encodeUsageReceipt,
  type Hex,
  isOverpriced,
  keccakText,
  parseUsageReceipt,
  recoverSigner,
  requestHashOf,
  type SignedUsageReceipt,
  signDigest,
  typedDataDigest,
  type UsageReceipt,
  usageReceiptTypedData,
} from "turnpike/protocol";

const KEY = keccakText("receipt key");
const DEPLOYMENT = { chainId: 31_337, turnpike: addressOfKey(keccakText("turnpike")) };

const RECEIPT: UsageReceipt = {
  planId: keccakText("plan"),
  idHash: keccakText("subscription"),
  version: 3,
  paidThrough: 1_800_000_000,
  sequence: 7,
  requestHash: requestHashOf(`0x${"11".repeat(16)}`, "GET", "https://api.example/x?q=ä"),
  unit: "output token",
  units: 1_000n,
  unitPrice: "15000000/1000000",
  amount: 15_000n,
  total: 99_000n,
};

const signed = (receipt: UsageReceipt): SignedUsageReceipt => ({
  receipt,
  salt: `0x${"11".repeat(16)}`,
  signature: signDigest(typedDataDigest(usageReceiptTypedData(DEPLOYMENT, receipt)), KEY),
});

describe("A usage receipt", () => {
  const text = encodeUsageReceipt(signed(RECEIPT));

  it("is one short word that a header and a comment can carry, and reads back as it was", () => {
    expect(text).to.match(/^[A-Za-z0-9._/-]+$/);
    expect(text.length).to.be.lessThan(512);
    expect(parseUsageReceipt(text)).to.deep.equal(signed(RECEIPT));
  });

  it("is an EIP-712 message that other libraries verify, of one chain and one contract", () => {
    const { domain, types, message } = usageReceiptTypedData(DEPLOYMENT, RECEIPT);
    const { signature } = signed(RECEIPT);
    expect(verifyTypedData(domain, types as never, message, signature)).to.equal(addressOfKey(KEY));
    for (const other of [
      { ...DEPLOYMENT, chainId: 8_453 },
      { ...DEPLOYMENT, turnpike: addressOfKey(KEY) },
    ]) {
      const digest = typedDataDigest(usageReceiptTypedData(other, RECEIPT));
      expect(recoverSigner(digest, signature)).not.to.equal(addressOfKey(KEY));
    }
  });

  it("UR1 names another signer once any field was changed", () => {
    const changes: { readonly [F in keyof UsageReceipt]: UsageReceipt[F] } = {
      planId: keccakText("other"),
      idHash: keccakText("other"),
      version: 4,
      paidThrough: 1_800_000_001,
      sequence: 8,
      requestHash: keccakText("other"),
      unit: "output tokens",
      units: 1_001n,
      unitPrice: "15000001/1000000",
      amount: 15_001n,
      total: 99_001n,
    };
    const { signature } = signed(RECEIPT);
    for (const [field, value] of Object.entries(changes)) {
      const digest = typedDataDigest(usageReceiptTypedData(DEPLOYMENT, { ...RECEIPT, [field]: value }));
      expect(recoverSigner(digest, signature), field).not.to.equal(addressOfKey(KEY));
    }
  });

  it("UR1 has one text: every other one is refused", () => {
    const parts = text.split(".");
    const withPart = (at: number, part: string) => parts.map((one, i) => (i === at ? part : one)).join(".");
    const cases: readonly string[] = [
      ...["", ".", text.slice(0, -1), `${text}.`, ` ${text}`, `${text}=`, "x".repeat(5_000)],
      ...[withPart(0, "2"), withPart(1, "AA"), withPart(3, "65536"), withPart(3, "03"), withPart(3, "-1")],
      ...[withPart(4, "1099511627776"), withPart(5, "0"), withPart(5, "4294967296"), withPart(5, "1e3")],
      ...[withPart(7, ""), withPart(7, "CgA"), withPart(8, "1.5"), withPart(9, "1/0"), withPart(9, "01/1")],
      ...[withPart(10, "+1"), withPart(11, (2n ** 256n).toString()), withPart(13, `${parts[13]}A`)],
    ];
    for (const one of cases) expect(parseUsageReceipt(one), one.slice(0, 80)).to.equal(undefined);
  });

  it("UR1 is read without a fault from any text", () => {
    fc.assert(
      fc.property(fc.string({ maxLength: 600 }), fc.nat(text.length), (noise, at) => {
        const read = parseUsageReceipt(text.slice(0, at) + noise);
        if (read) expect(encodeUsageReceipt(read)).to.equal(text.slice(0, at) + noise);
      }),
    );
  });

  it("names its request by a salt, and never another one", () => {
    const salt: Hex = `0x${"22".repeat(16)}`;
    const hash = requestHashOf(salt, "GET", "https://api.example/a");
    expect(requestHashOf(salt, "GET", "https://api.example/a")).to.equal(hash);
    expect(requestHashOf(salt, "GET", "https://api.example/b")).not.to.equal(hash);
    expect(requestHashOf(salt, "PUT", "https://api.example/a")).not.to.equal(hash);
    expect(requestHashOf(`0x${"23".repeat(16)}`, "GET", "https://api.example/a")).not.to.equal(hash);
  });

  it("is overpriced above the price of its units, rounded up, and above its own total", () => {
    const price = { unit: "token", unitPrice: "3/2" };
    expect(isOverpriced({ ...RECEIPT, ...price, units: 3n, amount: 5n })).to.equal(false);
    expect(isOverpriced({ ...RECEIPT, ...price, units: 3n, amount: 6n })).to.equal(true);
    expect(isOverpriced({ ...RECEIPT, ...price, units: 3n, amount: 5n, total: 4n })).to.equal(true);
  });
});
