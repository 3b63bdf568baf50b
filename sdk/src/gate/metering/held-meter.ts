/**
 * Meters a subscription's answer: reserves in steps, charges the units that were delivered, releases the rest. Knows no
 * HTTP; the account behind it reserves and charges durably.
 */
import { AllowanceExhausted, isTurnpikeError } from "../../protocol/errors";
import { type Hex, randomBytes, toHex } from "../../protocol/hex";
import { isOutOfCap, type UnstatedBasis } from "./store";
import {
  costOf,
  endedMeter,
  type PartMeter,
  type UnitPrice,
  type Usage,
  type UsageAccount,
  type UsageTerms,
  unitsOf,
} from "./usage-meter";

/** How often a running meter records what was delivered, and releases what it no longer uses. */
export const RECORD_MS = 5_000;

/** A hold that was not renewed for this long is renewed before it is used: others may have released it. */
const FRESH_MS = 30_000;

function isAllowanceExhausted(error: unknown): boolean {
  return isTurnpikeError(error) && error.code === "AllowanceExhausted";
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
