import { inspect } from "node:util";
import { expect } from "chai";
import { Contract } from "ethers";
import { RIGHTS, setOperator } from "turnpike/chain";
import { createFacilitatorClient, type DebitAnswer } from "turnpike/facilitator";
import type { Address, Hex } from "turnpike/protocol";
import { fund, type Payer, walletOf } from "../../../support/facilitator";
import { useService } from "../../support/http-service";
import { expectProblem } from "../../support/problem";

const CAP = 5_000_000n;

describe("Facilitator: debits", function () {
  this.timeout(120_000);
  const http = useService();
  let key: string;

  before(async () => {
    key = await http.service.apiKey({ scopes: ["debits"] });
    await allow(true);
  });

  async function allow(allowed: boolean, planId = http.world.planId): Promise<void> {
    const { relayers } = await http.service.client.supported();
    for (const account of relayers) {
      await setOperator(http.world.provider, http.world.contracts.turnpike, {
        planId,
        account,
        rights: allowed ? RIGHTS.debit : 0,
      });
    }
    await settled();
  }
  /** The service has read what the chain has. */
  async function settled(): Promise<void> {
    const { chain } = http.world;
    const head = await chain.provider.getBlockNumber();
    const deadline = performance.now() + 60_000;
    for (;;) {
      const { checks } = (await (await http.call("/readyz")).json()) as { checks: { name: string; detail: string }[] };
      const applied = Number(/applied (\d+)/.exec(checks.find(({ name }) => name === "indexer")?.detail ?? "")?.[1]);
      if (applied >= head) return;
      if (performance.now() > deadline) throw new Error("the service does not follow the chain");
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  }
  async function subscribed(
    funds = 1_000_000_000n,
    planId = http.world.planId,
  ): Promise<{ idHash: Hex; subscriber: Payer }> {
    const subscriber = await http.world.payer(funds);
    const { idHash, request } = await http.world.signup(subscriber, { planId, permit: funds, maxOverage: CAP });
    const outcome = await http.service.client.subscribe(request);
    expect(outcome.kind, inspect(outcome)).to.equal("done");
    return { idHash, subscriber };
  }
  const client = (apiKey = key) => createFacilitatorClient({ url: http.service.url, apiKey });
  async function debit(
    items: readonly (readonly [Hex, bigint, number])[],
    apiKey = key,
  ): Promise<readonly DebitAnswer[]> {
    const outcome = await client(apiKey).debits(
      items.map(([idHash, amount, index]) => ({ idHash, amount: String(amount), index })),
    );
    if (outcome.kind === "refused") throw outcome.error;
    return outcome.results;
  }
  const shown = (answers: readonly DebitAnswer[]) =>
    answers.map((answer) => (answer.status === "failed" ? `failed ${answer.code}` : answer.status));
  async function spentOf(idHash: Hex): Promise<{ spent: string; debits: number }> {
    const found = await http.service.client.subscription(idHash);
    if (found.kind !== "found") throw found.error;
    const { spent, debits } = found.value.allowance;
    return { spent: String(spent), debits };
  }

  it("debits many subscriptions in one transaction, and reports each item's own outcome", async () => {
    const [one, two] = [await subscribed(), await subscribed()];
    const unknown = `0x${"99".repeat(32)}` as Hex;
    const answers = await debit([
      [one.idHash, 300_000n, 0],
      [two.idHash, CAP + 1n, 0],
      [one.idHash, 200_000n, 1],
      [unknown, 1_000n, 0],
    ]);
    expect(shown(answers)).to.deep.equal([
      "settled",
      "failed AllowanceExhausted",
      "settled",
      "failed UnknownSubscription",
    ]);
    const transactions = answers.flatMap((answer) => (answer.status === "settled" ? [answer.transaction] : []));
    expect(new Set(transactions).size).to.equal(1);
    expect(await spentOf(one.idHash)).to.deep.equal({ spent: "500000", debits: 2 });
    expect(await spentOf(two.idHash)).to.deep.equal({ spent: "0", debits: 0 });
  });

  it("A28 S5 debits once however often, and by however many at once, the same index is asked for", async () => {
    const { idHash } = await subscribed();
    const before = await http.world.balanceOf(http.world.payee);
    const all = await Promise.all(Array.from({ length: 12 }, () => debit([[idHash, 250_000n, 0]])));
    for (const answers of all) expect(shown(answers)).to.deep.equal(["settled"]);
    expect(new Set(all.flat().map((answer) => answer.status === "settled" && answer.transaction)).size).to.equal(1);
    expect((await http.world.balanceOf(http.world.payee)) - before).to.equal(250_000n);
    expect(shown(await debit([[idHash, 250_000n, 0]]))).to.deep.equal(["settled"]);
    expect(shown(await debit([[idHash, 250_001n, 0]]))).to.deep.equal(["failed StaleDebit"]);
    expect(shown(await debit([[idHash, 250_000n, 2]])), "a gap").to.deep.equal(["failed StaleDebit"]);
    expect(await spentOf(idHash)).to.deep.equal({ spent: "250000", debits: 1 });
  });

  it("judges a failed index again when it is asked for again", async () => {
    const { idHash, subscriber } = await subscribed();
    const { token, chain, contracts, provider } = http.world;
    await fund(chain, subscriber.address);
    const held = await contracts.balanceOf(subscriber.address);
    const own = new Contract(contracts.token, token.interface, walletOf(chain, subscriber.key));
    await (await own.getFunction("transfer")(provider.address, held)).wait();
    expect(shown(await debit([[idHash, 400_000n, 0]]))).to.deep.equal(["failed InsufficientFunds"]);
    await http.world.contracts.mint(subscriber.address, 1_000_000n);
    expect(shown(await debit([[idHash, 300_000n, 0]])), "another amount").to.deep.equal(["settled"]);
  });

  it("B13 B22 debits for the plan's provider alone, with the relayer as operator, and no dust", async () => {
    const { idHash } = await subscribed();
    const stranger = await http.service.apiKey({ wallet: await http.world.payer(0n) });
    expect(shown(await debit([[idHash, 300_000n, 0]], stranger))).to.deep.equal(["failed UnknownSubscription"]);
    expect(shown(await debit([[idHash, 99n, 0]]))).to.deep.equal(["failed PaymentNotAllowed"]);
    const planId = await http.world.plan();
    const other = await subscribed(1_000_000_000n, planId);
    const [refused] = await debit([[other.idHash, 300_000n, 0]]);
    expect(refused).to.include({ status: "failed", code: "NotOperator" });
    const { relayers } = await http.service.client.supported();
    expect(refused?.status === "failed" && refused.message).to.include(relayers[0] as Address);
    await allow(true, planId);
    expect(shown(await debit([[other.idHash, 300_000n, 0]]))).to.deep.equal(["settled"]);
    expect(await spentOf(idHash)).to.deep.equal({ spent: "0", debits: 0 });
  });

  it("S11 refuses what is no list of debits, by field", async () => {
    const good = { idHash: `0x${"11".repeat(32)}`, amount: "1000", index: 0 };
    for (const [body, field] of [
      [{ debits: [good] }, "body"],
      [[], "body"],
      [Array.from({ length: 251 }, (_, index) => ({ ...good, index })), "body"],
      [[good, good], "body"],
      [[{ ...good, amount: "0" }], "0.amount"],
      [[{ ...good, amount: 5 }], "0.amount"],
      [[{ ...good, amount: String(1n << 88n) }], "0.amount"],
      [[{ ...good, index: -1 }], "0.index"],
      [[{ ...good, idHash: "0x12" }], "0.idHash"],
    ] as const) {
      const problem = await expectProblem(await http.call("/debits", { key, body }), 400, "InvalidRequest");
      expect(problem.message).to.match(new RegExp(`^${field.replace(".", "\\.")}: `));
    }
  });

  it("settles what was under way when the service stopped, once; and limits a provider's batches by the hour", async () => {
    const { idHash } = await subscribed();
    await http.restart({ AUTHORIZE_WAIT_MS: "0", DEBIT_BATCHES_PER_HOUR: "1000" });
    expect(shown(await debit([[idHash, 300_000n, 0]]))).to.deep.equal(["pending"]);
    expect(shown(await debit([[idHash, 400_000n, 0]]))).to.deep.equal(["failed PayloadConflict"]);
    await http.restart({ DEBIT_BATCHES_PER_HOUR: "1" });
    expect(shown(await debit([[idHash, 300_000n, 0]]))).to.deep.equal(["settled"]);
    expect(await spentOf(idHash)).to.deep.equal({ spent: "300000", debits: 1 });
    const body = [{ idHash, amount: "300000", index: 1 }];
    await expectProblem(await http.call("/debits", { key, body }), 429, "RateLimited");
  });
});
