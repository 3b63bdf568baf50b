/**
 * Worked examples of every byte that a client in another language has to produce or check, from fixed inputs. All keys
 * are worthless: each is the keccak256 of its name.
 */
import {
  addressOfKey,
  encodeJsonHeader,
  encodePaymentProof,
  type Hex,
  idHashOf,
  issueMemo,
  keccakText,
  parseMemo,
  paymentIdOf,
  paymentNonce,
  permitTypedData,
  personalDigest,
  planIdOf,
  proofDigest,
  proofToWire,
  type RefundTarget,
  refOfIdempotencyKey,
  refundedIdOf,
  refundNonce,
  rootTypedData,
  secretHashOf,
  signDigest,
  signInMessage,
  signProof,
  subscribeTypedData,
  subscriptionId,
  type TypedData,
  transferTypedData,
  typedDataDigest,
  utf8ToBytes,
} from "turnpike/protocol";

const keyOf = (name: string): Hex => keccakText(`turnpike vector: ${name}`);
const role = (name: string) => ({ privateKey: keyOf(name), address: addressOfKey(keyOf(name)) });

const NETWORK = "base-sepolia";
const CHAIN_ID = 84_532;
const TOKEN = { address: "0x036CbD53842c5426634e7929541eC2318f3dCF7e", name: "USDC", version: "2" } as const;
const TURNPIKE = addressOfKey(keyOf("turnpike"));
const RESOURCE = "https://api.example/quote?symbol=ABC&day=2026-11-21";
const NOW = 1_800_000_000;

const signed = (data: TypedData, privateKey: Hex) => {
  const digest = typedDataDigest(data);
  return { typedData: data, digest, signature: signDigest(digest, privateKey) };
};

const decimal = (fields: Readonly<Record<string, unknown>>) =>
  Object.fromEntries(Object.entries(fields).map(([name, value]) => [name, String(value)]));

export function vectors(): object {
  const payer = role("payer");
  const payTo = addressOfKey(keyOf("payee"));
  const facilitator = role("facilitator");
  const memoKey = { id: "k1", secret: utf8ToBytes("turnpike vector: the gate's secret") };

  const quoted = { method: "GET", resource: RESOURCE, amount: 500_000n, token: TOKEN.address, payTo, network: NETWORK };
  const idempotencyKey = "purchase-0000001";
  const ref = refOfIdempotencyKey(memoKey, quoted.method, RESOURCE, idempotencyKey);
  const expiry = NOW + 600;
  const memo = issueMemo(memoKey, quoted, ref, expiry);
  const nonce = paymentNonce(parseMemo(memo)?.ref ?? "", RESOURCE);
  const paymentId = paymentIdOf({ chainId: CHAIN_ID, token: TOKEN.address, payer: payer.address, nonce });

  const domain = { chainId: CHAIN_ID, token: TOKEN.address, name: TOKEN.name, version: TOKEN.version };
  const transferOf = (fields: { nonce: Hex; validBefore: bigint }) => ({
    from: payer.address,
    to: payTo,
    value: quoted.amount,
    validAfter: 0n,
    ...fields,
  });
  const native = transferOf({ nonce, validBefore: BigInt(expiry) });
  const nativeSigned = signed(transferTypedData(domain, native), payer.privateKey);
  const signedPayment = {
    scheme: "exact",
    network: NETWORK,
    token: TOKEN.address,
    authorization: decimal(native),
    signature: nativeSigned.signature,
    memo,
    resource: RESOURCE,
  };

  const unsigned = {
    version: "1" as const,
    network: NETWORK,
    token: TOKEN.address,
    payer: payer.address,
    payTo,
    amount: quoted.amount,
    memo,
    resource: RESOURCE,
    transaction: keccakText("turnpike vector: transaction"),
    blockNumber: 12_345,
    settledAt: NOW + 4,
    expiresAt: NOW + 4 + 604_800,
    facilitator: facilitator.address,
  };
  const proof = signProof(unsigned, CHAIN_ID, facilitator.privateKey);

  const standard = transferOf({ nonce: keccakText("turnpike vector: random nonce"), validBefore: BigInt(NOW + 300) });
  const standardSigned = signed(transferTypedData(domain, standard), payer.privateKey);
  const exact = { signature: standardSigned.signature, authorization: decimal(standard) };
  const v1 = { x402Version: 1, scheme: "exact", network: NETWORK, payload: exact };
  const accepted = {
    scheme: "exact",
    network: `eip155:${CHAIN_ID}`,
    amount: quoted.amount.toString(),
    asset: TOKEN.address,
    payTo,
    maxTimeoutSeconds: 300,
    extra: { name: TOKEN.name, version: TOKEN.version, memo },
  };
  const identifier = { info: { required: false, id: "pay_7d5d747be160e280504c099d984bcfe0" } };
  const v2 = {
    x402Version: 2,
    resource: { url: RESOURCE },
    accepted,
    payload: exact,
    extensions: { "payment-identifier": identifier },
  };

  return {
    about: "Generated; see docs/reference/wire.md. Amounts are decimal strings of base units, times unix seconds.",
    chainId: CHAIN_ID,
    network: NETWORK,
    keys: { payer, facilitator },
    memo: {
      memoKey: { id: memoKey.id, secret: "turnpike vector: the gate's secret" },
      quoted,
      idempotencyKey,
      expiry,
      ref,
      memo,
    },
    nonce: { ref, resource: RESOURCE, nonce },
    paymentId: { chainId: CHAIN_ID, token: TOKEN.address, payer: payer.address, nonce, paymentId },
    native: { ...nativeSigned, body: { signedPayment } },
    proof: {
      resourceHash: keccakText(RESOURCE),
      digest: proofDigest(unsigned, CHAIN_ID),
      proof: proofToWire(proof),
      header: { "X-PAYMENT": encodePaymentProof(proof) },
    },
    x402v1: { ...standardSigned, payload: v1, header: { "X-PAYMENT": encodeJsonHeader(v1) } },
    x402v2: { ...standardSigned, payload: v2, header: { "PAYMENT-SIGNATURE": encodeJsonHeader(v2) } },
    subscription: subscriptionVector(),
    refunds: refundVectors(paymentId),
    signIn: signInVector(),
  };
}

