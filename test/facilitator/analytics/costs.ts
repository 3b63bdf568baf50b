import { expect } from "chai";
import { until } from "../../support/facilitator";
import { useService } from "../support/http-service";
import { paymentToWire } from "../support/payments";
import { expectProblem } from "../support/problem";

const NATIVE_PRICE = 2_950.75;
const CENTS = 100;

/** Cents are returned with six digits, whatever the gas price is. */
function expectCents(actual: number | undefined, cents: number): void {
  expect(actual).to.be.closeTo(cents, cents * 1e-5);
}

describe("Facilitator: what transactions cost", function () {
  this.timeout(120_000);
  const http = useService({ NATIVE_PRICE: String(NATIVE_PRICE) });

  interface Cost {
    readonly transaction: string;
    readonly purpose: string;
    readonly gasUsed: number;
    readonly gasPriceWei: string;
    readonly costWei: string;
    readonly costCents?: number;
    readonly payments: number;
  }
  const costOf = async (hash: string): Promise<Cost> =>
    until(async () => {
      const response = await http.call(`/transactions/${hash}/cost`);
      return response.ok && ((await response.json()) as Cost);
    }, "the transaction is mined and known");
  /** labels and value of one metric */
  async function gauge(name: string): Promise<Map<string, number>> {
    const text = await (await http.call("/metrics")).text();
    const lines = [...text.matchAll(new RegExp(`^${name}\\{purpose="(\\w+)"\\} (\\S+)$`, "gm"))];
    return new Map(lines.map(([, purpose, value]) => [purpose ?? "", Number(value)]));
  }
  async function settle(): Promise<string> {
    const { client } = http.service;
    const outcome = await client.authorize(paymentToWire(await http.world.signPayment()));
    if (outcome.kind !== "settled") throw new Error(outcome.kind);
    return outcome.proof.transaction;
  }

  it("are those of the chain's receipt: gas times price, also in token cents", async () => {
    const hash = await settle();
    const receipt = await http.world.chain.provider.getTransactionReceipt(hash);
    const cost = await costOf(hash);
    const wei = BigInt(receipt?.gasUsed ?? 0n) * BigInt(receipt?.gasPrice ?? 0n);
    expect(wei > 0n).to.equal(true);
    expect(cost).to.deep.include({
      transaction: hash,
      gasUsed: Number(receipt?.gasUsed),
      gasPriceWei: String(receipt?.gasPrice),
      costWei: String(wei),
      payments: 1,
    });
    expectCents(cost.costCents, (Number(wei) / 1e18) * NATIVE_PRICE * CENTS);
  });

  it("are measured by purpose over a day, as the sum of the single ones", async () => {
    const hashes = [await settle(), await settle()];
    await Promise.all(hashes.map(costOf));
    const rows = await http.world.transfers();
    const all = await Promise.all([...new Set(rows.map(({ transaction }) => transaction))].map(costOf));
    const sumOf = (of: (cost: Cost) => number): number => all.reduce((sum, cost) => sum + of(cost), 0);
    const purposes = [...new Set(all.map(({ purpose }) => purpose))];
    const total = async (name: string): Promise<number> => {
      const values = await gauge(name);
      return purposes.reduce((sum, purpose) => sum + (values.get(purpose) ?? Number.NaN), 0);
    };
    expect(await total("turnpike_transactions_day")).to.equal(all.length);
    expect(await total("turnpike_transactions_day_gas")).to.equal(sumOf(({ gasUsed }) => gasUsed));
    expectCents(
      await total("turnpike_transactions_day_cents"),
      sumOf(({ costCents = Number.NaN }) => costCents),
    );
  });

  it("are no one's whose transactions are not this service's, and a hash has to be one", async () => {
    await expectProblem(await http.call(`/transactions/0x${"11".repeat(32)}/cost`), 404, "UnknownObject");
    await expectProblem(await http.call("/transactions/0x12/cost"), 400, "InvalidRequest");
    const newest = await http.world.chain.provider.getBlock(1);
    const foreign = newest?.transactions[0] ?? "";
    await expectProblem(await http.call(`/transactions/${foreign}/cost`), 404, "UnknownObject");
  });

  it("are in wei alone where no price of the coin is set", async () => {
    const hash = await settle();
    await costOf(hash);
    await http.restart({ NATIVE_PRICE: "" });
    expect(await costOf(hash)).not.to.have.property("costCents");
    expect((await gauge("turnpike_transactions_day_cents")).size).to.equal(0);
    expect((await gauge("turnpike_transactions_day_gas")).size).to.be.greaterThan(0);
  });
});
