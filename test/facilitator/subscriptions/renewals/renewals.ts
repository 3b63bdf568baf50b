import { expect } from "chai";
import { Contract } from "ethers";
import { lensInterface, turnpikeInterface } from "turnpike/chain";
import type { FacilitatorEvent } from "turnpike/facilitator";
import { type Hex, lensAddressOf } from "turnpike/protocol";
import { type Payer, until } from "../../../support/facilitator";
import {
  DAY_SEC,
  GRACE_SEC,
  INTERVAL_SEC,
  PRICE,
  type Service,
  type ServiceWorld,
  startServiceWorld,
} from "../../support/service";

const FUNDS = 1_000_000_000n;

describe("Facilitator: renewals", function () {
  this.timeout(180_000);
  let world: ServiceWorld;
  let service: Service;
  let turnpike: Contract;
  let lens: Contract;

  beforeEach(async () => {
    world = await startServiceWorld();
    service = await world.service();
    turnpike = new Contract(world.contracts.turnpike, turnpikeInterface, world.chain.provider);
    lens = new Contract(lensAddressOf(world.contracts.turnpike), lensInterface, world.chain.provider);
  });
  afterEach(() => world.stop());

  interface Subscriber extends Payer {
    readonly idHash: Hex;
    readonly paidThrough: number;
  }
  async function subscriber(fields: { planId?: Hex; funds?: bigint; through?: Service } = {}): Promise<Subscriber> {
    const payer = await world.payer(fields.funds ?? FUNDS);
    const { idHash, request } = await world.signup(payer, {
      ...(fields.planId && { planId: fields.planId }),
      permit: FUNDS,
    });
    const outcome = await (fields.through ?? service).client.subscribe(request);
    if (outcome.kind !== "done") throw new Error(JSON.stringify(outcome));
    return { ...payer, idHash, paidThrough: outcome.change.paidThrough };
  }
  const paidThrough = async (idHash: Hex): Promise<number> =>
    Number((await lens.getFunction("getSubscription")(idHash)).paidThrough);
  const renewals = async (idHash: Hex): Promise<number> =>
    (await turnpike.queryFilter(turnpike.filters.Renewed?.(idHash) ?? "Renewed", 0)).length;
  const transactions = async (name: "Renewed" | "RenewalFailed"): Promise<Set<string>> =>
    new Set((await turnpike.queryFilter(name, 0)).map((log) => log.transactionHash));
  const events = async (subject: Hex, type: string): Promise<readonly FacilitatorEvent[]> => {
    const found = await service.client.events({ limit: 200 });
    return found.kind === "found" ? found.value.events.filter((e) => e.subject === subject && e.type === type) : [];
  };

  it("collects when the period is over without any client, and the next one, with no drift", async () => {
    const { idHash, address, paidThrough: first } = await subscriber();
    const received = await world.balanceOf(world.payee);
    await world.chain.advance(INTERVAL_SEC - 60);
    expect(await renewals(idHash)).to.equal(0);
    await world.chain.advance(60);
    await until(async () => (await paidThrough(idHash)) === first + INTERVAL_SEC, "the first renewal");
    expect(await world.balanceOf(world.payee)).to.equal(received + PRICE);
    await world.chain.advance(INTERVAL_SEC + DAY_SEC);
    await until(async () => (await paidThrough(idHash)) === first + 2 * INTERVAL_SEC, "the second renewal");
    expect(await world.balanceOf(address)).to.equal(FUNDS - 3n * PRICE);
    await until(async () => (await events(idHash, "subscription.renewed")).length === 2, "both are reported");
  });

  it("collects many in one transaction, and a poisoned one costs nobody else", async () => {
    const many: Subscriber[] = [];
    for (let i = 0; i < 5; i++) many.push(await subscriber());
    const poor = await subscriber({ funds: PRICE });
    await world.chain.advance(INTERVAL_SEC);
    await until(
      async () => (await Promise.all(many.map((s) => renewals(s.idHash)))).every((n) => n === 1),
      "all are renewed",
    );
    expect((await transactions("Renewed")).size).to.be.at.most(2);
    expect(await renewals(poor.idHash)).to.equal(0);
    expect((await transactions("RenewalFailed")).size, "gas is not spent on what fails in simulation").to.equal(0);
    const [failed] = await until(async () => {
      const found = await events(poor.idHash, "subscription.renewal_failed");
      return found.length > 0 && found;
    }, "the failure is reported");
    expect(failed?.data).to.include({ reason: "InsufficientFunds", attempt: 1, status: "ACTIVE" });
    expect(Number(failed?.data.nextAttemptAt)).to.be.closeTo(poor.paidThrough + 3_600, 60);
  });

  it("A35 tries again on schedule: a top-up within grace is collected and keeps the period's start", async () => {
    const { idHash, address, paidThrough: first } = await subscriber({ funds: PRICE });
    await world.chain.advance(INTERVAL_SEC);
    await until(async () => (await events(idHash, "subscription.renewal_failed")).length > 0, "the first failure");
    await world.contracts.mint(address, PRICE);
    await world.chain.advance(3_700);
    await until(async () => (await paidThrough(idHash)) === first + INTERVAL_SEC, "the renewal after the top-up");
  });

  it("A35 lapses without debt: past due, then expired, and nothing is collected afterwards", async () => {
    const { idHash, address } = await subscriber({ funds: PRICE });
    await world.chain.advance(INTERVAL_SEC);
    await until(async () => (await events(idHash, "subscription.renewal_failed")).length > 0, "the failure");
    await world.chain.advance(GRACE_SEC);
    await until(async () => (await events(idHash, "subscription.past_due")).length === 1, "past due is reported");
    await world.chain.advance(INTERVAL_SEC);
    await until(async () => (await events(idHash, "subscription.expired")).length === 1, "expiry is reported");
    await world.contracts.mint(address, FUNDS);
    await world.chain.advance(DAY_SEC);
    const head = (await world.chain.provider.getBlockNumber()) + 10;
    await until(async () => (await world.chain.provider.getBlockNumber()) >= head, "ten more blocks");
    expect(await renewals(idHash)).to.equal(0);
    expect(await world.balanceOf(address)).to.equal(FUNDS);
  });

  it("B17 two schedulers with keys and databases of their own: one charge per period", async () => {
    const { idHash, address, paidThrough: first } = await subscriber();
    await world.loseDatabase();
    const { Wallet } = await import("ethers");
    const second = Wallet.createRandom();
    await world.chain.provider.send("hardhat_setBalance", [second.address, "0x3635c9adc5dea00000"]);
    await world.service({ RELAYER_KEYS: second.privateKey });
    for (let period = 1; period <= 3; period++) {
      await world.chain.advance(INTERVAL_SEC);
      await until(async () => (await paidThrough(idHash)) === first + period * INTERVAL_SEC, `renewal ${period}`);
    }
    expect(await renewals(idHash)).to.equal(3);
    expect(await world.balanceOf(address)).to.equal(FUNDS - 4n * PRICE);
  });

  it("S5 a restart in the middle charges nothing twice and goes on", async () => {
    const { idHash, address, paidThrough: first } = await subscriber();
    await service.stop();
    await world.chain.advance(INTERVAL_SEC);
    service = await world.service();
    await until(async () => (await paidThrough(idHash)) === first + INTERVAL_SEC, "the renewal after the restart");
    await service.stop();
    service = await world.service();
    await world.chain.advance(DAY_SEC);
    const head = (await world.chain.provider.getBlockNumber()) + 10;
    await until(async () => (await world.chain.provider.getBlockNumber()) >= head, "ten more blocks");
    expect(await world.balanceOf(address)).to.equal(FUNDS - 2n * PRICE);
  });

  it("leaves alone what was paused or cancelled", async () => {
    const paused = await subscriber();
    const ended = await subscriber();
    const live = await subscriber();
    const pause = await world.change("pause", paused, { idHash: paused.idHash });
    await service.client.change({ idHash: paused.idHash, act: "pause", request: pause });
    const cancel = await world.change("cancel", ended, { idHash: ended.idHash, atPeriodEnd: true });
    await service.client.change({ idHash: ended.idHash, act: "cancel", request: cancel });
    await world.chain.advance(INTERVAL_SEC);
    await until(async () => (await renewals(live.idHash)) === 1, "the live one is renewed");
    expect(await renewals(paused.idHash)).to.equal(0);
    expect(await renewals(ended.idHash)).to.equal(0);
    expect(await events(paused.idHash, "subscription.renewal_failed")).to.have.length(0);
  });

  it("warns three days and one day before, once each, of exactly what all renewals of the payer will lack", async () => {
    // Two first periods, and one more.
    const payer = await world.payer(3n * PRICE);
    const idHashes: Hex[] = [];
    for (const _ of [1, 2]) {
      const { idHash, request } = await world.signup(payer, { permit: FUNDS });
      const outcome = await service.client.subscribe(request);
      if (outcome.kind !== "done") throw new Error(JSON.stringify(outcome));
      idHashes.push(idHash);
    }
    const rich = await subscriber();
    await world.chain.advance(INTERVAL_SEC - 3 * DAY_SEC + 60);
    const warned = await until(async () => {
      const found = await events(idHashes[0] as Hex, "subscription.renewal_at_risk");
      return found.length > 0 && found;
    }, "the warning three days before");
    expect(warned).to.have.length(1);
    expect(warned[0]?.data).to.include({
      horizonSec: 3 * DAY_SEC,
      renewals: 2,
      required: String(2n * PRICE),
      balance: String(PRICE),
      missingFunds: String(PRICE),
      missingApproval: "0",
    });
    await world.chain.advance(2 * DAY_SEC);
    await until(
      async () => (await events(idHashes[1] as Hex, "subscription.renewal_at_risk")).length === 2,
      "the warning one day before",
    );
    expect(await events(rich.idHash, "subscription.renewal_at_risk")).to.have.length(0);
  });
});
