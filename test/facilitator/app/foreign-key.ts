/** Somebody else has a relayer key, as docs/operators/keys.md says, with real processes on PostgreSQL. */
import { expect } from "chai";
import type { TransactionRequest } from "ethers";
import { type Address, addressOfKey, type Hex, type SignedPayment } from "turnpike/protocol";
import { testKey } from "../../support/chain";
import { fund, until, walletOf } from "../../support/facilitator";
import { startPostgres, type TestPostgres } from "../../support/postgres";
import { paymentToWire } from "../support/payments";
import { buildProgram, type Program, type ServiceProcess } from "../support/processes";
import { type ServiceWorld, startServiceWorld } from "../support/service";

const PATIENCE_MS = 120_000;
const BLOCK_MS = 100;
const GWEI = 10n ** 9n;
/** Higher than what the service pays, so that nodes replace its transactions; all of it is paid. */
const DEAR = { maxFeePerGas: 400n * GWEI, maxPriorityFeePerGas: 400n * GWEI, gasLimit: 200_000n };

describe("Facilitator: somebody else has a relayer key", function () {
  this.timeout(300_000);
  let leaked: Hex;
  let next: Hex;
  let keys = 0;
  let postgres: TestPostgres;
  let world: ServiceWorld;
  let program: Program;
  let running: ServiceProcess | undefined;

  before(async () => {
    postgres = await startPostgres();
    program = buildProgram();
  });
  beforeEach(async () => {
    world = await startServiceWorld({ postgres });
    [leaked, next] = [testKey(`leaked ${keys}`) as Hex, testKey(`next ${keys++}`) as Hex];
    for (const key of [leaked, next]) await fund(world.chain, addressOfKey(key));
    await restart([leaked]);
  });
  afterEach(async () => {
    await running?.kill();
    running = undefined;
    await world?.stop();
  });
  after(async () => {
    program?.remove();
    await postgres?.stop();
  });

  const env = (relayerKeys: readonly Hex[]): Record<string, string> =>
    world.env({ RELAYER_KEYS: relayerKeys.join(","), BATCH_ITEMS: "1" });

  async function restart(relayerKeys: readonly Hex[]): Promise<void> {
    await running?.stop();
    running = await program.start(env(relayerKeys));
  }

  const rpc = (method: string, params: unknown[] = []) => world.chain.provider.send(method, params);
  const mining = (isOn: boolean) => rpc("evm_setIntervalMining", [isOn ? BLOCK_MS : 0]);
  const pooled = async (): Promise<{ from: string; nonce: string; hash: Hex; to: Hex; input: Hex }[]> =>
    (await rpc("eth_getBlockByNumber", ["pending", true])).transactions;

  const post = (signed: SignedPayment) =>
    running?.client.authorize(paymentToWire(signed)).catch((error: { code?: string }) => error);

  const settled = (signed: SignedPayment): Promise<unknown> =>
    until(
      async (saw) => {
        const outcome = await post(signed);
        return outcome && "kind" in outcome && outcome.kind === "settled" ? outcome.proof : saw(outcome);
      },
      "the payment is settled",
      PATIENCE_MS,
    );

  /** Has payments sent, each in a transaction of its own, to a chain that mines none of them. */
  async function inFlight(count: number): Promise<SignedPayment[]> {
    const signed: SignedPayment[] = [];
    for (let i = 0; i < count; i++) signed.push(await world.signPayment({ validForSec: 3_600 }));
    await mining(false);
    for (const payment of signed) void post(payment);
    await until(async () => (await pooled()).length === count, "all are sent", PATIENCE_MS);
    return signed;
  }

  /** As the thief: sends with the key in the place of what the service has sent. */
  const steal = (nonce: number, request: TransactionRequest) =>
    walletOf(world.chain, leaked).sendTransaction({ ...DEAR, ...request, nonce });

  async function requireAlarm(): Promise<void> {
    await until(async () => running?.output().includes("somebody else uses its key"), "the alarm", PATIENCE_MS);
    const readyz = await fetch(`${running?.url}/readyz`);
    expect(readyz.status).to.equal(503);
    expect(await readyz.text()).to.match(/nonce \d+ was used by a transaction that is not ours/);
    expect(await post(await world.signPayment()), "nothing new is accepted").to.include({ code: "Unavailable" });
    const doctor = await program.run(["doctor"], env([leaked]));
    expect(doctor.stdout).to.match(/^fail RELAYER_KEYS 1: its lane has stopped: nonce \d+ was used by/m);
  }

  /** Puts the new key in the place of the leaked one. */
  async function replaceKey(signed: readonly SignedPayment[]): Promise<void> {
    await restart([next]);
    expect((await fetch(`${running?.url}/readyz`)).status, "it accepts payments again").to.equal(200);
    for (const payment of signed) await settled(payment);
    const last = await world.signPayment();
    await settled(last);
    const transfers = await world.transfers();
    expect(transfers.map(({ from }) => from)).to.have.members(
      [...signed, last].map(({ authorization }) => authorization.from),
    );
    const reconciled = await program.run(["reconcile"], env([next]));
    expect(reconciled.stdout).to.equal("database and chain agree\n");
  }

  it("HK2 it uses our nonces: the lane stops, and the new key sends what the thief displaced, once", async () => {
    const signed = await inFlight(4);
    const { address } = walletOf(world.chain, leaked);
    await steal(0, { to: address });
    await steal(2, { to: address });
    await mining(true);
    await requireAlarm();
    await replaceKey(signed);
  });

  it("HK2 it sends a payment's own transaction first, and takes the key's coins: the payment counts once", async () => {
    const signed = await inFlight(3);
    const [first, second] = (await pooled()).sort((a, b) => Number(a.nonce) - Number(b.nonce));
    await steal(0, { to: second?.to ?? null, data: second?.input ?? "0x", gasLimit: 1_000_000n });
    expect(first?.to).to.equal(second?.to);
    const { address } = walletOf(world.chain, leaked);
    const balance = await world.chain.provider.getBalance(address);
    const costs = DEAR.maxFeePerGas * 1_021_000n;
    await steal(1, { to: world.payee, value: balance - costs, gasLimit: 21_000n });
    await mining(true);
    await requireAlarm();
    await replaceKey(signed);
  });

  it("HK2 it takes the coins, and our nonces after the restart, too: the new key sends all of it", async () => {
    const signed = await inFlight(3);
    const { address } = walletOf(world.chain, leaked);
    const balance = await world.chain.provider.getBalance(address);
    const sent = (await pooled()).sort((a, b) => Number(b.nonce) - Number(a.nonce));
    await steal(0, { to: world.payee, value: balance - DEAR.maxFeePerGas * 21_000n, gasLimit: 21_000n });
    // Nodes drop what its sender cannot pay.
    for (const { hash } of sent.slice(0, 2)) await rpc("hardhat_dropTransaction", [hash]);
    await mining(true);
    await requireAlarm();
    await restart([next]);
    await fund(world.chain, address as Address);
    await steal(1, { to: address });
    await steal(2, { to: address });
    await replaceKey(signed);
  });
});
