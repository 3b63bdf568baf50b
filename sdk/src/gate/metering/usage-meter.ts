/** What a meter of one answer is: its options, what it has counted, and the account behind it. */
import { type Money, type PricedToken, parseMoney, UINT256_MAX } from "../../protocol/amounts";
import { AllowanceExhausted, ConfigError, TurnpikeError } from "../../protocol/errors";
import type { Hex } from "../../protocol/hex";
import { isUsageUnit } from "../../protocol/receipts";
import type { HeldCharge, UnstatedBasis } from "./store";

/** What a meter counts, and at which price. */
export interface UsageMeterOptions {
  /** what is counted, as receipts name it: 1 to 64 printable ASCII characters, such as "output token" */
  readonly unit: string;
  readonly unitPrice: UnitPriceOption;
  /**
   * What is reserved ahead of delivery; the most that a crash of this process can lose of one meter. Base units, or
   * text such as "$0.01"; default 10,000 base units
   */
  readonly step?: Money;
  /** at the cap: "stop" (default) refuses further units; "finish" counts them, at the provider's own cost */
  readonly atCap?: "stop" | "finish";
}

/** What a meter has counted since it began; amounts in token base units. */
export interface Usage {
  readonly units: bigint;
  /** charged for these units: their cost, rounded up once, or less where the cap ended it */
  readonly amount: bigint;
  /** of the cap in this cycle, all reservations of others counted; 0 for payments without a cap */
  readonly remaining: bigint;
  /** the cap did not cover everything: deliver what was just added, then end the answer */
  readonly clipped: boolean;
}

/** Counts the units of one answer, and charges them. */
export interface UsageMeter {
  readonly unit: string;
  readonly unitPrice: UnitPrice;
  readonly atCap: "stop" | "finish";
  /** what was counted so far */
  readonly usage: Usage;
  /**
   * Counts units; call it before you send what they pay for. Resolves at once while the reserved step covers them.
   * @throws AllowanceExhausted nothing remains, and `atCap` is "stop"; InsufficientFunds, SubscriptionNotActive,
   * Unavailable: then nothing was counted
   */
  add(units: bigint | number): Promise<Usage>;
  /**
   * Charges what was counted, durably, and releases the rest; safe to repeat. A meter that is not ended does so itself
   * when it has been idle for some seconds.
   * @throws Unavailable when it could not be recorded
   */
  end(): Promise<Usage>;
  /**
   * Returns the usage receipts of this payment that no answer has carried yet, for handlers that write their own stream:
   * in an event stream as a comment, `: usage-receipt TEXT` and an empty line. Each is returned once.
   */
  takeReceipts(): readonly string[];
}

export interface HoldAhead {
  /** a new name for each hold */
  readonly hold: Hex;
  /** base units, > 0: less is held only where no more remains */
  readonly need: bigint;
  /** base units held beyond the need, as far as they remain */
  readonly ahead: bigint;
  /** holds of the same answer */
  readonly own?: readonly Hex[];
}

export interface ChargeHold {
  readonly hold: Hex;
  /** base units of the hold that were used, since it began: repeating a charge changes nothing */
  readonly total: bigint;
  /** whether to release what is left of it */
  readonly release: boolean;
  /** delivered since the last charge that took something: what its receipt says */
  readonly usage: ChargedUsage;
}

/** What was delivered for a charge. */
export interface ChargedUsage {
  readonly unit: string;
  readonly units: bigint;
  readonly unitPrice: UnitPrice;
}

/** A meter as several count one part together: each reserves what the part needs before any of them counts. */
export interface PartMeter extends UsageMeter {
  /**
   * Sets aside what these units cost, and nothing ahead of them, for an `add` of the same units, which then counts them
   * at once. `end` releases it.
   * @returns base units of their cost that are set aside: less than the cost at the cap
   * @throws as `add`
   */
  reserve(units: bigint | number): Promise<bigint>;
  /** Reports an answer whose usage was not stated. */
  noteUnstated(basis: UnstatedBasis): void;
}

