/**
 * Shares the places of a queue among payers and providers, so that none of them keeps the others out. The first half is
 * for anyone. The next quarter is for payers with fewer places than the average payer. The last quarter is for such
 * payers of providers with fewer places than the average provider. Remembers only payers and providers that hold one.
 */

/** Who a request is from and for, by their addresses. They only share places: anyone can name any address. */
export interface Party {
  readonly payer: string;
  readonly payee: string;
}

/** From this fill on a payer above its share is refused. */
export const CROWDED = 0.5;

/** From this fill on a provider above its share is refused. */
const SCARCE = 0.75;

class Holders {
  readonly #held = new Map<string, number>();

  add(name: string, change: number): void {
    const held = (this.#held.get(name) ?? 0) + change;
    if (held === 0) this.#held.delete(name);
    else this.#held.set(name, held);
  }

  isBelowShare(name: string, places: number): boolean {
    const held = this.#held.get(name) ?? 0;
    return held === 0 || held * this.#held.size < places;
  }
}

export class FairShares {
  readonly #payers = new Holders();
  readonly #payees = new Holders();
  #taken = 0;

  get taken(): number {
    return this.#taken;
  }

  /** @param fill how full the queue is: at 1 nobody is admitted */
  mayEnter({ payer, payee }: Party, fill: number): boolean {
    if (fill < CROWDED) return true;
    if (fill >= 1 || !this.#payers.isBelowShare(payer, this.#taken)) return false;
    return fill < SCARCE || this.#payees.isBelowShare(payee, this.#taken);
  }

  enter(party: Party, places = 1): void {
    this.#change(party, places);
  }

  leave(party: Party): void {
    this.#change(party, -1);
  }

  #change({ payer, payee }: Party, change: number): void {
    this.#taken += change;
    this.#payers.add(payer, change);
    this.#payees.add(payee, change);
  }
}
