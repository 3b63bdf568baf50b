/**
 * Meters an answer whose length is not known ahead: reserves in steps, charges the units that were delivered, releases
 * the rest. Knows no HTTP; the account behind it reserves and charges durably.
 */
import { AllowanceExhausted, ConfigError, isTurnpikeError, TurnpikeError } from "../../protocol/errors";
import { type Hex, randomBytes, toHex } from "../../protocol/hex";
import { type Money, type PricedToken, parseMoney } from "../../protocol/prices";
import { isUsageUnit } from "../../protocol/usage-receipt";
import type { HeldCharge } from "./holds";
import type { UnstatedBasis } from "./reports";
import { isOutOfCap } from "./reservation";
import { costOf, toCount, type UnitPrice, type UnitPriceOption, unitPriceOf } from "./unit-price";

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

/** How often a running meter records what was delivered, and releases what it no longer uses. */
export const RECORD_MS = 5_000;

/** A hold that was not renewed for this long is renewed before it is used: others may have released it. */
const FRESH_MS = 30_000;

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

function isAllowanceExhausted(error: unknown): boolean {
  return isTurnpikeError(error) && error.code === "AllowanceExhausted";
}

export function endedMeter(): TurnpikeError {
  return new TurnpikeError("Internal", "meter.add() was called after end(): create another meter.");
}

export interface HeldMeterParts {
  readonly account: UsageAccount;
  readonly monotonicMs?: () => number;
  /** Calls `work` again and again. @returns how to end that */
  readonly every?: (periodMs: number, work: () => void) => () => void;
}

interface Hold {
  readonly name: Hex;
  /** the meter's amount when the hold began */
  readonly base: bigint;
  readonly size: bigint;
  renewedAtMs: number;
  /** the total that it is known to have charged */
  charged: bigint;
  /** the total of a release whose outcome is unknown */
  releasing: bigint | undefined;
}

/** Meters a subscription's answer by steps that its account holds ahead. */
export class HeldMeter implements PartMeter {
  readonly unit: string;
  readonly unitPrice: UnitPrice;
  readonly atCap: "stop" | "finish";
  readonly #step: bigint;
  readonly #account: UsageAccount;
  readonly #monotonicMs: () => number;
  readonly #every: (periodMs: number, work: () => void) => () => void;
  #units = 0n;
  #amount = 0n;
  /** of the cost: not covered, so at the provider's own cost */
  #forgone = 0n;
  /** of these units, the charges have receipts */
  #receipted = 0n;
  #hold: Hold | undefined;
  /** what remained beside the hold when it was made */
  #besides = 0n;
  #isClipped = false;
  #isEnded = false;
  /** units were added since the last tick */
  #isBusy = false;
  /** what `reserve` has set aside for the next `add` */
  #reserved: { readonly units: bigint; readonly covered: bigint } | undefined;
  #waiting = 0;
  #turn: Promise<unknown> = Promise.resolve();
  /** while a hold exists: ends its ticks and withdraws the meter's end from the gate's stop */
  #unwatch: (() => void) | undefined;

  constructor(terms: UsageTerms, { account, monotonicMs = () => performance.now(), every = repeat }: HeldMeterParts) {
    this.unit = terms.unit;
    this.unitPrice = terms.unitPrice;
    this.atCap = terms.atCap;
    this.#step = terms.step;
    this.#account = account;
    this.#monotonicMs = monotonicMs;
    this.#every = every;
  }

  get usage(): Usage {
    const hold = this.#hold;
    const left = hold === undefined ? 0n : hold.base + hold.size - this.#amount;
    return {
      units: this.#units,
      amount: this.#amount,
      remaining: this.#besides + left,
      clipped: this.#isClipped,
    };
  }

