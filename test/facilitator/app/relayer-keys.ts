import { expect } from "chai";
import { Transaction } from "ethers";
import { addressOfKey, type Hex, type SignedPayment } from "turnpike/protocol";
import { testKey } from "../../support/chain";
import { fund, until } from "../../support/facilitator";
import { startPostgres, type TestPostgres } from "../../support/postgres";
import { GROUPS } from "../chaos/support/faults";
import { type ChaosRpc, type RpcCall, startChaosRpc } from "../chaos/support/rpc";
import { copyDatabase } from "../support/backup";
import { paymentToWire } from "../support/payments";
import { buildProgram, type Program, type ServiceProcess } from "../support/processes";
import { type ServiceWorld, startServiceWorld } from "../support/service";

const PAYMENTS = 6;
const PATIENCE_MS = 120_000;
const BLOCK_MS = 100;

describe("Facilitator: relayer keys are replaced", function () {
  this.timeout(300_000);
  const keys = ["first", "second"].map((name) => testKey(`relayer key, ${name}`) as Hex) as [Hex, Hex];
  const [former, next] = keys;
  let postgres: TestPostgres;
  let world: ServiceWorld;
  let program: Program;
  let running: ServiceProcess | undefined;
  let url: string;
  let node: ChaosRpc;

  beforeEach(async () => {
    postgres = await startPostgres();
    world = await startServiceWorld({ postgres });
    program = buildProgram();
    for (const key of keys) await fund(world.chain, addressOfKey(key));
    node = await startChaosRpc(world.chain.rpcUrl);
    url = world.env().DATABASE_URL ?? "";
  });
  afterEach(async () => {
    await running?.kill();
    running = undefined;
    program?.remove();
    await node?.stop();
    await world?.stop();
    await postgres?.stop();
  });

  const env = (relayerKeys: readonly Hex[]): Record<string, string> =>
    world.env({ DATABASE_URL: url, RELAYER_KEYS: relayerKeys.join(",") });

  /** Stops what runs, as an operator does, and starts it with these keys. */
  async function restart(relayerKeys: readonly Hex[]): Promise<void> {
    await running?.stop();
    running = await program.start(env(relayerKeys));
  }

  const mining = (blockMs: number): Promise<unknown> =>
    world.chain.provider.send("evm_setIntervalMining", [blockMs]).then(() => undefined);

  const pooled = async (): Promise<number> =>
    (await world.chain.provider.send("eth_getBlockByNumber", ["pending", false])).transactions.length;

  async function signPayments(): Promise<[SignedPayment, ...SignedPayment[]]> {
    const signed: [SignedPayment, ...SignedPayment[]] = [await world.signPayment({ validForSec: 3_600 })];
    while (signed.length < PAYMENTS) signed.push(await world.signPayment({ validForSec: 3_600 }));
    return signed;
  }

  /** Has payments sent to a chain that mines none of them. */
  async function inFlight(): Promise<SignedPayment[]> {
    const signed = await signPayments();
    await mining(0);
    for (const payment of signed) void running?.client.authorize(paymentToWire(payment)).catch(() => undefined);
    await until(async () => (await pooled()) > 0, "something is sent", PATIENCE_MS);
    return signed;
  }

  const settled = (signed: SignedPayment): Promise<unknown> =>
    until(
      async (saw) => {
        const outcome = await running?.client.authorize(paymentToWire(signed)).catch(saw);
        return outcome?.kind === "settled" ? outcome.proof : saw(outcome);
      },
      "the payment is settled",
      PATIENCE_MS,
    );

  /** The senders of all payments' transactions, each payment once. */
  async function senders(signed: readonly SignedPayment[]): Promise<Set<string>> {
    const transfers = await world.transfers();
    const payers = transfers.map(({ from }) => from);
    expect(new Set(payers).size, "each payer once").to.equal(payers.length);
    expect(payers).to.have.members(signed.map(({ authorization }) => authorization.from));
    const sent = await Promise.all(
      transfers.map(async ({ transaction }) => (await world.chain.provider.getTransaction(transaction))?.from ?? ""),
    );
    return new Set(sent);
  }

  /** What the metrics say of a key's transactions that are not mined. */
  async function unmined(key: Hex): Promise<number> {
    const text = await (await fetch(`${running?.url}/metrics`)).text();
    const lines = text.split("\n").filter((line) => line.startsWith("turnpike_relayer_transactions{"));
    const ours = lines.filter((line) => line.includes(addressOfKey(key)));
    expect(ours, text).to.have.length(2);
    return ours.reduce((sum, line) => sum + Number(line.split(" ").at(-1)), 0);
  }

  it("HD13 S5 a relayer key is rotated while payments are in flight: each settles once, and the key ends unused", async () => {
    await restart([former]);
    const sent = await inFlight();
    await restart([former, next]);
    await mining(BLOCK_MS);
    for (const payment of sent) await settled(payment);
    const late = await inFlight();
    await mining(BLOCK_MS);
    await until(async () => (await unmined(former)) === 0, "nothing of the former key is in flight", PATIENCE_MS);
    await restart([next]);
    for (const payment of late) await settled(payment);
    const last = await world.signPayment();
    await settled(last);
    expect(await senders([...sent, ...late, last])).to.include(addressOfKey(next));
    const doctor = await program.run(["doctor"], env([next]));
    expect(doctor.stdout).not.to.match(/^fail/m);
    expect(doctor.stdout).not.to.include(addressOfKey(former));
  });

  it("HD13 S5 a key that is lost while its payments are in flight: what it has signed settles once, and others go on", async () => {
    running = await program.start({ ...env([former]), RPC_URLS: node.url, AUTHORIZE_WAIT_MS: "1000" });
    const [first, ...later] = await signPayments();
    const post = (signed: SignedPayment) => running?.client.authorize(paymentToWire(signed)).catch(() => undefined);
    const strikes = (call: RpcCall) => GROUPS.broadcast(call) && Transaction.from(String(call.params[0])).nonce > 0;
    node.set({ name: "lost", strikes, act: { kind: "drop", when: "before" } });
    await mining(0);
    await until(async () => (await post(first)) && (await pooled()) > 0, "the first one is sent", PATIENCE_MS);
    await until(
      async () => {
        await Promise.all(later.map(post));
        return (node.struck()[0] ?? 0) > 0;
      },
      "the next transaction is stored, and no node gets it",
      PATIENCE_MS,
    );
    await running.kill();
    running = await program.start(env([next]));
    await mining(BLOCK_MS);
    for (const payment of [first, ...later]) await settled(payment);
    const last = await world.signPayment();
    await settled(last);
    expect(await senders([first, ...later, last])).to.deep.equal(new Set(keys.map(addressOfKey)));
  });

  it("HD14 S5 an old backup is restored onto new keys: nothing is sent twice, and it goes on without the former key", async () => {
    await restart([former]);
    const before = await world.signPayment({ validForSec: 3_600 });
    await settled(before);
    const sent = await inFlight();
    await running?.kill();
    const backup = await copyDatabase(postgres, url);
    // What the lost database did: it settled what the backup has as sent, and more.
    await mining(BLOCK_MS);
    await restart([former]);
    for (const payment of sent) await settled(payment);
    const unknown = await world.signPayment({ validForSec: 3_600 });
    await settled(unknown);
    await running?.kill();
    url = backup;
    await restart([next]);
    for (const payment of [before, ...sent, unknown]) await settled(payment);
    const last = await world.signPayment();
    await settled(last);
    await senders([before, ...sent, unknown, last]);
    expect((await fetch(`${running?.url}/readyz`)).status).to.equal(200);
  });
});
