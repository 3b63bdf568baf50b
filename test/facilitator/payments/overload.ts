import { expect } from "chai";
import { Client } from "pg";
import type { Address, SignedPayment } from "turnpike/protocol";
import { until } from "../../support/facilitator";
import { startPostgres, type TestPostgres } from "../../support/postgres";
import { startChaosRpc } from "../chaos/support/rpc";
import { paymentToWire } from "../support/payments";
import { type Service, type ServiceWorld, startServiceWorld } from "../support/service";

const MAX_INTAKE = 3;

/** A node that holds every question about payers until it is released. */
async function startHoldingNode(target: string) {
  let release: (() => void) | undefined;
  let held = new Promise<void>(() => undefined);
  let holds = 0;
  const node = await startChaosRpc(target);
  return {
    url: node.url,
    stop: node.stop,
    holds: () => holds,
    hold() {
      holds = 0;
      held = new Promise((resolve) => {
        release = resolve;
      });
      const respond = async (_: unknown, honest: unknown) => {
        holds += 1;
        await held;
        return honest;
      };
      node.set({ name: "held", strikes: ({ method }) => method === "eth_call", act: { kind: "lie", respond } });
    },
    release() {
      node.set();
      release?.();
    },
  };
}

describe("Facilitator: overload", function () {
  this.timeout(120_000);
  let world: ServiceWorld;
  let postgres: TestPostgres;
  let node: Awaited<ReturnType<typeof startHoldingNode>>;

  before(async () => {
    world = await startServiceWorld();
    postgres = await startPostgres();
    node = await startHoldingNode(world.chain.rpcUrl);
  });
  afterEach(() => node.release());
  after(async () => {
    await world?.stop();
    await postgres?.stop();
    await node?.stop();
  });

  const start = (more: Record<string, string>): Promise<Service> =>
    world.service({
      RPC_URLS: node.url,
      RENEWALS: "false",
      MAX_INTAKE: String(MAX_INTAKE),
      RPC_TIMEOUT_MS: "60000",
      ...more,
    });

  const post = (service: Service, signed: SignedPayment): Promise<Response> =>
    fetch(`${service.url}/authorize`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ signedPayment: paymentToWire(signed) }),
    });

  async function expectBusy(response: Response): Promise<void> {
    expect(response.status).to.equal(503);
    expect(Number(response.headers.get("retry-after"))).to.be.greaterThan(0);
    expect(await response.json()).to.include({ code: "Unavailable" });
  }

  it("B14 answers 503 and a time to come again once too many wait to be judged, and takes all in afterwards", async () => {
    const service = await start({});
    const refusedCount = 3;
    const payments = await Promise.all(Array.from({ length: MAX_INTAKE + refusedCount }, () => world.signPayment()));
    node.hold();
    const answered: { signed: SignedPayment; response: Response }[] = [];
    const all = payments.map(async (signed) => answered.push({ signed, response: await post(service, signed) }));
    // The others wait for the node, which is held: an answered request was refused.
    await until(async () => answered.length >= refusedCount, "those beyond the bound are answered");
    const refused = answered.slice();
    expect(refused).to.have.length(refusedCount);
    for (const { response } of refused) await expectBusy(response);
    node.release();
    await Promise.all(all);
    for (const { response } of answered.slice(refusedCount)) expect(response.status).to.equal(200);
    // Nothing of the refused ones was kept: they are judged again, and paid once.
    for (const { signed } of refused) expect((await post(service, signed)).status).to.equal(200);
    const paid = (await world.transfers()).map(({ from }) => from).sort();
    expect(paid).to.deep.equal(payments.map(({ authorization }) => authorization.from).sort());
    await service.stop();
  });

  it("B14 answers a payment that it has accepted, while new ones are refused", async () => {
    const service = await start({});
    const accepted = await world.signPayment();
    expect((await post(service, accepted)).status).to.equal(200);
    const waiting = await Promise.all(Array.from({ length: MAX_INTAKE }, () => world.signPayment()));
    node.hold();
    const all = waiting.map((signed) => post(service, signed));
    await until(async () => node.holds() > 0, "they are being judged");
    const fresh = await world.signPayment();
    await until(async () => (await post(service, fresh)).status === 503, "a new one is refused");
    expect((await post(service, accepted)).status).to.equal(200);
    node.release();
    for (const response of await Promise.all(all)) expect(response.status).to.equal(200);
    await service.stop();
  });

  it("B14 answers 503 once one waits too long, however few they are", async () => {
    const service = await start({ MAX_INTAKE: "1000", MAX_QUEUE_AGE_MS: "200" });
    node.hold();
    const answered: Response[] = [];
    const all: Promise<unknown>[] = [];
    const refused = await until(async () => {
      all.push(post(service, await world.signPayment()).then((response) => answered.push(response)));
      return answered[0];
    }, "new payments are refused");
    await expectBusy(refused);
    const before = answered.length;
    node.release();
    await Promise.all(all);
    expect(answered.slice(before).map(({ status }) => status)).to.include(200);
    const signed = await world.signPayment();
    await until(async () => (await post(service, signed)).status === 200, "new payments are accepted again");
    await service.stop();
  });

  /** Sends payments while the node is held, and returns those that are refused. The others wait. */
  async function flood(service: Service, payments: readonly SignedPayment[], refusedCount: number) {
    const answered: Response[] = [];
    const all = payments.map((signed) => post(service, signed).then((response) => answered.push(response)));
    await until(async () => answered.length >= refusedCount, "those beyond the share are answered");
    return { answered: answered.slice(), all };
  }

  it("B26 a flood of one payer leaves places for another payer of the same provider", async () => {
    const service = await start({ MAX_INTAKE: "8" });
    const greedy = await world.payer(10n ** 9n);
    const payments = await Promise.all(Array.from({ length: 20 }, () => world.signPayment({ payer: greedy })));
    node.hold();
    const { answered, all } = await flood(service, payments, 16);
    expect(answered).to.have.length(16);
    for (const response of answered) await expectBusy(response);
    const other = post(service, await world.signPayment());
    await until(async () => node.holds() >= 5, "the other payer's payment is judged");
    node.release();
    expect((await other).status).to.equal(200);
    await Promise.all(all);
    await service.stop();
  });

  it("B26 a flood for one provider, by payers of any number, leaves places for the payers of another", async () => {
    const service = await start({ MAX_INTAKE: "8" });
    const payments = await Promise.all(Array.from({ length: 20 }, () => world.signPayment()));
    node.hold();
    const { answered, all } = await flood(service, payments, 14);
    expect(answered).to.have.length(14);
    for (const response of answered) await expectBusy(response);
    const other = post(service, await world.signPayment({ payTo: world.provider.address as Address }));
    node.release();
    expect((await other).status).to.equal(200);
    await Promise.all(all);
    await service.stop();
  });

  it("B26 a payer or a provider whose payments wait for the chain leaves places in the queue for others", async () => {
    const rpc = world.chain.provider.send.bind(world.chain.provider);
    const DATABASE_URL = await postgres.database();
    const service = await start({
      DATABASE_URL,
      LANE_IN_FLIGHT: "1",
      MAX_INTAKE: "1000",
      MAX_QUEUE_AGE_MS: "200000",
      BUMP_AFTER_MS: "600000",
    });
    const greedy = { payer: await world.payer(10n ** 9n) };
    const flood = await Promise.all(Array.from({ length: 9 }, () => world.signPayment(greedy)));
    const others = await Promise.all(Array.from({ length: 2 }, () => world.signPayment()));
    const elsewhere = await world.signPayment({ payTo: world.provider.address as Address });
    const next = () => post(service, flood.pop() as SignedPayment);
    const database = new Client({ connectionString: DATABASE_URL });
    await database.connect();
    /** Waits until so many payments are queued, and has the oldest wait for so long. */
    const queue = (count: number, oldestSec: number) =>
      until(async () => {
        const { rowCount } = await database.query(
          `update payments set accepted_at_ms = (extract(epoch from clock_timestamp()) * 1000)::bigint - $1::bigint
            where state = 'queued'`,
          [oldestSec * 1_000],
        );
        const text = await (await fetch(`${service.url}/readyz`)).text();
        const [, seen] = /queued, oldest (\d+) s/.exec(text.slice(text.indexOf('"queue"'))) ?? [];
        return rowCount === count && Number(seen) >= oldestSec;
      }, `${count} are queued`);
    await rpc("evm_setIntervalMining", [0]);
    const answers = [next()];
    const isSent = async () => (await rpc("eth_getBlockByNumber", ["pending", false])).transactions.length > 0;
    await until(isSent, "the only slot is in use");
    for (let count = 0; count < 6; count++) answers.push(next());
    await queue(6, 110);
    await expectBusy(await next());
    answers.push(post(service, others[0] as SignedPayment));
    await queue(7, 160);
    await expectBusy(await post(service, others[1] as SignedPayment));
    answers.push(post(service, elsewhere));
    await queue(8, 160);
    await database.end();
    await rpc("evm_setIntervalMining", [100]);
    for (const response of await Promise.all(answers)) expect(response.status).to.equal(200);
    await service.stop();
  });
});
