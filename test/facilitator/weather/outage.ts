/** A chain that makes no blocks for an hour or a day: what is accepted stays pending, and what fell due is collected on its return. */
import { expect } from "chai";
import { Contract } from "ethers";
import { lensInterface } from "turnpike/chain";
import { type Hex, isTurnpikeError, lensAddressOf, type SignedPayment } from "turnpike/protocol";
import { until } from "../../support/facilitator";
import { paymentToWire } from "../support/payments";
import { DAY_SEC, INTERVAL_SEC, PRICE, type Service, type ServiceWorld, startServiceWorld } from "../support/service";

const HOUR_SEC = 3_600;
const GRACE_SEC = 60;
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
    it(`${id} ${name}: payments are pending, the rest settles on return, what ran out moved nothing, and a renewal is collected once`, async () => {
      // Its grace is over when the chain is back.
      const due = await subscriber(GRACE_SEC);
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
      // After grace a period starts one grace before the block that collects it.
      const after = await until(async () => {
        const through = await paidThrough(due.idHash);
        return through > due.paidThrough && through;
      }, "it is renewed");
      expect(after).to.be.closeTo(due.paidThrough - 300 + awaySec - GRACE_SEC + INTERVAL_SEC, 240);
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
