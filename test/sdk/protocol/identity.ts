import { expect } from "chai";
import { AbiCoder, id, keccak256 } from "ethers";
import fc from "fast-check";
import {
  type Address,
  checksum,
  type Hex,
  idHashOf,
  isMemoGenuine,
  issueMemo,
  type MemoKey,
  parseMemo,
  parseSubscriptionId,
  paymentIdOf,
  paymentNonce,
  planIdOf,
  type QuotedFacts,
  randomRef,
  refOfIdempotencyKey,
  secretHashOf,
  subscriptionId,
} from "turnpike/protocol";

const abi = AbiCoder.defaultAbiCoder();
const payer: Address = checksum(`0x${"12".repeat(20)}`);
const token: Address = checksum(`0x${"34".repeat(20)}`);

describe("protocol > identity", () => {
  it("binds the nonce to ref and resource as abi.encode does", () => {
    fc.assert(
      fc.property(fc.string({ unit: "binary" }), fc.webUrl(), (ref, resource) => {
        expect(paymentNonce(ref, resource)).to.equal(keccak256(abi.encode(["string", "string"], [ref, resource])));
      }),
    );
  });

  it("S13 gives two payers of one memo two payment ids", () => {
    const nonce = paymentNonce("ref", "https://api.example/x");
    const key = { chainId: 8453, token, nonce };
    expect(paymentIdOf({ ...key, payer })).to.equal(
      keccak256(abi.encode(["uint256", "address", "address", "bytes32"], [8453, token, payer, nonce])),
    );
    expect(paymentIdOf({ ...key, payer })).to.not.equal(paymentIdOf({ ...key, payer: token }));
  });

  it("derives planId as the contract does", () => {
    const salt = id("salt") as Hex;
    const plan = {
      chainId: 8453,
      turnpike: token,
      provider: payer,
      token,
      amount: 20_000_000n,
      graceSec: 86_400,
      payTo: payer,
      salt,
      metadata: '{"name":"Pro"}',
    };
    const encoded = (interval: number, months: boolean) =>
      keccak256(
        abi.encode(
          ["uint256", "address", "address", "tuple(address,uint96,uint32,bool,uint32,address)", "bytes32", "bytes32"],
          [8453, token, payer, [token, 20_000_000n, interval, months, 86_400, payer], salt, id(plan.metadata)],
        ),
      );
    expect(planIdOf({ ...plan, intervalSec: 2_592_000, months: 0 })).to.equal(encoded(2_592_000, false));
    expect(planIdOf({ ...plan, intervalSec: 7_776_000, months: 3 })).to.equal(encoded(3, true));
  });

  it("C9 a subscription id opens by its secret; the hash on chain leads nowhere back", () => {
    const secret = id("test secret") as Hex;
    const subscription = subscriptionId(payer, secret);
    expect(subscription).to.match(/^0x[0-9a-f]{104}$/);
    expect(parseSubscriptionId(subscription)).to.deep.equal({
      subscriber: payer,
      secretHash: secretHashOf(secret),
      idHash: keccak256(abi.encode(["address", "bytes32"], [payer, keccak256(secret)])),
    });
    expect(idHashOf(payer, secretHashOf(secret))).to.equal(parseSubscriptionId(subscription)?.idHash);
    for (const wrong of [
      idHashOf(payer, secretHashOf(secret)),
      `${subscription}00`,
      subscription.slice(2),
      "",
      undefined,
    ]) {
      expect(parseSubscriptionId(wrong), String(wrong)).to.equal(undefined);
    }
  });
});

describe("protocol > memo", () => {
  const key: MemoKey = { id: "k1", secret: new Uint8Array(32).fill(7) };
  const facts: QuotedFacts = {
    method: "GET",
    resource: "https://api.example/report?year=2026",
    amount: 500_000n,
    token,
    payTo: payer,
    network: "base-mainnet",
  };
  const ref = randomRef();
  const memo = issueMemo(key, facts, ref, 1_800_000_000);

  it("is accepted for exactly what was quoted", () => {
    const parsed = parseMemo(memo);
    expect(parsed).to.include({ ref, keyId: "k1", expiresAtSec: 1_800_000_000 });
    if (!parsed) return;
    expect(isMemoGenuine(parsed, facts, [key])).to.equal(true);
  });

  it("C3 C4 is refused when any quoted fact, its expiry or its key is another", () => {
    const parsed = parseMemo(memo);
    if (!parsed) throw new Error("memo does not parse");
    const others: Partial<QuotedFacts>[] = [
      { method: "POST" },
      { resource: "https://api.example/report?year=2027" },
      { amount: 500_001n },
      { token: payer },
      { payTo: token },
      { network: "base-sepolia" },
      { bodyHash: "00" },
    ];
    for (const other of others) expect(isMemoGenuine(parsed, { ...facts, ...other }, [key])).to.equal(false);
    expect(isMemoGenuine({ ...parsed, expiresAtSec: 1_900_000_000 }, facts, [key])).to.equal(false);
    expect(isMemoGenuine({ ...parsed, ref: randomRef() }, facts, [key])).to.equal(false);
    expect(isMemoGenuine(parsed, facts, [{ ...key, secret: new Uint8Array(32) }])).to.equal(false);
    expect(isMemoGenuine(parsed, facts, [{ ...key, id: "k2" }])).to.equal(false);
    expect(isMemoGenuine(parsed, facts, [{ id: "k2", secret: new Uint8Array(32) }, key])).to.equal(true);
  });

  it("refuses every other shape", () => {
    for (const text of [`${memo}.`, ` ${memo}`, memo.toUpperCase(), memo.replace(".k1.", ".k 1."), "a.b.c.d", "", 5]) {
      const parsed = parseMemo(text);
      expect(parsed !== undefined && isMemoGenuine(parsed, facts, [key]), String(text)).to.equal(false);
    }
  });

  it("D17 gives one purchase key one ref, whatever the price and expiry", () => {
    const first = refOfIdempotencyKey(key, "GET", facts.resource, "purchase-key-0001");
    expect(refOfIdempotencyKey(key, "GET", facts.resource, "purchase-key-0001")).to.equal(first);
    expect(refOfIdempotencyKey(key, "GET", facts.resource, "purchase-key-0002")).to.not.equal(first);
    expect(refOfIdempotencyKey(key, "POST", facts.resource, "purchase-key-0001")).to.not.equal(first);
    expect(parseMemo(issueMemo(key, facts, first, 1))?.ref).to.equal(first);
  });
});
