import { expect } from "chai";
import { getAddress, id, TypedDataEncoder, Wallet } from "ethers";
import fc from "fast-check";
import {
  type Address,
  actTypedData,
  addressOfKey,
  checksum,
  EXACT_PERMIT2_PROXY,
  type Hex,
  mutableTypes,
  permit2TypedData,
  permitTypedData,
  recoverSigner,
  rootTypedData,
  signDigest,
  subscribeTypedData,
  type TypedData,
  transferTypedData,
  typedDataDigest,
  UPTO_PERMIT2_PROXY,
  voidTypedData,
  voucherTypedData,
} from "turnpike/protocol";
import { highS } from "../../support/signature-forms";

const TEST_KEY = id("turnpike test key: protocol") as Hex;
const wallet = new Wallet(TEST_KEY);
const subscriber = wallet.address as Address;
const word = id("word") as Hex;
const deployment = { chainId: 31337, turnpike: checksum(`0x${"ab".repeat(20)}`) };
const token = { chainId: 8453, token: checksum(`0x${"cd".repeat(20)}`), name: "USD Coin", version: "2" };
const terms = { token: token.token, payTo: subscriber, amount: 7n, intervalSec: 60, months: 0 };
const monthly = { ...terms, intervalSec: 90 * 86_400, months: 3 };
const signup = { subscriber, planId: word, secretHash: word, maxOverage: 5n, deadline: 9n };
const first = { firstAmount: 0n, firstInterval: 3_600 };
const act = { subscriber, idHash: word, version: 3, deadline: 99n };

const permit2 = {
  from: subscriber,
  to: token.token,
  token: token.token,
  amount: 5n,
  spender: EXACT_PERMIT2_PROXY,
  nonce: 2n ** 256n - 1n,
  deadline: 9n,
  validAfter: 0n,
};

const MESSAGES: Record<string, TypedData> = {
  Subscribe: subscribeTypedData(deployment, terms, signup),
  SubscribeWith: subscribeTypedData(deployment, monthly, { ...signup, until: 77, first }),
  Voucher: voucherTypedData(deployment, {
    ...first,
    planId: word,
    subscriber,
    secretHash: word,
    token: token.token,
    deadline: 9n,
  }),
  Void: voidTypedData(deployment, { subscriber, secretHash: word, deadline: 9n }),
  Pause: actTypedData(deployment, "Pause", act),
  Resume: actTypedData(deployment, "Resume", { ...act, token: token.token, maxCharge: 7n }),
  Cancel: actTypedData(deployment, "Cancel", { ...act, atPeriodEnd: true }),
  SetMaxOverage: actTypedData(deployment, "SetMaxOverage", { ...act, token: token.token, cap: 7n }),
  SetNext: actTypedData(deployment, "SetNext", { ...act, until: 77, nextPlanId: word, terms: monthly }),
  SetUntil: actTypedData(deployment, "SetNext", { ...act, until: 77, nextPlanId: `0x${"00".repeat(32)}` }),
  ChangePlan: actTypedData(deployment, "ChangePlan", {
    ...act,
    newPlanId: word,
    maxOverage: 1n,
    maxCharge: 2n,
    terms: monthly,
  }),
  Rekey: actTypedData(deployment, "Rekey", { ...act, newSecretHash: word }),
  Transfer: transferTypedData(token, {
    from: subscriber,
    to: token.token,
    value: 1n,
    validAfter: 0n,
    validBefore: 2n ** 256n - 1n,
    nonce: word,
  }),
  Permit: permitTypedData(token, { owner: subscriber, spender: token.token, value: 1n, nonce: 0n, deadline: 5n }),
  Permit2: permit2TypedData(8453, permit2),
  Upto: permit2TypedData(8453, { ...permit2, spender: UPTO_PERMIT2_PROXY, facilitator: subscriber }),
  Root: rootTypedData(),
  RootOfDeployment: rootTypedData(deployment),
};

describe("protocol > eip712", () => {
  for (const [name, data] of Object.entries(MESSAGES)) {
    it(`hashes ${name} as ethers does`, () => {
      expect(typedDataDigest(data)).to.equal(
        TypedDataEncoder.hash(data.domain, mutableTypes(data.types), data.message),
      );
    });
  }

  it("signs and recovers as ethers does", async () => {
    const data = MESSAGES.Subscribe as TypedData;
    const signature = await wallet.signTypedData(data.domain, mutableTypes(data.types), data.message);
    expect(signDigest(typedDataDigest(data), TEST_KEY)).to.equal(signature);
    expect(recoverSigner(typedDataDigest(data), signature)).to.equal(wallet.address);
    expect(addressOfKey(TEST_KEY)).to.equal(wallet.address);
  });

  it("recovers nobody from a malleable, short, long or garbled signature", () => {
    const digest = typedDataDigest(MESSAGES.Pause as TypedData);
    const good = signDigest(digest, TEST_KEY);
    const order = 0xfffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141n;
    expect(recoverSigner(digest, highS(good))).to.equal(undefined);
    expect(recoverSigner(digest, `${good.slice(0, 130)}00`)).to.equal(undefined);
    expect(recoverSigner(digest, `${good.slice(0, 130)}1d`)).to.equal(undefined);
    expect(recoverSigner(digest, good.slice(0, 130))).to.equal(undefined);
    expect(recoverSigner(digest, `${good}00`)).to.equal(undefined);
    expect(recoverSigner(digest, `0x${"00".repeat(64)}1b`)).to.equal(undefined);
    expect(recoverSigner(digest, `0x${"ff".repeat(64)}1b`)).to.equal(undefined);
    expect(recoverSigner(digest, "")).to.equal(undefined);
    // The largest s that is accepted, and the next, in both cases of hex.
    for (const [s, isAccepted] of [
      [order / 2n, true],
      [order / 2n + 1n, false],
    ] as const) {
      for (const text of [s.toString(16), s.toString(16).toUpperCase()]) {
        const signer = recoverSigner(digest, `${good.slice(0, 66)}${text}${good.slice(130)}`);
        expect(signer !== undefined, text).to.equal(isAccepted);
      }
    }
  });

  it("writes addresses in EIP-55 form", () => {
    fc.assert(
      fc.property(fc.uint8Array({ minLength: 20, maxLength: 20 }), (bytes) => {
        const address = `0x${Buffer.from(bytes).toString("hex")}`;
        expect(checksum(address)).to.equal(getAddress(address));
      }),
    );
  });
});
