/** What one run of a handler charges of an `upto` payment. Nothing settles by a charge that was faulty. */
import { ConfigError, isTurnpikeError, type Money, type PricedToken, parseMoney, TurnpikeError } from "../../protocol";
import { callbackFault } from "../core/callback-fault";
import type { GateOptions } from "../core/gate-options";
import type { OneTimePayment } from "../core/payment";
import {
  CountedMeter,
  type UsageBudget,
  type UsageMeter,
  type UsageMeterOptions,
  usageTermsOf,
} from "../metering/usage-meter";

export class UptoCharge {
  readonly #max: bigint;
  readonly #token: PricedToken;
  readonly #recorded: bigint | undefined;
  readonly #min: bigint;
  /** What the answer's meters may charge together: the sum is the charge. */
  readonly budget: UsageBudget;
  #amount: bigint | undefined;
  #metered = 0n;
  #fault: TurnpikeError | undefined;
  #isFinal = false;

  /**
   * @param recorded what an earlier run of the payment has charged: this one charges the same, whatever it names
   * @param min the least that the Facilitator settles, base units, but for 0
   */
  constructor(max: bigint, token: PricedToken, recorded?: bigint, min = 0n) {
    this.#max = max;
    this.#min = min;
    this.#token = token;
    this.#recorded = recorded;
    const remaining = (): bigint => max - this.#metered;
    this.budget = {
      get remaining() {
        return remaining();
      },
      take: (amount) => this.#take(amount, remaining()),
    };
  }

  /** base units */
  get amount(): bigint {
    return this.#recorded ?? this.#amount ?? this.#max;
  }

  /** The last one counts. @throws Internal, ConfigError: the request then fails, whatever its handler does */
  name(actual: Money): void {
    this.#requireOpen("charge() was called");
    this.#amount = this.#noting(() => this.#read(actual));
  }

  /** Counts units whose sum is the charge. @throws ConfigError, Internal: the request then fails, as above */
  meter(options: UsageMeterOptions): UsageMeter {
    return this.#noting(() => new CountedMeter(usageTermsOf(options, this.#token), this.budget));
  }

  /** Nothing settles by a charge that failed: without it the maximum would. */
  #noting<T>(charge: () => T): T {
    try {
      return charge();
    } catch (error) {
      this.#fault ??= isTurnpikeError(error) ? error : new TurnpikeError("Internal", "charge() was given no amount.");
      throw error;
    }
  }

  #take(wanted: bigint, remaining: bigint): bigint {
    this.#requireOpen("A meter was used");
    const amount = wanted > remaining ? remaining : wanted;
    this.#metered += amount;
    this.#amount = this.#payable(this.#metered);
    return amount;
  }

  /** Nothing below the least that the Facilitator settles: no payer is charged more than its answer has used. */
  #payable(counted: bigint): bigint {
    return counted < this.#min ? 0n : counted;
  }

  /** @param what happens now */
  #requireOpen(what: string): void {
    if (!this.#isFinal) return;
    throw new TurnpikeError("Internal", `${what} after the answer had begun: charge before its first byte.`);
  }

  #read(actual: Money): bigint {
    const amount = parseMoney(actual, this.#token, "charge");
    if (amount > 0n && amount < this.#min) {
      throw new TurnpikeError(
        "Internal",
        `charge() names ${amount} base units, but the Facilitator settles ${this.#min} at least, so nothing is charged: charge that, or 0.`,
      );
    }
    if (amount <= this.#max) return amount;
    throw new TurnpikeError(
      "Internal",
      `charge() names ${amount} base units, but the payer permitted ${this.#max} at most, so nothing is charged: charge less, or raise \`max\` of the price.`,
    );
  }

  /**
   * Fixes the amount, in base units: the maximum where none was named.
   * @param isWhole the handler has ended; otherwise it may yet call charge(), too late
   * @throws the fault of an earlier charge; Internal for a stream whose charge is not known
   */
  close(isWhole: boolean): bigint {
    this.#isFinal = true;
    if (this.#fault) throw this.#fault;
    if (this.#recorded === undefined && this.#amount === undefined && !isWhole) {
      throw new TurnpikeError(
        "Internal",
        "The answer is a stream, or too long to be withheld, and charge() was not called before its first byte: nothing is charged.",
      );
    }
    return this.amount;
  }
}

/** Returns a payment whose handler names its price: `amount` follows the charge. */
export function chargeable(payment: OneTimePayment, charge: UptoCharge): OneTimePayment {
  return {
    ...payment,
    charge: (actual) => charge.name(actual),
    meter: (options) => charge.meter(options),
    get amount() {
      return charge.amount;
    },
  };
}

/** Asks a route which answers it charges for. A fault of its callback charges nothing, and lets nothing out. */
export class ChargeRule {
  readonly #chargeFor: GateOptions["chargeFor"];
  #charges: boolean | undefined;
  #fault: TurnpikeError | undefined;

  constructor(chargeFor: GateOptions["chargeFor"]) {
    this.#chargeFor = chargeFor;
  }

  /** why the answer must not leave: what the callback threw, or returned in place of a boolean */
  get fault(): TurnpikeError | undefined {
    return this.#fault;
  }

  /**
   * The first call decides.
   * @returns true where the callback is at fault: the settlement then finds the fault, and settles nothing
   */
  chargesFor(status: number): boolean {
    this.#charges ??= this.#ask(status);
    return this.#charges;
  }

  #ask(status: number): boolean {
    if (!this.#chargeFor) return true;
    try {
      const charges: unknown = this.#chargeFor(status);
      if (typeof charges === "boolean") return charges;
      this.#fault ??= new ConfigError("chargeFor returned no boolean");
    } catch (cause) {
      const undecided = "Whether this answer is charged for could not be decided.";
      this.#fault ??= callbackFault("`chargeFor`", undecided, cause);
    }
    return true;
  }
}
