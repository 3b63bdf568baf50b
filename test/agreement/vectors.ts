import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import { expect } from "chai";
import {
  AbiCoder,
  hashMessage,
  keccak256,
  TypedDataEncoder,
  toUtf8Bytes,
  verifyMessage,
  verifyTypedData,
} from "ethers";
import { vectorsText } from "./support/vectors";

const FILE = "docs/reference/vectors/x402.json";

interface Signed {
  readonly typedData: { domain: object; types: Record<string, { name: string; type: string }[]>; message: object };
  readonly digest: string;
  readonly signature: string;
}

// What outsiders write clients from, compared with this code and, field by field, with another implementation.
describe("agreement > docs/reference/vectors", () => {
  before(() => {
    if (process.env.TURNPIKE_WRITE_VECTORS !== "1") return;
    mkdirSync(path.dirname(FILE), { recursive: true });
    writeFileSync(FILE, vectorsText());
  });
  const read = () => JSON.parse(readFileSync(FILE, "utf8"));

  it("holds exactly what the code makes: else run this test with TURNPIKE_WRITE_VECTORS=1", () => {
    expect(readFileSync(FILE, "utf8")).to.equal(vectorsText());
  });

  it("names nonce, paymentId and idHash as ethers hashes them", () => {
    const { nonce, paymentId, subscription } = read();
    const abi = AbiCoder.defaultAbiCoder();
    const hash = (types: string[], values: unknown[]) => keccak256(abi.encode(types, values));
    expect(hash(["string", "string"], [nonce.ref, nonce.resource])).to.equal(nonce.nonce);
    const id = [paymentId.chainId, paymentId.token, paymentId.payer, paymentId.nonce];
    expect(hash(["uint256", "address", "address", "bytes32"], id)).to.equal(paymentId.paymentId);
    expect(keccak256(subscription.secret)).to.equal(subscription.secretHash);
    const owner = [subscription.key.address, subscription.secretHash];
    expect(hash(["address", "bytes32"], owner)).to.equal(subscription.idHash);
    expect(subscription.id).to.equal(`${subscription.key.address.toLowerCase()}${subscription.secret.slice(2)}`);
  });

  it("names what is refunded, and its nonces, as ethers hashes them", () => {
    const abi = AbiCoder.defaultAbiCoder();
    const hash = (types: string[], values: unknown[]) => keccak256(abi.encode(types, values));
    for (const { chainId, turnpike, target, id, index, nonce } of read().refunds) {
      expect(hash(["string", "bytes32", "uint256"], ["turnpike.refund", id, index])).to.equal(nonce);
      const { type, idHash, paymentId } = target;
      if (type === "payment") expect(paymentId).to.equal(id);
      else {
        const numbers = type === "debit" ? [target.index] : [target.version, target.paidThrough];
        const types = ["uint256", "address", "bytes32", "string", ...numbers.map(() => "uint256")];
        expect(hash(types, [chainId, turnpike, idHash, type, ...numbers])).to.equal(id);
      }
    }
  });

  it("signs every typed message as ethers reads it", () => {
    const { native, x402v1, x402v2, subscription, keys } = read();
    const all: [Signed, string][] = [
      [native, keys.payer.address],
      [x402v1, keys.payer.address],
      [x402v2, keys.payer.address],
      [subscription.subscribe, subscription.key.address],
      [subscription.permit, subscription.key.address],
      [subscription.root, subscription.key.address],
    ];
    for (const [{ typedData, digest, signature }, signer] of all) {
      const { domain, types, message } = typedData;
      expect(TypedDataEncoder.hash(domain, types, message)).to.equal(digest);
      expect(verifyTypedData(domain, types, message, signature)).to.equal(signer);
    }
  });

  it("proves a payment by the documented struct", () => {
    const { proof, keys, chainId } = read();
    const { signature, resource, version, ...facts } = proof.proof;
    expect(version).to.equal("1");
    const domain = { name: "Turnpike Payment Proof", version: "1", chainId, verifyingContract: facts.token };
    const fields =
      "string network,address token,address payer,address payTo,uint256 amount,string memo,bytes32 resourceHash,bytes32 transaction,uint256 blockNumber,uint256 settledAt,uint256 expiresAt,address facilitator";
    const types = {
      PaymentProof: fields.split(",").map((field) => {
        const [type = "", name = ""] = field.split(" ");
        return { name, type };
      }),
    };
    const message = { ...facts, resourceHash: keccak256(toUtf8Bytes(resource)) };
    expect(message.resourceHash).to.equal(proof.resourceHash);
    expect(TypedDataEncoder.hash(domain, types, message)).to.equal(proof.digest);
    expect(verifyTypedData(domain, types, message, signature)).to.equal(keys.facilitator.address);
    expect(JSON.parse(Buffer.from(proof.header["X-PAYMENT"], "base64").toString("utf8"))).to.deep.equal(proof.proof);
  });

  it("signs in with the text that wallets show", () => {
    const { signIn, subscription } = read();
    expect(hashMessage(signIn.message)).to.equal(signIn.digest);
    expect(verifyMessage(signIn.message, signIn.payload.signature)).to.equal(subscription.key.address);
  });

  it("is what docs/reference/wire.md quotes", () => {
    const { nonce, paymentId, proof, subscription } = read();
    const page = readFileSync("docs/reference/wire.md", "utf8");
    for (const value of [nonce.nonce, paymentId.paymentId, proof.digest, subscription.idHash, subscription.id]) {
      expect(page).to.contain(value);
    }
  });
});
