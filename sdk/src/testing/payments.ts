/** Settles standard payments in memory. Each payment has one purchase, as with a Facilitator; nothing has a balance. */
import type { X402RequestWire, X402Settlement, X402Verdict } from "../facilitator/x402";
import {
  addressOfKey,
  type Clock,
  checksum,
  type Hex,
  InvalidRequest,
  keccakText,
  NO_TRANSACTION,
  signGrant,
} from "../protocol";
import { presentedIn, transferMethodOf } from "../protocol/transfer-methods";

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
    const { method, paymentId, payer, token, payTo, amount, transaction } = this.#factsOf(request);
    const { grant } = request;
    const charged = method === "upto" ? { amount: amount.toString() } : {};
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
    const { method, authorization } = presentedIn(paymentPayload.payload);
    const { from: payer, to: payTo, value, nonce, validBefore } = authorization;
    const charged = "amount" in paymentRequirements && BigInt(paymentRequirements.amount);
    const amount = method === "upto" && charged !== false ? charged : value;
    if (amount > value) throw new InvalidRequest("The test's Facilitator charges no more than was signed.");
    return {
      method,
      payer,
      payTo,
      validBefore,
      token,
      amount,
      paymentId: transferMethodOf(method).paymentIdOf({ chainId, token, payer, nonce }),
      transaction: amount === 0n ? ("" as const) : keccakText(`transaction of ${nonce}`),
    };
  }
}