  async add(units: bigint | number): Promise<Usage> {
    const added = unitsOf(units);
    if (this.#reserved?.units === added) return this.#countReserved(this.#reserved);
    this.#reserved = undefined;
    if (this.#waiting > 0) return this.#inTurn(() => this.#add(added));
    return this.#isCovered(added) ? this.#count(added) : this.#inTurn(() => this.#add(added));
  }

  async reserve(units: bigint | number): Promise<bigint> {
    const added = unitsOf(units);
    return this.#inTurn(async () => {
      if (this.#isEnded) throw endedMeter();
      if (this.#isClipped && this.atCap === "stop") throw new AllowanceExhausted();
      const need = this.#isClipped ? 0n : this.#needOf(added);
      const covered = this.#isCovered(added) ? need : await this.#renew(need, 0n);
      this.#reserved = { units: added, covered };
      return covered;
    });
  }

  end(): Promise<Usage> {
    return this.#inTurn(async () => {
      this.#reserved = undefined;
      if (this.#isEnded) return this.usage;
      await this.#record(true);
      this.#isEnded = true;
      return this.usage;
    });
  }

  takeReceipts(): readonly string[] {
    return this.#account.takeReceipts();
  }

  noteUnstated(basis: UnstatedBasis): void {
    this.#account.noteUnstated(basis);
  }

  #inTurn<T>(work: () => Promise<T>): Promise<T> {
    this.#waiting += 1;
    const done = this.#turn.then(work).finally(() => {
      this.#waiting -= 1;
    });
    // The caller gets the error; the next one only waits.
    this.#turn = done.catch(() => undefined);
    return done;
  }

  #needOf(added: bigint): bigint {
    return costOf(this.unitPrice, this.#units + added) - this.#forgone - this.#amount;
  }

  #isCovered(added: bigint): boolean {
    const hold = this.#hold;
    if (this.#isEnded || this.#isClipped) return false;
    const need = this.#needOf(added);
    if (need === 0n) return true;
    if (hold === undefined || hold.releasing !== undefined) return false;
    if (this.#monotonicMs() - hold.renewedAtMs > FRESH_MS) return false;
    return this.#amount + need <= hold.base + hold.size;
  }

  #count(added: bigint): Usage {
    this.#amount += this.#needOf(added);
    this.#units += added;
    this.#isBusy ||= added > 0n;
    return this.usage;
  }

  async #add(added: bigint): Promise<Usage> {
    if (this.#isEnded) throw endedMeter();
    if (this.#isClipped) return this.#addBeyondCap(added);
    if (this.#isCovered(added)) return this.#count(added);
    const step = this.#step;
    const need = this.#needOf(added);
    const covered = await this.#renew(need, step > need ? step - need : 0n);
    return this.#countReserved({ units: added, covered });
  }

  /**
   * Records what was counted, and holds what the next units need, as far as it remains.
   * @returns base units of the need that are held
   */
  async #renew(need: bigint, ahead: bigint): Promise<bigint> {
    await this.#record(true);
    const name = toHex(randomBytes(16));
    try {
      const { held, remaining } = await this.#account.hold({ hold: name, need, ahead });
      const renewedAtMs = this.#monotonicMs();
      this.#hold = { name, base: this.#amount, size: held, renewedAtMs, charged: 0n, releasing: undefined };
      this.#besides = remaining;
      this.#watch();
      return held < need ? held : need;
    } catch (error) {
      if (!isOutOfCap(error)) throw error;
      this.#besides = 0n;
      // What others hold may be released: the same units can be added again.
      this.#isClipped = this.atCap === "finish" || isAllowanceExhausted(error);
      if (this.atCap === "stop") throw error;
      return 0n;
    }
  }

  /** Counts units whose cost is held, or what of it remained. */
  #countReserved({ units, covered }: { readonly units: bigint; readonly covered: bigint }): Usage {
    this.#reserved = undefined;
    const short = this.#needOf(units) - covered;
    if (short > 0n) {
      this.#isClipped = true;
      this.#forgone += short;
    }
    return this.#count(units);
  }

  #addBeyondCap(added: bigint): Usage {
    if (this.atCap === "stop") throw new AllowanceExhausted();
    this.#forgone += this.#needOf(added);
    return this.#count(added);
  }

  /** Charges what was counted and not recorded; renews the hold, or releases it. */
  async #record(release: boolean): Promise<void> {
    const hold = this.#hold;
    if (hold === undefined) return;
    const total = this.#amount - hold.base;
    const before = hold.releasing ?? hold.charged;
    if (release) hold.releasing ??= total;
    const units = this.#units;
    const usage = { unit: this.unit, units: units - this.#receipted, unitPrice: this.unitPrice };
    const done = await this.#account.charge({ hold: hold.name, total, release, usage });
    if (done.added > 0n) this.#receipted = units;
    const isHeld = done.charged >= total;
    // Gone: a release whose answer was lost has charged it, or it expired while this process did not run. In the latter
    // case what was not recorded before is not charged.
    const charged = isHeld ? total : before;
    this.#amount -= total - charged;
    this.#forgone += total - charged;
    Object.assign(hold, { renewedAtMs: this.#monotonicMs(), charged, releasing: undefined });
    if (!release && isHeld) return;
    if (isHeld) this.#besides += hold.size - total;
    this.#hold = undefined;
    this.#unwatch?.();
    this.#unwatch = undefined;
  }

  #watch(): void {
    const stopTicking = this.#every(RECORD_MS, () => this.#tick());
    const untrack = this.#account.track(() => this.end());
    this.#unwatch = () => {
      stopTicking();
      untrack();
    };
  }

  #tick(): void {
    const isIdle = !this.#isBusy && this.#reserved === undefined;
    this.#isBusy = false;
    const recorded = this.#inTurn(() => this.#record(isIdle));
    // Tried again at the next tick, and by whatever comes next.
    recorded.catch(() => undefined);
  }
}

function repeat(periodMs: number, work: () => void): () => void {
  const timer = setInterval(work, periodMs);
  timer.unref();
  return () => clearInterval(timer);
}
