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
  paymentIdOf,
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
    const { paymentId, payer, token, payTo, amount, transaction } = this.#factsOf(request);
    const { grant } = request;
    const settled = { success: true as const, payer, transaction, network };
    if (this.#isHeldElsewhere(paymentId, grant?.id)) {
      return { ...settled, success: false, errorReason: "payment_already_granted", transaction: "" };
    }
    if (!grant) return settled;
    this.#held.set(paymentId, { grantId: grant.id, untilSec: undefined });
    const facilitator = addressOfKey(key);
    const facts = {
      ...{ chainId, token, transaction, paymentId, payTo, amount, facilitator },
      ...{ grantId: grant.id as Hex, resourceHash: keccakText(grant.resource) },
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
    const { payload } = paymentPayload;
    if (!("authorization" in payload)) {
      throw new InvalidRequest("The test's Facilitator settles EIP-3009 payments alone.");
    }
    const { from, to, value, nonce, validBefore } = payload.authorization;
    const payer: Address = checksum(from);
    const token = checksum(paymentRequirements.asset);
    return {
      ...{ payer, token, payTo: checksum(to), amount: BigInt(value), validBefore },
      paymentId: paymentIdOf({ chainId: this.#parts.chainId, token, payer, nonce: nonce as Hex }),
      transaction: keccakText(`transaction of ${nonce}`),
    };
  }
}
