/**
 * Meters an answer whose length is not known ahead: reserves in steps, charges the units that were delivered, releases
 * the rest. Knows no HTTP; the account behind it reserves and charges durably.
 */
import { toAmount } from "../../protocol/amounts";
import { AllowanceExhausted, ConfigError, isTurnpikeError, TurnpikeError } from "../../protocol/errors";
import { type Hex, randomBytes, toHex } from "../../protocol/hex";
import { type Money, type PricedToken, parseMoney } from "../../protocol/prices";
import { costOf, type UnitPrice, type UnitPriceOption, unitPriceOf } from "./unit-price";

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
}

/** What one meter has recorded durably: the source of usage receipts. Amounts in token base units. */
export interface UsageEvent {
  /** "end": the last one of its meter */
  readonly kind: "step" | "end";
  /** names the meter; each answer's meters are new */
  readonly meterId: Hex;
  readonly unit: string;
  readonly unitPrice: UnitPrice;
  /** delivered since the meter's previous event */
  readonly units: bigint;
  /** charged for them */
  readonly amount: bigint;
  /** delivered since the meter began */
  readonly totalUnits: bigint;
  /** charged since the meter began: never above `totalUnits` at the unit price, rounded up once */
  readonly totalAmount: bigint;
}

export interface HoldAhead {
  /** a new name for each hold */
  readonly hold: Hex;
  /** base units, > 0: less is held only where no more remains */
  readonly need: bigint;
  /** base units held beyond the need, as far as they remain */
  readonly ahead: bigint;
}

export interface ChargeHold {
  readonly hold: Hex;
  /** base units of the hold that were used, since it began: repeating a charge changes nothing */
  readonly total: bigint;
  /** whether to release what is left of it */
  readonly release: boolean;
}

/** Where a meter reserves and charges. */
export interface UsageAccount {
  /** @throws AllowanceExhausted, InsufficientFunds, SubscriptionNotActive, Unavailable */
  hold(request: HoldAhead): Promise<{ readonly held: bigint; readonly remaining: bigint }>;
  /** @returns what the hold has charged since it began: less than `total` where it was lost. @throws Unavailable */
  charge(request: ChargeHold): Promise<bigint>;
  /** Registers what is ended when the gate stops. @returns how to withdraw it */
  track(end: () => Promise<unknown>): () => void;
  /** Called with everything that was recorded. */
  onUsage(event: UsageEvent): void;
}

/** How often a running meter records what was delivered, and releases what it no longer uses. */
export const RECORD_MS = 5_000;

/** A hold that was not renewed for this long is renewed before it is used: others may have released it. */
const FRESH_MS = 30_000;

const DEFAULT_STEP = 10_000n;

const UNIT = /^[\x21-\x7e]([\x20-\x7e]{0,62}[\x21-\x7e])?$/;

/** A meter's options, checked. */
export interface UsageTerms {
  readonly unit: string;
  readonly unitPrice: UnitPrice;
  readonly step: bigint;
  readonly atCap: "stop" | "finish";
}

/** @throws ConfigError that names the field */
export function usageTermsOf(options: UsageMeterOptions, token: PricedToken): UsageTerms {
  const { unit, unitPrice, step = DEFAULT_STEP, atCap = "stop" } = options;
  if (typeof unit !== "string" || !UNIT.test(unit)) {
    throw new ConfigError(`meter: unit is "${String(unit)}": name it in 1 to 64 printable ASCII characters`);
  }
  if (atCap !== "stop" && atCap !== "finish") {
    throw new ConfigError(`meter: atCap is "${String(atCap)}": use "stop" or "finish"`);
  }
  const stepAmount = parseMoney(step, token, "meter: step");
  if (stepAmount === 0n) throw new ConfigError("meter: step is 0: reserve at least 1 base unit ahead");
  return { unit, unitPrice: unitPriceOf(unitPrice, token, "meter: unitPrice"), step: stepAmount, atCap };
}

/** @throws ConfigError */
export function unitsOf(units: bigint | number): bigint {
  return toAmount(units, "meter.add(units)");
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
export class HeldMeter implements UsageMeter {
  readonly unit: string;
  readonly unitPrice: UnitPrice;
  readonly atCap: "stop" | "finish";
  readonly #step: bigint;
  readonly #account: UsageAccount;
  readonly #monotonicMs: () => number;
  readonly #every: (periodMs: number, work: () => void) => () => void;
  readonly #meterId = toHex(randomBytes(16));
  #units = 0n;
  #amount = 0n;
  /** of the cost: not covered, so at the provider's own cost */
  #forgone = 0n;
  /** the totals of the last event */
  #emitted = { units: 0n, amount: 0n };
  #hold: Hold | undefined;
  /** what remained beside the hold when it was made */
  #besides = 0n;
  #isClipped = false;
  #isEnded = false;
  /** units were added since the last tick */
  #isBusy = false;
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
    if (this.#waiting > 0) return this.#inTurn(() => this.#add(added));
    return this.#isCovered(added) ? this.#count(added) : this.#inTurn(() => this.#add(added));
  }

  end(): Promise<Usage> {
    return this.#inTurn(async () => {
      if (this.#isEnded) return this.usage;
      await this.#record(true);
      this.#isEnded = true;
      this.#emit("end");
      return this.usage;
    });
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
    await this.#record(true);
    this.#emit("step");
    const need = this.#needOf(added);
    const step = this.#step;
    const name = toHex(randomBytes(16));
    try {
      const request = { hold: name, need, ahead: step > need ? step - need : 0n };
      const { held, remaining } = await this.#account.hold(request);
      const renewedAtMs = this.#monotonicMs();
      this.#hold = { name, base: this.#amount, size: held, renewedAtMs, charged: 0n, releasing: undefined };
      this.#besides = remaining;
      this.#watch();
      this.#isClipped = held < need;
      if (this.#isClipped) this.#forgone += need - held;
      return this.#count(added);
    } catch (error) {
      if (!isTurnpikeError(error) || error.code !== "AllowanceExhausted") throw error;
      this.#isClipped = true;
      this.#besides = 0n;
      if (this.atCap === "stop") throw error;
      return this.#addBeyondCap(added);
    }
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
    const isHeld = (await this.#account.charge({ hold: hold.name, total, release })) >= total;
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

  #emit(kind: UsageEvent["kind"]): void {
    const [totalUnits, totalAmount] = [this.#units, this.#amount];
    const units = totalUnits - this.#emitted.units;
    const amount = totalAmount - this.#emitted.amount;
    if (kind === "step" && units === 0n && amount === 0n) return;
    this.#emitted = { units: totalUnits, amount: totalAmount };
    const { unit, unitPrice } = this;
    this.#account.onUsage({ kind, meterId: this.#meterId, unit, unitPrice, units, amount, totalUnits, totalAmount });
  }

  #tick(): void {
    const isIdle = !this.#isBusy;
    this.#isBusy = false;
    const recorded = this.#inTurn(async () => {
      await this.#record(isIdle);
      this.#emit("step");
    });
    // Tried again at the next tick, and by whatever comes next.
    recorded.catch(() => undefined);
  }
}

function repeat(periodMs: number, work: () => void): () => void {
  const timer = setInterval(work, periodMs);
  timer.unref();
  return () => clearInterval(timer);
}
