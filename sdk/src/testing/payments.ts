/** Settles standard payments in memory. Each payment has one purchase, as with a Facilitator; nothing has a balance. */
import type { X402RequestWire, X402Settlement, X402Verdict } from "../facilitator/payments";
import {
  type Address,
  addressOfKey,
  type Clock,
  checksum,
  type Hex,
  InvalidRequest,
  keccakText,
  NO_TRANSACTION,
  paymentIdOf,
  permit2NonceOf,
  permit2PaymentIdOf,
  signGrant,
} from "../protocol";

export interface TestPaymentsParts {
  readonly chainId: number;
  readonly network: string;
  readonly clock: Clock;
  /** signs the grants */
  readonly key: Hex;
}

interface Held {
  readonly grantId: string;
  /** unix seconds; undefined once it is settled */
  readonly untilSec: number | undefined;
}

export class TestPayments {
  readonly #parts: TestPaymentsParts;
  /** by payment id */
  readonly #held = new Map<Hex, Held>();

  constructor(parts: TestPaymentsParts) {
    this.#parts = parts;
  }

  verify(request: X402RequestWire): X402Verdict {
    const { paymentId, payer, validBefore } = this.#factsOf(request);
    const { grant } = request;
    if (!grant) return { isValid: true, payer };
    if (this.#isHeldElsewhere(paymentId, grant.id)) {
      return { isValid: false, invalidReason: "payment_already_granted", payer };
    }
    if (this.#heldOf(paymentId) === undefined) {
      this.#held.set(paymentId, { grantId: grant.id, untilSec: Number(validBefore) });
    }
    return { isValid: true, payer, reserved: true };
  }

  settle(request: X402RequestWire): X402Settlement {
    const { key, chainId, network } = this.#parts;
    const { scheme, paymentId, payer, token, payTo, amount, transaction } = this.#factsOf(request);
    const { grant } = request;
    const charged = scheme === "upto" ? { amount: amount.toString() } : {};
    const settled = { success: true as const, payer, transaction, network, ...charged };
    if (this.#isHeldElsewhere(paymentId, grant?.id)) {
      return { ...settled, success: false, errorReason: "payment_already_granted", transaction: "" };
    }
    if (!grant) return settled;
    this.#held.set(paymentId, { grantId: grant.id, untilSec: undefined });
    const facilitator = addressOfKey(key);
    const facts = {
      chainId,
      token,
      transaction: transaction || NO_TRANSACTION,
      paymentId,
      payTo,
      amount,
      facilitator,
      grantId: grant.id as Hex,
      resourceHash: keccakText(grant.resource),
    };
    return { ...settled, grant: { facilitator, signature: signGrant(facts, key) } };
  }

  release(paymentId: Hex, grantId: Hex): boolean {
    const held = this.#heldOf(paymentId);
    return held?.grantId === grantId && held.untilSec !== undefined && this.#held.delete(paymentId);
  }

  #heldOf(paymentId: Hex): Held | undefined {
    const held = this.#held.get(paymentId);
    return held && (held.untilSec === undefined || held.untilSec > this.#parts.clock.nowSec()) ? held : undefined;
  }

  #isHeldElsewhere(paymentId: Hex, grantId: string | undefined): boolean {
    const held = this.#heldOf(paymentId);
    return held !== undefined && held.grantId !== grantId;
  }

  #factsOf({ paymentPayload, paymentRequirements }: X402RequestWire) {
    const { chainId } = this.#parts;
    const token = checksum(paymentRequirements.asset);
    const signed = signedIn(paymentPayload.payload);
    const { payer, nonce } = signed;
    const id = { chainId, token, payer, nonce };
    const charged = "amount" in paymentRequirements && BigInt(paymentRequirements.amount);
    const amount = signed.scheme === "upto" && charged !== false ? charged : signed.value;
    if (amount > signed.value) throw new InvalidRequest("The test's Facilitator charges no more than was signed.");
    return {
      ...signed,
      token,
      amount,
      paymentId: signed.scheme === "eip3009" ? paymentIdOf(id) : permit2PaymentIdOf(id),
      transaction: amount === 0n ? ("" as const) : keccakText(`transaction of ${nonce}`),
    };
  }
}

/** What a payload's payer signed. */
interface Signed {
  readonly scheme: "eip3009" | "permit2" | "upto";
  readonly payer: Address;
  readonly payTo: Address;
  /** base units; of `upto`: the maximum */
  readonly value: bigint;
  readonly nonce: Hex;
  readonly validBefore: bigint;
}

function signedIn(payload: X402RequestWire["paymentPayload"]["payload"]): Signed {
  if (payload.authorization) {
    const { from, to, value, nonce, validBefore } = payload.authorization;
    const money = { value: BigInt(value), nonce: nonce as Hex, validBefore: BigInt(validBefore) };
    return { scheme: "eip3009", payer: checksum(from), payTo: checksum(to), ...money };
  }
  const { from, permitted, nonce, deadline, witness } = payload.permit2Authorization;
  return {
    scheme: "facilitator" in witness ? "upto" : "permit2",
    payer: checksum(from),
    payTo: checksum(witness.to),
    value: BigInt(permitted.amount),
    nonce: permit2NonceOf(BigInt(nonce)),
    validBefore: BigInt(deadline) + 1n,
  };
}
