import { expect } from "chai";
import { id, TypedDataEncoder, Wallet } from "ethers";
import {
  type Address,
  checksum,
  encodePaymentProof,
  type Hex,
  InvalidPaymentProof,
  isProofSignedBy,
  parsePaymentProof,
  proofDigest,
  signProof,
  type UnsignedPaymentProof,
} from "turnpike/protocol";

const TEST_KEY = id("turnpike test key: facilitator") as Hex;
const facilitator = new Wallet(TEST_KEY).address as Address;
const unsigned: UnsignedPaymentProof = {
  version: "1",
  network: "base-mainnet",
  token: checksum(`0x${"34".repeat(20)}`),
  payer: checksum(`0x${"12".repeat(20)}`),
  payTo: checksum(`0x${"56".repeat(20)}`),
  amount: 500_000n,
  memo: "ref.k1.1800000000.mac",
  resource: "https://api.example/report",
  transaction: id("transaction") as Hex,
  blockNumber: 7,
  settledAt: 1_799_999_990,
  expiresAt: 1_800_604_790,
  facilitator,
};
const proof = signProof(unsigned, 8453, TEST_KEY);

describe("protocol > proof", () => {
  it("has the documented EIP-712 form", () => {
    const types =
      "string network,address token,address payer,address payTo,uint256 amount,string memo,bytes32 resourceHash,bytes32 transaction,uint256 blockNumber,uint256 settledAt,uint256 expiresAt,address facilitator";
    const fields = types.split(",").map((text) => ({ type: text.split(" ")[0] ?? "", name: text.split(" ")[1] ?? "" }));
    const domain = { name: "Turnpike Payment Proof", version: "1", chainId: 8453, verifyingContract: unsigned.token };
    const { version: _version, resource, ...rest } = unsigned;
    expect(proofDigest(unsigned, 8453)).to.equal(
      TypedDataEncoder.hash(domain, { PaymentProof: fields }, { ...rest, resourceHash: id(resource) }),
    );
  });

  it("S3 is the same bytes each time it is made from the same facts", () => {
    expect(signProof(unsigned, 8453, TEST_KEY)).to.deep.equal(proof);
  });

  it("comes back from its header form unchanged", () => {
    expect(parsePaymentProof(encodePaymentProof(proof))).to.deep.equal(proof);
  });

  it("B21 C17 is worth nothing when a fact, the chain or the signer is another", () => {
    expect(isProofSignedBy(proof, 8453, facilitator)).to.equal(true);
    expect(isProofSignedBy(proof, 84532, facilitator)).to.equal(false);
    expect(isProofSignedBy(proof, 8453, proof.payer)).to.equal(false);
    const stranger = new Wallet(id("turnpike test key: stranger")).address as Address;
    expect(isProofSignedBy({ ...proof, facilitator: stranger }, 8453, stranger)).to.equal(false);
    const changes: Partial<UnsignedPaymentProof>[] = [
      { network: "base-sepolia" },
      { payer: proof.payTo },
      { payTo: proof.payer },
      { amount: 1n },
      { memo: "x" },
      { resource: "https://api.example/other" },
      { transaction: id("other") as Hex },
      { blockNumber: 8 },
      { settledAt: 0 },
      { expiresAt: 4_000_000_000 },
    ];
    for (const change of changes) {
      expect(isProofSignedBy({ ...proof, ...change }, 8453, facilitator), JSON.stringify(Object.keys(change))).to.equal(
        false,
      );
    }
  });

  it("C8 refuses what is no proof with one error, never a parser's message", () => {
    const wire = { ...proof, amount: "500000" };
    const encode = (value: string) => Buffer.from(value).toString("base64");
    const cases = [
      "",
      "%%%",
      "e30",
      encode("null"),
      encode("[]"),
      encode('"text"'),
      encode("{"),
      encode(JSON.stringify({ ...wire, amount: 500_000 })),
      encode(JSON.stringify({ ...wire, amount: "-1" })),
      encode(JSON.stringify({ ...wire, signature: "0x" })),
      encode(JSON.stringify({ ...wire, payer: "0x12" })),
      encode(JSON.stringify(wire).replace("{", '{"amount":"1",')),
      encode(JSON.stringify(wire).replace("{", '{"__proto__":{"x":1},')),
      encode(`\ufeff${JSON.stringify(wire)}`),
      Buffer.from([0xff, 0xfe, 0x7b, 0x7d]).toString("base64"),
      encode("x".repeat(20_000)),
      encode("[".repeat(3_000)),
      encode(`{"a":${"[".repeat(20)}${"]".repeat(20)}}`),
    ];
    for (const value of cases) {
      const thrown = (() => {
        try {
          parsePaymentProof(value);
        } catch (error) {
          return error;
        }
      })();
      expect(thrown, value.slice(0, 40)).to.be.instanceOf(InvalidPaymentProof);
      expect((thrown as Error).message).to.not.match(/JSON at position|Unexpected token|ZodError/);
    }
  });

  it("takes base64 in either alphabet, padded or not", () => {
    const standard = encodePaymentProof(proof);
    for (const form of [standard, standard.replace(/=+$/, ""), standard.replaceAll("+", "-").replaceAll("/", "_")]) {
      expect(parsePaymentProof(form).signature).to.equal(proof.signature);
    }
    expect(() => parsePaymentProof(`${standard}====`)).to.throw(InvalidPaymentProof);
  });
});
