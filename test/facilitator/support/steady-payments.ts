/** Payments one after the other, by clients that ask again until they know: what a provider's agents do all day. */
import { expect } from "chai";
import type { FacilitatorClient } from "turnpike/facilitator";
import { type Address, type Hex, type PaymentProof, proofToWire, type SignedPayment } from "turnpike/protocol";
import { type FacilitatorWorld, type Payer, until } from "../../support/facilitator";
import { paymentToWire } from "./payments";

const FUNDS = 1_000_000_000n;
/** Each payment has an amount of its own, which names its transfer. */
const FIRST_AMOUNT = 10_000n;
const PAUSE_MS = 100;
const PATIENCE_MS = 180_000;

export interface SteadyPaymentsOptions {
  readonly world: FacilitatorWorld;
  readonly payTo: Address;
  /** asked in turn */
  readonly clients: () => readonly FacilitatorClient[];
  readonly payers: number;
}

export class SteadyPayments {
  /** that had a proof, in order */
  readonly settled: { readonly signed: SignedPayment; readonly proof: PaymentProof }[] = [];
  readonly #options: SteadyPaymentsOptions;
  readonly #payers: Payer[] = [];
  #running: Promise<unknown> = Promise.resolve();
  #isOver = true;
  #amount = FIRST_AMOUNT;
  #turn = 0;

  constructor(options: SteadyPaymentsOptions) {
    this.#options = options;
  }

  get world(): FacilitatorWorld {
    return this.#options.world;
  }

  get ids(): readonly Hex[] {
    return this.settled.map(({ signed }) => this.world.idOf(signed));
  }

  /** Pays until `end`. */
  async begin(): Promise<void> {
    const { world, payers } = this.#options;
    await this.end();
    while (this.#payers.length < payers) this.#payers.push(await world.payer(FUNDS));
    this.#isOver = false;
    this.#running = Promise.all(this.#payers.map((payer) => this.#payOnAndOn(payer)));
    // Its error is thrown by `end`.
    this.#running.catch(() => undefined);
  }

  /** Waits for so many more. */
  async more(count = this.#payers.length + 1): Promise<void> {
    const before = this.settled.length;
    await until(async () => this.settled.length >= before + count, "payments settle", PATIENCE_MS);
  }

  /** Waits for the payments under way. @throws when one was refused */
  async end(): Promise<void> {
    this.#isOver = true;
    await this.#running;
  }

  /** The payee has each payment once and nothing else, and every proof is still the answer. */
  async requireOnce(): Promise<void> {
    const { world, payTo } = this.#options;
    const owed = this.settled.map(({ signed }) => signed.authorization.value);
    const transfers = (await world.transfers(payTo)).map(({ value }) => value);
    const inOrder = (values: readonly bigint[]) => [...values].sort((x, y) => Number(x - y)).map(String);
    expect(inOrder(transfers), "each is one transfer").to.deep.equal(inOrder(owed));
    const sum = owed.reduce((total, value) => total + value, 0n);
    expect(await world.contracts.balanceOf(payTo)).to.equal(sum);
  }

  /** Asks again for the last proofs, as an agent that lost the answer does. */
  async requireProofs(count: number): Promise<void> {
    for (const { signed, proof } of this.settled.slice(-count))
      expect(proofToWire(await this.settle(signed))).to.deep.equal(proofToWire(proof));
  }

  async settle(signed: SignedPayment): Promise<PaymentProof> {
    const wire = paymentToWire(signed);
    return until(
      async (saw) => {
        const clients = this.#options.clients();
        const outcome = await clients[this.#turn++ % clients.length]?.authorize(wire).catch(saw);
        if (outcome?.kind === "settled") return outcome.proof;
        if (outcome?.kind === "refused") throw outcome.error;
        await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
        return saw(outcome);
      },
      "the payment is settled",
      PATIENCE_MS,
    );
  }

  async #payOnAndOn(payer: Payer): Promise<void> {
    while (!this.#isOver) {
      const { world, payTo } = this.#options;
      const amount = this.#amount++;
      const signed = await world.signPayment({ payer, payTo, amount, validForSec: 3_600 });
      this.settled.push({ signed, proof: await this.settle(signed) });
    }
  }
}
