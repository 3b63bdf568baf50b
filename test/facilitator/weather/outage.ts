/** A chain that makes no blocks for an hour or a day: what is accepted stays pending, and what fell due is collected on its return. */
import { expect } from "chai";
import { Contract } from "ethers";
import { lensInterface } from "turnpike/chain";
import { type Hex, isTurnpikeError, lensAddressOf, type SignedPayment } from "turnpike/protocol";
import type { Core } from "../../../facilitator/src/app/core";
import { type FacilitatorWorld, startWorld, until } from "../../support/facilitator";
import { paymentToWire } from "../support/payments";
import { DAY_SEC, INTERVAL_SEC, PRICE, type Service, type ServiceWorld, startServiceWorld } from "../support/service";

const HOUR_SEC = 3_600;
const FUNDS = 1_000_000_000n;
const BLOCK_MS = 200;

describe("chain weather: no blocks", function () {
  this.timeout(240_000);
  let world: ServiceWorld;
  let service: Service;

  beforeEach(async () => {
    world = await startServiceWorld({ blockMs: BLOCK_MS });
    service = await world.service({ BUMP_AFTER_MS: "1000", AUTHORIZE_WAIT_MS: "300", MAX_WINDOW_SEC: "172800" });
  });
  afterEach(() => world?.stop());

  const rpc = (method: string, params: unknown[] = []) => world.chain.provider.send(method, params);
  const mining = (isOn: boolean) => rpc("evm_setIntervalMining", [isOn ? BLOCK_MS : 0]);
  /** A client gets a 503 as an error. */
  const authorize = (signed: SignedPayment) =>
    service.client.authorize(paymentToWire(signed)).catch((error: unknown) => {
      if (isTurnpikeError(error) && error.code === "Unavailable") return { kind: "unavailable" } as const;
      throw error;
    });
  const isReady = async (): Promise<boolean> => (await fetch(`${service.url}/readyz`)).status === 200;

  async function subscriber(graceSec: number) {
    const planId = await world.plan({ graceSec });
    const payer = await world.payer(FUNDS);
    const { idHash, request } = await world.signup(payer, { planId, permit: FUNDS });
    const paidThrough = await until(async () => {
      const outcome = await service.client.subscribe(request);
      return outcome.kind === "done" && outcome.change.paidThrough;
    }, "it is subscribed");
    return { ...payer, idHash, paidThrough };
  }
  async function paidThrough(idHash: Hex): Promise<number> {
    const lens = new Contract(lensAddressOf(world.contracts.turnpike), lensInterface, world.chain.provider);
    return Number((await lens.getFunction("getSubscription")(idHash)).paidThrough);
  }

  for (const [id, name, awaySec] of [
    ["HG3", "an hour", HOUR_SEC],
    ["HG9", "a day", DAY_SEC],
  ] as const) {
    it(`${id} ${name}: payments are pending, the rest settles on return, what ran out moved nothing, and a renewal does not drift`, async () => {
      // Its grace is over when the chain is back.
      const due = await subscriber(60);
      await world.chain.advance(INTERVAL_SEC - 300);
      const payers = await Promise.all([world.payer(), world.payer(), world.payer(), world.payer()]);
      const sign = (index: number, validForSec: number) =>
        world.signPayment({ payer: payers[index] as never, validForSec });
      const long = [await sign(0, awaySec + HOUR_SEC), await sign(1, awaySec + HOUR_SEC)];
      const short = await sign(2, 300);
      const late = await sign(3, awaySec + HOUR_SEC);
      await mining(false);
      for (const one of [...long, short])
        await until(async () => (await authorize(one)).kind === "pending", "accepted");
      await until(async () => !(await isReady()), "the lane counts as stuck");
      expect((await authorize(late)).kind).to.equal("unavailable");
      for (const one of [...long, short]) expect((await authorize(one)).kind).to.equal("pending");

      await rpc("evm_increaseTime", [awaySec]);
      await mining(true);
      await until(async () => (await paidThrough(due.idHash)) === due.paidThrough + INTERVAL_SEC, "it is renewed");
      for (const one of long) await until(async () => (await authorize(one)).kind === "settled", "it settles");
      const failed = await until(async () => {
        const outcome = await authorize(short);
        return outcome.kind !== "pending" && outcome.kind !== "unavailable" && outcome;
      }, "its window is over for good");
      if (failed.kind === "settled") expect.fail("it was mined after its window");
      expect(JSON.stringify(failed)).to.contain("PaymentExpired");
      expect((await world.transfers()).filter(({ from }) => from === short.authorization.from)).to.deep.equal([]);
      await until(isReady, "it is well again");
      await until(async () => (await authorize(late)).kind === "settled", "new payments are accepted");
      expect(await world.balanceOf(due.address), "one period").to.equal(FUNDS - 2n * PRICE);
    });
  }
});

describe("chain weather: what is sent first", function () {
  this.timeout(120_000);
  let world: FacilitatorWorld;
  let core: Core;

  before(async () => {
    world = await startWorld({ blockMs: BLOCK_MS });
    core = await world.core({ LANE_IN_FLIGHT: "1", BUMP_AFTER_MS: "60000" });
  });
  after(() => world?.stop());

  it("HG4 renewals that wait leave before what was queued earlier", async () => {
    await world.chain.provider.send("evm_setIntervalMining", [0]);
    const submit = (purpose: string, idempotencyKey: string) =>
      core.relayer.submit({ purpose, idempotencyKey, to: world.contracts.token, data: "0x", gasLimit: 60_000n });
    const first = await submit("settle", "in flight");
    await until(async () => core.relayer.health().lanes[0]?.inFlight === 1, "the lane is full");
    const ids = [first, await submit("settle", "1"), await submit("debit", "2"), await submit("renew", "3")];
    await world.chain.provider.send("evm_setIntervalMining", [BLOCK_MS]);
    for (const id of ids) expect((await core.relayer.waitFor(id, 60_000)).kind).to.equal("mined");
    const rows = await core.store.db.selectFrom("transactions").select(["id", "nonce"]).execute();
    const nonces = new Map(rows.map(({ id, nonce }) => [id, nonce]));
    expect(ids.map((id) => nonces.get(id))).to.deep.equal([0, 2, 3, 1]);
  });
});
