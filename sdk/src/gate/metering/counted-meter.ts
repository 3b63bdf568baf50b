/** Meters an answer whose payment has no allowance: an `upto` payment is charged the sum, any other one nothing. */
import { AllowanceExhausted } from "../../protocol/errors";
import {
  costOf,
  endedMeter,
  type PartMeter,
  type UnitPrice,
  type Usage,
  type UsageTerms,
  unitsOf,
} from "./usage-meter";

/** What the meters of one answer may charge together, base units. */
export interface UsageBudget {
  readonly remaining: bigint;
  /** @returns what of the amount it grants. @throws Internal once the answer has begun */
  take(amount: bigint): bigint;
}

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
