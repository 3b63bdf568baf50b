import { expect } from "chai";
import type { Readiness } from "turnpike/facilitator";
import { type Address, type Hex, randomRef, type SignedPayment } from "turnpike/protocol";
import { BLOCK_MS, until } from "../../support/facilitator";
import { startPostgres, type TestPostgres } from "../../support/postgres";
import { CHAIN_A, CHAIN_B, NETWORK_A, NETWORK_B, startTwoChains, type TwoChains } from "../support/chains";
import { paymentToWire } from "../support/payments";
import { buildProgram, type Program, type ServiceProcess } from "../support/processes";
import { INTERVAL_SEC, type ServiceWorld } from "../support/service";

const PATIENCE_MS = 120_000;

const workersOf = (network: string): string =>
  ["relayer", "indexer", "renewals", "webhooks"].map((role) => `${role}:${network}`).join();

/** An API for two chains, and a process for the work of each. */
describe("Facilitator: processes by chain and role", function () {
  this.timeout(600_000);
  let postgres: TestPostgres;
  let chains: TwoChains;
  let a: ServiceWorld;
  let b: ServiceWorld;
  let program: Program;
  let api: ServiceProcess;
  let ofA: ServiceProcess;
  let ofB: ServiceProcess;
  const running = new Set<ServiceProcess>();

  before(async () => {
    postgres = await startPostgres();
    chains = await startTwoChains(postgres, BLOCK_MS, { own: true });
    ({ a, b } = chains);
    program = buildProgram();
    api = await start("api");
    ofA = await startWorker(NETWORK_A);
    ofB = await startWorker(NETWORK_B);
  });
  after(async () => {
    for (const each of running) await each.kill();
    program?.remove();
    await chains?.stop();
    await postgres?.stop();
  });

  async function start(roles: string, env = chains.env()): Promise<ServiceProcess> {
    const started = await program.start(env, roles);
    running.add(started);
    return started;
  }
  /** It has the settings of its own chain alone, and no key that signs proofs. */
  function startWorker(network: string): Promise<ServiceProcess> {
    const others = network === NETWORK_A ? CHAIN_B : CHAIN_A;
    const env = Object.entries(chains.env()).filter(
      ([name]) => name !== "PROOF_KEY" && !name.startsWith(`LOCAL_${others}_`),
    );
    return start(workersOf(network), Object.fromEntries(env));
  }
  async function kill(one: ServiceProcess): Promise<void> {
    running.delete(one);
    await one.kill();
  }
  const outcomeOf = async (signed: SignedPayment): Promise<string> =>
    api.client.authorize(paymentToWire(signed)).then(
      ({ kind }) => kind,
      (error: { code: string }) => error.code,
    );
  const settled = (signed: SignedPayment) =>
    until(
      async (saw) => {
        const outcome = await outcomeOf(signed);
        return outcome === "settled" || saw(outcome);
      },
      "the payment is settled",
      PATIENCE_MS,
    );
  async function failing(url = api.url): Promise<string[]> {
    const { checks } = (await (await fetch(`${url}/readyz`)).json()) as Readiness;
    return checks.filter(({ ok }) => !ok).map(({ name }) => name);
  }
  async function subscribed(world: ServiceWorld): Promise<Hex> {
    const signup = await world.signup(await world.payer(100_000_000n), { permit: 100_000_000n });
    await until(async () => (await api.client.subscribe(signup.request)).kind === "done", "the signup is done");
    return signup.idHash;
  }
  const paidThrough = async (idHash: Hex): Promise<number> => {
    const found = await api.client.subscription(idHash);
    return found.kind === "found" ? found.value.paidThrough : 0;
  };

  it("HD32 each process does the work of its chain, and knows nothing of the other one's", async () => {
    for (const world of [a, b]) await settled(await world.signPayment());
    expect(await failing()).to.deep.equal([]);
    for (const [one, own, other] of [
      [ofA, NETWORK_A, NETWORK_B],
      [ofB, NETWORK_B, NETWORK_A],
    ] as const) {
      const text = await (await fetch(`${one.url}/metrics`)).text();
      expect(text).to.match(new RegExp(`^turnpike_relayer_lane_well\\{[^}]*chain="${own}"`, "m"));
      expect(text).not.to.contain(other);
      expect((await fetch(`${one.url}/supported`)).status, "it has no API").to.equal(404);
    }
  });

  it("HD32 S1 S5 the process of one chain is killed: payments, renewals and subscribers of the other go on", async () => {
    const [onA, onB] = [await subscribed(a), await subscribed(b)];
    const before = { a: await paidThrough(onA), b: await paidThrough(onB) };
    const waiting = await b.signPayment({ validForSec: 3_600 });
    await kill(ofB);
    expect(["pending", "Unavailable"]).to.include(await outcomeOf(waiting));
    for (let count = 0; count < 3; count++) await settled(await a.signPayment());
    await a.chain.advance(INTERVAL_SEC);
    await until(async () => (await paidThrough(onA)) > before.a, "the subscription is renewed", PATIENCE_MS);
    await until(async () => (await failing()).length > 0, "the loss is reported", PATIENCE_MS);
    expect((await failing()).filter((name) => !name.startsWith(`${NETWORK_B}: `))).to.deep.equal([]);
    expect(["pending", "Unavailable"]).to.include(await outcomeOf(waiting));
    expect(await transfersOf(b, waiting)).to.equal(0);

    ofB = await startWorker(NETWORK_B);
    await settled(waiting);
    expect(await transfersOf(b, waiting)).to.equal(1);
    expect(await paidThrough(onB)).to.equal(before.b);
    await until(async () => (await failing()).length === 0, "everything is well", PATIENCE_MS);
  });

  it("HD32 S3 the API is killed: what it accepted is settled on each chain, and has its proof", async () => {
    const signed = [await a.signPayment({ validForSec: 3_600 }), await b.signPayment({ validForSec: 3_600 })];
    const asked = signed.map((each) => outcomeOf(each));
    for (const [place, world] of [a, b].entries())
      await until(
        async () => (await transfersOf(world, signed[place] as SignedPayment)) === 1,
        "the money has moved",
        PATIENCE_MS,
      );
    await kill(api);
    await Promise.all(asked);
    api = await start("api");
    for (const each of signed) await settled(each);
    for (const [place, world] of [a, b].entries())
      expect(await transfersOf(world, signed[place] as SignedPayment)).to.equal(1);
  });

  it("HD32 the node of one chain is frozen: its process waits, the other one is not slower, and it goes on afterwards", async () => {
    const waiting = await b.signPayment({ validForSec: 3_600 });
    b.chain.suspend();
    const during = outcomeOf(waiting);
    try {
      for (let count = 0; count < 3; count++) await settled(await a.signPayment());
      expect(["pending", "Unavailable"]).to.include(await during);
      await until(async () => (await failing()).length > 0, "the outage is reported", PATIENCE_MS);
      expect((await failing()).filter((name) => !name.startsWith(`${NETWORK_B}: `))).to.deep.equal([]);
      expect(await failing(ofA.url)).to.deep.equal([]);
    } finally {
      b.chain.resume();
    }
    await settled(waiting);
    expect(await transfersOf(b, waiting)).to.equal(1);
  });

  it("HD37 S4 the address of one chain's node leads to the other chain: its payment there proves nothing here", async () => {
    const payer = await a.payer();
    await b.payer(1_000_000n, payer.key);
    // Token, payee, amount and nonce are the same: only the chain differs.
    const fields = { payer, ref: randomRef(), validForSec: 3_600 };
    const [onA, onB] = [await a.signPayment(fields), await b.signPayment(fields)];
    chains.mislead(b);
    await settled(onA);
    expect(["pending", "Unavailable"]).to.include(await outcomeOf(onB));
    await until(async () => (await failing()).length > 0, "the wrong chain is reported", PATIENCE_MS);
    expect((await failing()).filter((name) => !name.startsWith(`${NETWORK_B}: `))).to.deep.equal([]);
    await settled(await a.signPayment());
    expect(["pending", "Unavailable"]).to.include(await outcomeOf(onB));
    expect(await transfersOf(b, onB)).to.equal(0);
    chains.restore(b);
    await settled(onB);
    expect(await transfersOf(b, onB)).to.equal(1);
    expect(await transfersOf(a, onA)).to.equal(1);
    await until(async () => (await failing()).length === 0, "everything is well", PATIENCE_MS);
  });

  async function transfersOf(world: ServiceWorld, { authorization }: SignedPayment): Promise<number> {
    const all = await world.transfers(authorization.to as Address);
    return all.filter(({ from }) => from === authorization.from).length;
  }
});