function refundVectors(paymentId: Hex): object[] {
  const idHash = idHashOf(role("subscriber").address, secretHashOf(keccakText("turnpike vector: secret")));
  const targets: RefundTarget[] = [
    { type: "payment", paymentId },
    { type: "debit", idHash, index: 3 },
    { type: "charge", idHash, version: 1, paidThrough: NOW },
  ];
  return targets.map((target, index) => {
    const id = refundedIdOf({ chainId: CHAIN_ID, turnpike: TURNPIKE }, target);
    return { chainId: CHAIN_ID, turnpike: TURNPIKE, target, id, index, nonce: refundNonce(id, index) };
  });
}

function subscriptionVector() {
  const subscriber = role("subscriber");
  const provider = addressOfKey(keyOf("provider"));
  const secret = keccakText("turnpike vector: secret");
  const secretHash = secretHashOf(secret);
  const plan = {
    chainId: CHAIN_ID,
    turnpike: TURNPIKE,
    provider,
    token: TOKEN.address,
    amount: 10_000_000n,
    intervalSec: 2_592_000,
    months: 0,
    graceSec: 86_400,
    payTo: provider,
    salt: `0x${"00".repeat(32)}` as Hex,
    metadata: '{"name":"Reader"}',
  };
  const planId = planIdOf(plan);
  const deployment = { chainId: CHAIN_ID, turnpike: TURNPIKE };
  const deadline = BigInt(NOW + 600);
  const subscribe = { subscriber: subscriber.address, planId, secretHash, maxOverage: 2_000_000n, deadline };
  const permit = { owner: subscriber.address, spender: TURNPIKE, value: 144_000_000n, nonce: 0n, deadline };
  const domain = { chainId: CHAIN_ID, token: TOKEN.address, name: TOKEN.name, version: TOKEN.version };
  return {
    key: subscriber,
    turnpike: TURNPIKE,
    plan,
    planId,
    secret,
    secretHash,
    idHash: idHashOf(subscriber.address, secretHash),
    id: subscriptionId(subscriber.address, secret),
    header: { "X-Service-Sub": subscriptionId(subscriber.address, secret) },
    subscribe: signed(subscribeTypedData(deployment, plan, subscribe), subscriber.privateKey),
    permit: signed(permitTypedData(domain, permit), subscriber.privateKey),
    root: signed(rootTypedData(deployment), subscriber.privateKey),
  };
}

function signInVector() {
  const { privateKey, address } = role("subscriber");
  const fields = {
    domain: "api.example",
    address,
    statement: "Use your subscription.",
    uri: RESOURCE,
    version: "1" as const,
    chainId: `eip155:${CHAIN_ID}`,
    type: "eip191" as const,
    nonce: "00112233445566778899aabbccddeeff".repeat(2).slice(0, 56),
    issuedAt: "2027-01-15T08:00:00.000Z",
    expirationTime: "2027-01-15T08:05:00.000Z",
  };
  const message = signInMessage(fields);
  const digest = personalDigest(message);
  const payload = { ...fields, signature: signDigest(digest, privateKey) };
  return { message, digest, payload, header: { "SIGN-IN-WITH-X": encodeJsonHeader(payload) } };
}

/** As the file has it: readable, and the same bytes every time. */
export function vectorsText(): string {
  return `${JSON.stringify(vectors(), (_key, value) => (typeof value === "bigint" ? value.toString() : value), 2)}\n`;
}
