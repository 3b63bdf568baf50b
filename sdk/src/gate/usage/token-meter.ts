/** Meters the tokens of one answer: one meter for each kind of token that has a price of its own. */
import { Unavailable } from "../../protocol";
import type { Payment } from "../core/payment";
import { isOutOfCap, type UnstatedBasis } from "../metering/store";
import { costOf, type PartMeter, toCount, type UnitPriceOption, type UsageMeterOptions } from "../metering/usage-meter";
import type { TokenUsage } from "./token-usage";

/** The provider's own prices, each as `unitPrice` of a meter: `{ amount: "$3", per: 1_000_000 }`. */
export interface TokenPrices {
  readonly input: UnitPriceOption;
  readonly output: UnitPriceOption;
  /** default: as input */
  readonly cachedInput?: UnitPriceOption;
  /** default: as input */
  readonly cacheWrite?: UnitPriceOption;
}

/** Who pays for an answer's tokens, and at which prices. */
export interface TokenMeterOptions extends Pick<UsageMeterOptions, "step" | "atCap"> {
  readonly payment: Payment;
  readonly prices: TokenPrices;
  /**
   * input tokens that the request has at least: charged where a client leaves a stream that does not state its usage in
   * time; default 0
   */
  readonly inputAtLeast?: number;
}

const INPUTS = ["input", "cachedInput", "cacheWrite"] as const;

const KINDS = [...INPUTS, "output"] as const;

type Kind = (typeof KINDS)[number];

export class TokenMeter {
  readonly #meters: Readonly<Record<Kind, PartMeter>>;
  readonly #stopsAtCap: boolean;
  readonly #isWhole: boolean;
  /** someone pays for the tokens */
  readonly #isCharged: boolean;
  #basis: "stated" | UnstatedBasis = "unreadable";
  /** something of the answer could be read */
  #isRead = false;
  #last: TokenUsage = { input: 0, cachedInput: 0, cacheWrite: 0, output: 0 };
  /** of output, before it was stated */
  #chunks = 0;
  readonly #inputAtLeast: number;