/** Where a meter reserves and charges. */
export interface UsageAccount {
  /** @throws AllowanceExhausted, InsufficientFunds, SubscriptionNotActive, Unavailable */
  hold(request: HoldAhead): Promise<{ readonly held: bigint; readonly remaining: bigint }>;
  /** @returns what the hold has charged: less than `total` where it was lost. @throws Unavailable */
  charge(request: ChargeHold): Promise<HeldCharge>;
  /** Registers what is ended when the gate stops. @returns how to withdraw it */
  track(end: () => Promise<unknown>): () => void;
  /** @see UsageMeter.takeReceipts */
  takeReceipts(): readonly string[];
  /** @see PartMeter.noteUnstated */
  noteUnstated(basis: UnstatedBasis): void;
}

const DEFAULT_STEP = 10_000n;

/** A meter's options, checked. */
export interface UsageTerms {
  readonly unit: string;
  readonly unitPrice: UnitPrice;
  readonly step: bigint;
  readonly atCap: "stop" | "finish";
}

/** @throws ConfigError that names the field */
export function usageTermsOf(options: UsageMeterOptions, token: PricedToken): UsageTerms {
  if (typeof options !== "object" || options === null) {
    throw new ConfigError(`meter: options are ${String(options)}: name at least { unit, unitPrice }`);
  }
  const { unit, unitPrice, step = DEFAULT_STEP, atCap = "stop" } = options;
  requireUnit(unit, "meter");
  if (atCap !== "stop" && atCap !== "finish") {
    throw new ConfigError(`meter: atCap is "${String(atCap)}": use "stop" or "finish"`);
  }
  const stepAmount = parseMoney(step, token, "meter: step");
  if (stepAmount === 0n) throw new ConfigError("meter: step is 0: reserve at least 1 base unit ahead");
  return { unit, unitPrice: unitPriceOf(unitPrice, token, "meter: unitPrice"), step: stepAmount, atCap };
}

/** @throws ConfigError */
function requireUnit(unit: unknown, what: string): asserts unit is string {
  if (isUsageUnit(unit)) return;
  throw new ConfigError(`${what}: unit is "${String(unit)}": name it in 1 to 64 printable ASCII characters`);
}

/** What a charge is for, as `deduct` takes it and a receipt says it. */
export interface DeductUsage {
  /** what is counted: 1 to 64 printable ASCII characters */
  readonly unit: string;
  readonly units: bigint | number;
  readonly unitPrice: UnitPriceOption;
}

/** @throws ConfigError that names the field, also for an amount above the price of the units */
export function deductUsageOf(amount: bigint, usage: DeductUsage | undefined, token: PricedToken): ChargedUsage {
  if (usage === undefined) return { unit: "call", units: 1n, unitPrice: { amount, per: 1n } };
  const { unit } = usage;
  requireUnit(unit, "deduct: usage");
  const units = toCount(usage.units, "deduct: usage.units");
  const unitPrice = unitPriceOf(usage.unitPrice, token, "deduct: usage.unitPrice");
  if (amount <= costOf(unitPrice, units)) return { unit, units, unitPrice };
  throw new ConfigError(
    `deduct: amount is ${amount}, but ${units} ${unit} cost ${costOf(unitPrice, units)}: charge at most that`,
  );
}

/** @throws ConfigError */
export function unitsOf(units: bigint | number): bigint {
  return toCount(units, "meter.add(units)");
}

export function endedMeter(): TurnpikeError {
  return new TurnpikeError("Internal", "meter.add() was called after end(): create another meter.");
}

/**
 * The price of a unit: an amount for one, or an amount for `per` of them, such as
 * `{ amount: "$3", per: 1_000_000 }`. Base units as a bigint or a safe integer, or text such as "$0.05".
 */
export type UnitPriceOption = Money | { readonly amount: Money; readonly per: bigint | number };

/** An exact price: `amount` base units for `per` units. */
export interface UnitPrice {
  readonly amount: bigint;
  /** > 0 */
  readonly per: bigint;
}

