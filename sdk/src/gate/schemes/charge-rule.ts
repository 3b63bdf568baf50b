/** Asks a route which answers it charges for. A fault of its callback charges nothing, and lets nothing out. */
import { ConfigError, type TurnpikeError } from "../../protocol";
import { callbackFault } from "../core/callback-fault";
import type { GateOptions } from "../core/gate-options";

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
