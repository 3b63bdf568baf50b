import { expect } from "chai";
import { turnpikeInterface } from "turnpike/chain";
import type { ChangeOutcome, SubscriptionChange } from "turnpike/facilitator";
import { type Hex, idHashOf, randomBytes, secretHashOf, toHex } from "turnpike/protocol";
import { signupArgs } from "../../support/acts";
import { type Payer, until } from "../../support/facilitator";
import { expectRefused } from "../support/expect";
import { DAY_SEC, INTERVAL_SEC, PRICE, type Service, type ServiceWorld, startServiceWorld } from "../support/service";

const FUNDS = 1_000_000_000n;

describe("Facilitator: subscriptions", function () {
  this.timeout(120_000);
  let world: ServiceWorld;
  let service: Service;

  before(async () => {
    world = await startServiceWorld();
    service = await world.service({ RENEWALS: "false", ACTS_PER_HOUR: "1000" });
  });
  after(() => world.stop());

  const done = (outcome: ChangeOutcome): SubscriptionChange => {
    if (outcome.kind !== "done") throw new Error(`not done: ${JSON.stringify(outcome)}`);
    return outcome.change;
  };
  async function subscribed(
    fields: { planId?: Hex; maxOverage?: bigint } = {},
  ): Promise<{ subscriber: Payer; idHash: Hex }> {
    const subscriber = await world.payer(FUNDS);
    const { idHash, request } = await world.signup(subscriber, { ...fields, permit: FUNDS });
    done(await service.client.subscribe(request));
    return { subscriber, idHash };
  }
  const record = async (idHash: Hex) => {
    const found = await service.client.subscription(idHash);
    if (found.kind !== "found") throw found.error;
    return found.value;
  };

  describe("POST /subscriptions", () => {
    it("creates the subscription and collects the first period in one transaction, for a subscriber without gas", async () => {
      const subscriber = await world.payer(FUNDS);
      const before = await world.balanceOf(world.payee);
      const { idHash, request } = await world.signup(subscriber, { maxOverage: 5_000_000n, permit: FUNDS });
      const change = done(await service.client.subscribe(request));
      expect(change).to.include({ idHash, status: "ACTIVE", version: 0 });
      expect(await world.balanceOf(world.payee)).to.equal(before + PRICE);
      const receipt = await world.chain.provider.getTransactionReceipt(change.transaction);
      expect(receipt?.logs.filter((log) => log.address === world.contracts.turnpike)).to.have.length(1);
      const { allowance, ...rest } = await record(idHash);
      expect(rest).to.include({ status: "ACTIVE", subscriber: subscriber.address, planId: world.planId });
      expect(allowance).to.deep.equal({ cap: 5_000_000n, spent: 0n, remaining: 5_000_000n, debits: 0 });
    });

    it("S3 answers a repeated request with the same transaction and charges once, also at the same time", async () => {
      const subscriber = await world.payer(FUNDS);
      const { request } = await world.signup(subscriber, { permit: FUNDS });
      const outcomes = await Promise.all(Array.from({ length: 8 }, () => service.client.subscribe(request)));
      outcomes.push(await service.client.subscribe(request));
      const transactions = new Set(outcomes.map((outcome) => done(outcome).transaction));
      expect(transactions.size).to.equal(1);
      expect(await world.balanceOf(subscriber.address)).to.equal(FUNDS - PRICE);
    });

    it("A22 succeeds when a stranger submitted the signature first", async () => {
      const subscriber = await world.payer(FUNDS);
      const first = await world.signup(subscriber, { permit: FUNDS });
      done(await service.client.subscribe(first.request));
      const { request } = await world.signup(subscriber);
      const stranger = await world.chain.wallet("stranger");
      const args = signupArgs(subscriber.address, request, request);
      const data = turnpikeInterface.encodeFunctionData("subscribe", args);
      const sent = await stranger.sendTransaction({ to: world.contracts.turnpike, data });
      await sent.wait();
      const change = await until(async () => {
        const outcome = await service.client.subscribe(request);
        return outcome.kind === "done" && outcome.change;
      }, "the indexer saw the stranger's transaction");
      expect(change.transaction).to.equal(sent.hash);
    });

    it("names what is missing, and sends nothing", async () => {
      const poor = await world.payer(PRICE - 1n);
      const rich = await world.payer(FUNDS);
      const error = expectRefused(
        await service.client.subscribe((await world.signup(poor, { permit: FUNDS })).request),
        "InsufficientFunds",
      );
      expect(error.details).to.include({ required: String(PRICE), available: String(PRICE - 1n) });
      expect(error.remedy).to.match(/funds/i);
      expectRefused(await service.client.subscribe((await world.signup(rich)).request), "InsufficientApproval");
      const late = await world.signup(rich, { permit: FUNDS, deadline: 1n });
      expectRefused(await service.client.subscribe(late.request), "SignatureExpired");
      const forged = await world.signup(rich, { permit: FUNDS });
      forged.request.signature = (await world.signup(poor)).request.signature;
      expectRefused(await service.client.subscribe(forged.request), "InvalidSignature");
      const unknown = await world.signup(rich, { planId: toHex(randomBytes(32)), permit: FUNDS });
      expectRefused(await service.client.subscribe(unknown.request), "UnknownPlan");
      expect(await world.balanceOf(rich.address)).to.equal(FUNDS);
    });

    it("A23 refuses a deprecated plan with PlanDeprecated", async () => {
      const planId = await world.plan();
      await world.deprecate(planId, world.planId);
      const { request } = await world.signup(await world.payer(FUNDS), { planId, permit: FUNDS });
      await until(async () => (await service.client.plan(planId)).kind === "found", "the plan is known");
      expectRefused(await service.client.subscribe(request), "PlanDeprecated");
      const found = await until(async () => {
        const plan = await service.client.plan(planId);
        return plan.kind === "found" && plan.value.deprecated && plan.value;
      }, "the deprecation is known");
      expect(found.successor).to.equal(world.planId);
    });

    it("A23 refuses a stopped plan with PlanStopped, and says that the plan is stopped", async () => {
      const planId = await world.plan();
      const open = await until(async () => {
        const plan = await service.client.plan(planId);
        return plan.kind === "found" && plan.value;
      }, "the plan is known");
      expect(open.stopped).to.equal(false);
      await world.act(world.provider, "stopPlan", [planId]);
      const { request } = await world.signup(await world.payer(FUNDS), { planId, permit: FUNDS });
      expectRefused(await service.client.subscribe(request), "PlanStopped");
      const found = await until(async () => {
        const plan = await service.client.plan(planId);
        return plan.kind === "found" && plan.value.stopped && plan.value;
      }, "the stop is known");
      expect(found).to.include({ planId, deprecated: true });
    });

    it("B2 refuses an id hash that is in use for another plan", async () => {
      const secretHash = secretHashOf(toHex(randomBytes(32)));
      const subscriber = await world.payer(FUNDS);
      done(await service.client.subscribe((await world.signup(subscriber, { secretHash, permit: FUNDS })).request));
      const planId = await world.plan({ amount: 2n * PRICE });
      await until(async () => (await service.client.plan(planId)).kind === "found", "the plan is known");
      const other = await world.signup(subscriber, { secretHash, planId });
      expectRefused(await service.client.subscribe(other.request), "IdHashUsed");
    });

    it("B13 spends no gas on a plan with a dust price", async () => {
      const planId = await world.plan({ amount: 99n });
      await until(async () => (await service.client.plan(planId)).kind === "found", "the plan is known");
      const subscriber = await world.payer(FUNDS);
      const { request } = await world.signup(subscriber, { planId, permit: FUNDS });
      expectRefused(await service.client.subscribe(request), "PaymentNotAllowed");
    });
  });

  describe("signed changes", () => {
    it("pause, resume, cap, rekey, cancel: each once, each bumping the version", async () => {
      const { subscriber, idHash } = await subscribed({ maxOverage: 1_000_000n });
      const change = async (act: "pause" | "resume" | "max-overage" | "rekey" | "cancel", fields: object) => {
        const request = await world.change(act, subscriber, { idHash, ...fields } as never);
        return done(await service.client.change({ idHash, act, request: request as never }));
      };
      expect(await change("pause", { version: 0 })).to.include({ status: "PAUSED", version: 1 });
      expect(await change("resume", { version: 1, maxCharge: 0n })).to.include({ status: "ACTIVE", version: 2 });
      await change("max-overage", { version: 2, cap: 7_000_000n });
      expect((await record(idHash)).allowance.cap).to.equal(7_000_000n);
      const newSecretHash = secretHashOf(toHex(randomBytes(32)));
      const rekeyed = await change("rekey", { version: 3, newSecretHash });
      const newIdHash = idHashOf(subscriber.address, newSecretHash);
      expect(rekeyed).to.include({ idHash: newIdHash, previousIdHash: idHash, version: 0, status: "ACTIVE" });
      expect(await record(idHash)).to.include({ status: "CANCELLED", rekeyedTo: newIdHash });
      const cancel = await world.change("cancel", subscriber, { idHash: newIdHash, version: 0, atPeriodEnd: true });
      done(await service.client.change({ idHash: newIdHash, act: "cancel", request: cancel }));
      expect(await record(newIdHash)).to.include({ status: "ACTIVE", ending: true });
    });

    it("S3 answers a repeated change with the same transaction, and a stale one with 409", async () => {
      const { subscriber, idHash } = await subscribed();
      const request = await world.change("pause", subscriber, { idHash });
      const first = done(await service.client.change({ idHash, act: "pause", request }));
      const again = done(await service.client.change({ idHash, act: "pause", request }));
      expect(again.transaction).to.equal(first.transaction);
      const stale = await world.change("cancel", subscriber, { idHash, version: 0, atPeriodEnd: false });
      const error = expectRefused(
        await service.client.change({ idHash, act: "cancel", request: stale }),
        "StaleVersion",
      );
      expect(error.details).to.include({ given: "0", current: "1" });
    });

    it("L12 refuses a change that somebody else signed", async () => {
      const { idHash } = await subscribed();
      const request = await world.change("cancel", await world.payer(0n), { idHash, atPeriodEnd: false });
      expectRefused(await service.client.change({ idHash, act: "cancel", request }), "InvalidSignature");
      expect(await record(idHash)).to.include({ status: "ACTIVE", version: 0 });
    });

    it("distinguishes an unknown subscription from an inactive one", async () => {
      const { subscriber, idHash } = await subscribed();
      const unknown = toHex(randomBytes(32));
      const request = await world.change("pause", subscriber, { idHash: unknown });
      expectRefused(await service.client.change({ idHash: unknown, act: "pause", request }), "UnknownSubscription");
      expectRefused(await service.client.subscription(unknown), "UnknownSubscription");
      const pause = await world.change("pause", subscriber, { idHash });
      done(await service.client.change({ idHash, act: "pause", request: pause }));
      const again = await world.change("pause", subscriber, { idHash, version: 1 });
      const error = expectRefused(
        await service.client.change({ idHash, act: "pause", request: again }),
        "SubscriptionNotActive",
      );
      expect(error.details.status).to.equal("PAUSED");
    });

    it("gives the permit to the token first when a change has to charge", async () => {
      const subscriber = await world.payer(FUNDS);
      const { idHash, request } = await world.signup(subscriber, { permit: PRICE });
      done(await service.client.subscribe(request));
      const planId = await world.plan({ amount: 3n * PRICE });
      await until(async () => (await service.client.plan(planId)).kind === "found", "the plan is known");
      const fields = { idHash, newPlanId: planId, maxOverage: 0n, maxCharge: 3n * PRICE };
      const bare = await world.change("plan", subscriber, fields);
      expectRefused(await service.client.change({ idHash, act: "plan", request: bare }), "InsufficientApproval");
      const quoted = await service.client.quoteChange({ idHash, newPlanId: planId });
      if (quoted.kind !== "found") throw quoted.error;
      expect(Number(quoted.value.credit)).to.be.closeTo(Number(PRICE), Number(PRICE) / 1_000);
      const backed = { ...bare, permit: await world.permit(subscriber, FUNDS) };
      const changed = done(await service.client.change({ idHash, act: "plan", request: backed }));
      expect(changed).to.include({ status: "ACTIVE", version: 1 });
      expect(await record(idHash)).to.include({ planId });
    });
  });

  describe("POST /permits and GET /accounts", () => {
    it("sets the approval once, and accepts an existing permit as done", async () => {
      const owner = await world.payer(FUNDS);
      const token = world.contracts.token;
      const account = async () => {
        const found = await service.client.account({ address: owner.address, token });
        if (found.kind !== "found") throw found.error;
        return found.value;
      };
      expect(await account()).to.include({ balance: FUNDS, approval: 0n, permitNonce: 0n, tokenName: "Test USD" });
      const permit = await world.permit(owner, 77n);
      const applied = await service.client.permit({ token, owner: owner.address, ...permit });
      if (applied.kind !== "done") throw new Error("not done");
      expect(applied.permit.approval).to.equal(77n);
      expect(await account()).to.include({ approval: 77n, permitNonce: 1n });
      const again = await service.client.permit({ token, owner: owner.address, ...permit });
      expect(again.kind === "done" && again.permit.approval).to.equal(77n);
    });

    it("refuses a permit that the owner did not sign, one past its deadline, and an unknown token", async () => {
      const owner = await world.payer(FUNDS);
      const token = world.contracts.token;
      const forged = { ...(await world.permit(owner, 5n)), value: "6" };
      expectRefused(await service.client.permit({ token, owner: owner.address, ...forged }), "InvalidSignature");
      const late = await world.permit(owner, 5n, 1n);
      expectRefused(await service.client.permit({ token, owner: owner.address, ...late }), "SignatureExpired");
      const permit = await world.permit(owner, 5n);
      const elsewhere = { token: owner.address, owner: owner.address, ...permit };
      expectRefused(await service.client.permit(elsewhere), "PaymentNotAllowed");
    });
  });

  describe("when the paid period is over", () => {
    it("A38 a plan change when the period is over collects the due renewal first, in one transaction", async () => {
      const { subscriber, idHash } = await subscribed();
      const planId = await world.plan({ amount: 2n * PRICE });
      await world.chain.advance(INTERVAL_SEC + DAY_SEC);
      await until(
        async () => (await record(idHash)).chainTimeSec > (await record(idHash)).paidThrough,
        "the chain's time is seen",
      );
      const before = await world.balanceOf(subscriber.address);
      const fields = { idHash, newPlanId: planId, maxOverage: 0n, maxCharge: 2n * PRICE };
      const request = await world.change("plan", subscriber, fields);
      const changed = done(await service.client.change({ idHash, act: "plan", request }));
      const paid = before - (await world.balanceOf(subscriber.address));
      // The renewal at the old price, then the new price less the credit for 29 of its 30 days.
      expect(Number(paid)).to.be.closeTo(Number(PRICE + 2n * PRICE - (PRICE * 29n) / 30n), Number(PRICE) / 1_000);
      const receipt = await world.chain.provider.getTransactionReceipt(changed.transaction);
      expect(receipt?.logs.filter((log) => log.address === world.contracts.turnpike)).to.have.length(2);
    });

    it("A38 pausing is refused until the renewal is collected", async () => {
      const { subscriber, idHash } = await subscribed();
      await world.chain.advance(INTERVAL_SEC);
      const request = await world.change("pause", subscriber, { idHash });
      const error = expectRefused(await service.client.change({ idHash, act: "pause", request }), "RenewalDue");
      expect(error.retryable).to.equal(true);
    });
  });

  describe("when the chain is slower than the answer", () => {
    it("B7 says pending, and the same request posted again gets the outcome of the same transaction", async () => {
      await service.stop();
      const hasty = await world.service({ RENEWALS: "false", AUTHORIZE_WAIT_MS: "0" });
      const subscriber = await world.payer(FUNDS);
      const { idHash, request } = await world.signup(subscriber, { permit: FUNDS });
      expect(await hasty.client.subscribe(request)).to.deep.equal({ kind: "pending", id: idHash, retryAfterSec: 1 });
      const change = await until(async () => {
        const outcome = await hasty.client.subscribe(request);
        return outcome.kind === "done" && outcome.change;
      }, "the signup is in");
      expect(change).to.include({ idHash, status: "ACTIVE" });
      expect(await world.balanceOf(subscriber.address)).to.equal(FUNDS - PRICE);
      await hasty.stop();
    });
  });

  describe("limits", () => {
    it("B13 submits no more acts of one account within an hour than is set", async () => {
      await service.stop();
      const limited = await world.service({ RENEWALS: "false", ACTS_PER_HOUR: "2" });
      const subscriber = await world.payer(FUNDS);
      const { idHash, request } = await world.signup(subscriber, { permit: FUNDS });
      done(await limited.client.subscribe(request));
      const pause = await world.change("pause", subscriber, { idHash });
      done(await limited.client.change({ idHash, act: "pause", request: pause }));
      const resume = await world.change("resume", subscriber, { idHash, version: 1, maxCharge: 0n });
      const over = await limited.client.change({ idHash, act: "resume", request: resume }).catch((error) => error);
      expect(over).to.include({ code: "Unavailable" });
      expect(over.cause).to.include({ code: "RateLimited" });
      // What was done is still reported.
      done(await limited.client.change({ idHash, act: "pause", request: pause }));
      await limited.stop();
    });

    it("B13 cancels at once beyond that limit: no account is kept in what it would leave", async () => {
      const limited = await world.service({ RENEWALS: "false", ACTS_PER_HOUR: "1" });
      const subscriber = await world.payer(FUNDS);
      const { idHash, request } = await world.signup(subscriber, { permit: FUNDS });
      done(await limited.client.subscribe(request));
      const later = await world.change("cancel", subscriber, { idHash, atPeriodEnd: true });
      const over = await limited.client.change({ idHash, act: "cancel", request: later }).catch((error) => error);
      expect(over.cause).to.include({ code: "RateLimited" });
      const now = await world.change("cancel", subscriber, { idHash, atPeriodEnd: false });
      const change = done(await limited.client.change({ idHash, act: "cancel", request: now }));
      expect(change).to.include({ idHash, status: "CANCELLED" });
      await limited.stop();
    });

    for (const act of ["cancel", "pause"] as const)
      it(`B13 submits few of many signatures for one ${act}, sent at once: the others would only burn the relayer's gas`, async () => {
        const limited = await world.service({ RENEWALS: "false", ACTS_PER_HOUR: "3" });
        const subscriber = await world.payer(FUNDS);
        const { idHash, request } = await world.signup(subscriber, { permit: FUNDS });
        done(await limited.client.subscribe(request));
        const from = await world.chain.provider.getBlockNumber();
        const soon = BigInt(await world.nowSec()) + 6_000n;
        const signatures = await Promise.all(
          Array.from({ length: 12 }, (_, n) =>
            world.change(act, subscriber, {
              idHash,
              deadline: soon + BigInt(n),
              ...(act === "cancel" && { atPeriodEnd: false }),
            } as never),
          ),
        );
        await Promise.all(
          signatures.map((one) => limited.client.change({ idHash, act, request: one as never }).catch(() => undefined)),
        );
        await until(async () => {
          const found = await limited.client.subscription(idHash);
          return found.kind === "found" && ["CANCELLED", "PAUSED"].includes(found.value.status);
        }, "it is done");
        const to = await world.chain.provider.getBlockNumber();
        let sent = 0;
        for (let number = from + 1; number <= to; number++) {
          const block = await world.chain.provider.getBlock(number, true);
          sent += (block?.prefetchedTransactions ?? []).filter((tx) => tx.to === world.contracts.turnpike).length;
        }
        expect(sent).to.be.within(1, 3);
        await limited.stop();
      });
  });
});