  /**
   * @param isWhole the answer is one part, which states its usage
   * @throws ConfigError that names the option
   */
  constructor({ payment, prices, step, atCap = "stop", inputAtLeast = 0 }: TokenMeterOptions, isWhole: boolean) {
    this.#inputAtLeast = Number(toCount(inputAtLeast, "meterStream: inputAtLeast"));
    this.#isWhole = isWhole;
    this.#isCharged = payment.kind === "subscription" || (payment.kind === "one-time" && payment.max !== undefined);
    // Input is counted at once: what it reserved ahead would be missing to the output near the cap.
    // Each payment's meters can reserve; providers have no use for that.
    const meter = (options: UsageMeterOptions) => payment.meter(options) as PartMeter;
    const once = (unit: string, unitPrice: UnitPriceOption) => meter({ unit, unitPrice, step: 1n, atCap });
    const ahead = step === undefined ? {} : { step };
    this.#meters = {
      input: once("input token", prices.input),
      cachedInput: once("cached input token", prices.cachedInput ?? prices.input),
      cacheWrite: once("cache write token", prices.cacheWrite ?? prices.input),
      output: meter({ unit: "output token", unitPrice: prices.output, atCap, ...ahead }),
    };
    this.#stopsAtCap = atCap === "stop";
  }

  /**
   * Counts up to what the answer has used so far: all kinds of one part, or none of them.
   * @returns whether to end the answer after what was just counted: the cap did not cover all of it
   * @throws as UsageMeter.add, and Unavailable where nothing can be read; then nothing of the part was counted
   */
  async count(used: TokenUsage): Promise<boolean> {
    this.look(used);
    if (this.#isWhole) this.finish(true);
    else if (this.#isCharged && !this.#isRead) throw this.#unstated();
    return this.#count(used);
  }

  /** Notes what the answer has used, and counts nothing. */
  look(used: TokenUsage): void {
    this.#basis = used.basis ?? "stated";
    this.#isRead ||= this.#basis !== "unreadable";
    this.#last = used;
    if (this.#basis !== "stated") this.#chunks = used.output;
  }

  get isStated(): boolean {
    return !this.#isCharged || this.#basis === "stated";
  }

  /**
   * Counts an answer that its client left: its input, and its output in proportion to what was delivered.
   * @throws as UsageMeter.add
   */
  async countLeft(): Promise<void> {
    if (!this.#isCharged) return;
    const delivered = this.#meters.output.usage.units;
    const { input, cachedInput, cacheWrite, output } = this.#last;
    if (this.#basis === "stated") {
      const chunks = BigInt(this.#chunks);
      // Stated while it was delivered: all of it is counted.
      if (chunks === 0n || delivered > chunks) return void (await this.#count({ ...this.#last, output: 0 }));
      const share = (BigInt(output) * delivered + chunks - 1n) / chunks;
      return void (await this.#count({ ...this.#last, output: Number(share) }));
    }
    const least = Math.max(input, this.#inputAtLeast - cachedInput - cacheWrite);
    await this.#count({ input: least, cachedInput, cacheWrite, output: 0 });
  }

  async #count(used: TokenUsage): Promise<boolean> {
    const added = this.#addedBy(used).sort((a, b) => (a.cost < b.cost ? 1 : a.cost > b.cost ? -1 : 0));
    const [only] = added;
    if (added.length === 1 && only) return (await only.meter.add(only.units)).clipped && this.#stopsAtCap;
    const covered = await this.#reserve(added);
    let isClipped = covered.length < added.length;
    for (const { meter, units } of covered) isClipped = (await meter.add(units)).clipped || isClipped;
    return isClipped && this.#stopsAtCap;
  }

  /** Input that was counted as one kind, and is of another one by a later statement, is not counted again. */
  #addedBy(used: TokenUsage): KindOfPart[] {
    const counted = (kind: Kind): bigint => this.#meters[kind].usage.units;
    let moved = 0n;
    for (const kind of INPUTS) if (counted(kind) > used[kind]) moved += counted(kind) - BigInt(used[kind]);
    const added: KindOfPart[] = [];
    for (const kind of KINDS) {
      let units = BigInt(used[kind]) - counted(kind);
      if (units > 0n && kind !== "output") {
        const known = units < moved ? units : moved;
        units -= known;
        moved -= known;
      }
      if (units > 0n) added.push(new KindOfPart(this.#meters[kind], units));
    }
    return added;
  }

  /**
   * Reserves for the dearest kind first: where nothing remains for it, the part is refused.
   * @returns the kinds that are covered, or whose cost is covered in part
   */
  async #reserve(added: readonly KindOfPart[]): Promise<KindOfPart[]> {
    const covered: KindOfPart[] = [];
    for (const kind of added) {
      try {
        await kind.meter.reserve(kind.units);
        covered.push(kind);
      } catch (error) {
        if (covered.length === 0 || !isOutOfCap(error)) throw error;
      }
    }
    return covered;
  }

  /**
   * Call it where the upstream has ended its answer.
   * @param canRefuse nothing of it has left
   * @throws Unavailable for usage that was not stated, where it can be refused; otherwise that is reported
   */
  finish(canRefuse: boolean): void {
    if (!this.#isCharged || this.#basis === "stated") return;
    const refusal = this.#unstated();
    if (canRefuse) throw refusal;
  }

  #unstated(): Unavailable {
    if (this.#basis !== "stated") this.#meters.output.noteUnstated(this.#basis);
    return new Unavailable("The upstream's answer states no usage that this gate can read.");
  }

  /** @see UsageMeter.takeReceipts */
  takeReceipts(): readonly string[] {
    // The meters of one payment share them.
    return this.#meters.output.takeReceipts();
  }

  /** @throws Unavailable when what was counted could not be recorded */
  async end(): Promise<void> {
    const ended = await Promise.allSettled(KINDS.map((kind) => this.#meters[kind].end()));
    for (const one of ended) if (one.status === "rejected") throw one.reason;
  }
}

/** What one part adds to one kind of token. */
class KindOfPart {
  /** base units */
  readonly cost: bigint;

  constructor(
    readonly meter: PartMeter,
    readonly units: bigint,
  ) {
    const { usage, unitPrice } = meter;
    this.cost = costOf(unitPrice, usage.units + units) - costOf(unitPrice, usage.units);
  }
}
