/** Meters the tokens of one answer: one meter for each kind of token that has a price of its own. */
import { isTurnpikeError } from "../../protocol";
import type { Payment } from "../core/payment";
import type { UnitPriceOption } from "../metering/unit-price";
import type { UsageMeter, UsageMeterOptions } from "../metering/usage-meter";
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
}

const KINDS = ["input", "cachedInput", "cacheWrite", "output"] as const;

export class TokenMeter {
  readonly #meters: Readonly<Record<keyof TokenUsage, UsageMeter>>;
  readonly #stopsAtCap: boolean;

  /** @throws ConfigError that names the option */
  constructor({ payment, prices, step, atCap = "stop" }: TokenMeterOptions) {
    // Input is counted at once: what it reserved ahead would be missing to the output near the cap.
    const once = (unit: string, unitPrice: UnitPriceOption) => payment.meter({ unit, unitPrice, step: 1n, atCap });
    const ahead = step === undefined ? {} : { step };
    this.#meters = {
      input: once("input token", prices.input),
      cachedInput: once("cached input token", prices.cachedInput ?? prices.input),
      cacheWrite: once("cache write token", prices.cacheWrite ?? prices.input),
      output: payment.meter({ unit: "output token", unitPrice: prices.output, atCap, ...ahead }),
    };
    this.#stopsAtCap = atCap === "stop";
  }

  /**
   * Counts up to what the answer has used so far.
   * @returns whether to end the answer after what was just counted: the cap did not cover all of it
   * @throws as UsageMeter.add
   */
  async count(used: TokenUsage): Promise<boolean> {
    let isClipped = false;
    for (const kind of KINDS) {
      const meter = this.#meters[kind];
      const added = BigInt(used[kind]) - meter.usage.units;
      if (added <= 0n) continue;
      try {
        isClipped = (await meter.add(added)).clipped || isClipped;
      } catch (error) {
        // What is left of the same chunk, whose beginning used up the cap.
        if (!isClipped || !isTurnpikeError(error) || error.code !== "AllowanceExhausted") throw error;
      }
    }
    return isClipped && this.#stopsAtCap;
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