/** @throws ConfigError that names the field */
export function unitPriceOf(option: UnitPriceOption, token: PricedToken, field: string): UnitPrice {
  if (typeof option !== "object" || option === null) return { amount: parseMoney(option, token, field), per: 1n };
  const amount = parseMoney(option.amount, token, `${field}.amount`);
  const per = toCount(option.per, `${field}.per`);
  if (per === 0n) throw new ConfigError(`${field}.per is 0: name the number of units that the amount is for`);
  return { amount, per };
}

/** A number of units. @throws ConfigError that names the field */
export function toCount(value: bigint | number, field: string): bigint {
  const count = Number.isSafeInteger(value) ? BigInt(value) : value;
  if (typeof count === "bigint" && count >= 0n && count <= UINT256_MAX) return count;
  throw new ConfigError(`${field} is ${String(value)}: name a whole number of units, as a bigint or a safe integer`);
}

/**
 * Returns what `units` cost, in base units: rounded up, so that no use is free. Apply it to a running total, never to
 * its parts: the parts of one total would each be rounded.
 */
export function costOf({ amount, per }: UnitPrice, units: bigint): bigint {
  return (units * amount + per - 1n) / per;
}

/** What the meters of one answer may charge together, base units. */
export interface UsageBudget {
  readonly remaining: bigint;
  /** @returns what of the amount it grants. @throws Internal once the answer has begun */
  take(amount: bigint): bigint;
}

/** Meters an answer whose payment has no allowance: an `upto` payment is charged the sum, any other one nothing. */
export class CountedMeter implements PartMeter {
  readonly unit: string;
  readonly unitPrice: UnitPrice;
  readonly atCap: "stop" | "finish";
  readonly #budget: UsageBudget | undefined;
  #units = 0n;
  #amount = 0n;
  #isClipped = false;
  #isEnded = false;
  /** units whose cost is taken, and which are not counted yet */
  #reserved: bigint | undefined;

  /** @param budget undefined: units are counted, and cost nothing */
  constructor({ unit, unitPrice, atCap }: UsageTerms, budget?: UsageBudget) {
    this.unit = unit;
    this.unitPrice = unitPrice;
    this.atCap = atCap;
    this.#budget = budget;
    // A meter that counts nothing charges nothing, rather than the maximum.
    budget?.take(0n);
  }

  get usage(): Usage {
    const remaining = this.#budget?.remaining ?? 0n;
    return { units: this.#units, amount: this.#amount, remaining, clipped: this.#isClipped };
  }

  async add(units: bigint | number): Promise<Usage> {
    const added = unitsOf(units);
    if (this.#reserved !== added) this.#take(added);
    this.#reserved = undefined;
    this.#units += added;
    return this.usage;
  }

  /** Takes it: a payment whose handler fails costs nothing. */
  async reserve(units: bigint | number): Promise<bigint> {
    const added = unitsOf(units);
    const taken = this.#take(added);
    this.#reserved = added;
    return taken;
  }

  /** @returns what of the units' cost was taken */
  #take(added: bigint): bigint {
    if (this.#isEnded) throw endedMeter();
    if (this.#isClipped && this.atCap === "stop") throw usedUp();
    const budget = this.#budget;
    const total = costOf(this.unitPrice, this.#units + added);
    if (budget === undefined || this.#isClipped || total <= this.#amount) return 0n;
    const need = total - this.#amount;
    const granted = budget.take(need);
    this.#isClipped = granted < need;
    if (granted === 0n && this.atCap === "stop") throw usedUp();
    this.#amount += granted;
    return granted;
  }

  async end(): Promise<Usage> {
    this.#isEnded = true;
    return this.usage;
  }

  /** A payment without an allowance is one transfer, which the chain itself shows. */
  takeReceipts(): readonly string[] {
    return [];
  }

  /** An answer that no subscription pays for is refused instead. */
  noteUnstated(): void {}
}

function usedUp(): AllowanceExhausted {
  return new AllowanceExhausted("The maximum that the payer permitted is used up.");
}
