/**
 * One provider, or one payer, offers ten times what the others do, and more than a small service can take. The test makes
 * the blocks, so that the capacity is counted in blocks and not in time.
 */
import { expect } from "chai";
import { type Address, addressOfKey, type Hex, type SignedPayment } from "turnpike/protocol";
import { testKey } from "../../support/chain";
import { type Payer, until } from "../../support/facilitator";
import { paymentToWire } from "../support/payments";
import { type Service, type ServiceWorld, startServiceWorld } from "../support/service";

const QUIET = 4;
const FLOOD = QUIET * 10;
const ROUNDS = 4;
const FUNDS = 10n ** 9n;
const BATCH = 4;
/** Ten blocks of four payments: the queue is full with 40. */
const PLACES = 40;
const SMALL = {
  RENEWALS: "false",
  LANE_IN_FLIGHT: "1",
  BATCH_ITEMS: String(BATCH),
  BLOCK_TIME_MS: "12000",
  MAX_QUEUE_AGE_MS: "120000",
  BUMP_AFTER_MS: "600000",
  MAX_INTAKE: "1000",
  AUTHORIZE_WAIT_MS: "1",
};

interface Posted {
  readonly signed: SignedPayment;
  readonly isAdmitted: boolean;
}

describe("Facilitator: fairness under overload", function () {
  this.timeout(300_000);
  let world: ServiceWorld;
  let service: Service;

  beforeEach(async () => {
    world = await startServiceWorld();
    service = await world.service(SMALL);
  });
  afterEach(() => world?.stop());

  const rpc = (method: string, params: unknown[] = []) => world.chain.provider.send(method, params);
  const providerOf = (name: string): Address => addressOfKey(testKey(`provider ${name}`) as Hex);

  /** @returns whether it is admitted; a refusal says when to come again */
  async function post(signed: SignedPayment): Promise<number> {
    const response = await fetch(`${service.url}/authorize`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ signedPayment: paymentToWire(signed) }),
    });
    if (response.status !== 200) expect(Number(response.headers.get("retry-after"))).to.be.greaterThan(0);
    if (response.status === 503) expect(await response.json()).to.include({ code: "Unavailable", reason: "busy" });
    return response.status;
  }

  async function offer(payer: Payer, payTo: Address): Promise<Posted> {
    const signed = await world.signPayment({ payer, payTo, validForSec: 3_600 });
    const status = await post(signed);
    expect(status).to.be.oneOf([200, 202, 503]);
    return { signed, isAdmitted: status !== 503 };
  }

  /** Makes blocks of what is sent, until `look` is content. @returns how many */
  async function mineUntil(look: () => Promise<boolean>): Promise<number> {
    const isSent = async () => (await rpc("eth_getBlockByNumber", ["pending", false])).transactions.length > 0;
    for (let blocks = 0; ; blocks++) {
      const next = await until(async () => ((await look()) ? "done" : (await isSent()) && "mine"), "a batch is sent");
      if (next === "done") return blocks;
      await rpc("evm_mine");
    }
  }

  const areSettled = async (posted: readonly Posted[]): Promise<boolean> => {
    const statuses = await Promise.all(posted.filter(({ isAdmitted }) => isAdmitted).map(({ signed }) => post(signed)));
    return statuses.every((status) => status === 200);
  };

  /** Offers the flood first, then the quiet payers' payments, and makes a few blocks, again and again. */
  async function overload(flooders: readonly Payer[], floodedOf: (index: number) => Address) {
    const payers = await Promise.all(Array.from({ length: QUIET }, () => world.payer(FUNDS)));
    await rpc("evm_setIntervalMining", [0]);
    const flood: Posted[] = [];
    const quiet: Posted[] = [];
    const blocks: number[] = [];
    for (let round = 0; round < ROUNDS; round++) {
      flood.push(
        ...(await Promise.all(
          Array.from({ length: FLOOD }, (_, index) =>
            offer(flooders[index % flooders.length] as Payer, floodedOf(index)),
          ),
        )),
      );
      const now = await Promise.all(payers.map((payer, index) => offer(payer, providerOf(`quiet ${index}`))));
      quiet.push(...now);
      blocks.push(await mineUntil(() => areSettled(now)));
    }
    await mineUntil(() => areSettled(flood));
    return { flood, quiet, blocks };
  }

  function requireFair({ flood, quiet, blocks }: Awaited<ReturnType<typeof overload>>, greedyPlaces: number): void {
    expect(quiet.filter(({ isAdmitted }) => !isAdmitted).length, "quiet payments that are refused").to.equal(0);
    const admitted = flood.filter(({ isAdmitted }) => isAdmitted).length;
    expect(admitted, "the flood is served, too").to.be.greaterThan(ROUNDS * BATCH);
    const left = blocks.reduce((sum, count) => sum + count * BATCH, 0);
    expect(admitted, "no more than its places and what has left").to.be.at.most(greedyPlaces + left + BATCH);
    for (const count of blocks)
      expect(count, "blocks until the quiet payers are served").to.be.at.most(PLACES / BATCH + 2);
  }

  async function requireOnce({ flood, quiet }: { flood: readonly Posted[]; quiet: readonly Posted[] }): Promise<void> {
    const admitted = [...flood, ...quiet].filter(({ isAdmitted }) => isAdmitted);
    const payees = new Set(admitted.map(({ signed }) => signed.authorization.to));
    const moved = await Promise.all([...payees].map((payee) => world.transfers(payee)));
    expect(moved.flat().length, "each admitted payment once, and no refused one").to.equal(admitted.length);
  }

  it("B26 one provider is offered ten times what the others are: it gets three quarters of the queue, and nobody else is refused", async () => {
    const flooders = await Promise.all(Array.from({ length: FLOOD }, () => world.payer(FUNDS)));
    const offered = await overload(flooders, () => providerOf("flooded"));
    requireFair(offered, (PLACES * 3) / 4);
    await requireOnce(offered);
  });

  it("B26 one payer offers ten times what the others do, to their providers: it gets half of the queue, and nobody else is refused", async () => {
    const flooder = await world.payer(FUNDS);
    const offered = await overload([flooder], (index) => providerOf(`quiet ${index % QUIET}`));
    requireFair(offered, PLACES / 2);
    await requireOnce(offered);
    const refused = offered.flood.filter(({ isAdmitted }) => !isAdmitted).map(({ signed }) => signed);
    expect(refused.length, "what is refused").to.be.greaterThan(0);
    // Presented again afterwards, the same payment settles.
    const late = refused[0] as SignedPayment;
    expect(await post(late)).to.be.oneOf([200, 202]);
    await mineUntil(() => areSettled([{ signed: late, isAdmitted: true }]));
  });
});
