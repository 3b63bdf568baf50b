import { expect } from "chai";
import { Client } from "pg";
import type { X402Verdict } from "turnpike/facilitator";
import { type Address, type Hex, randomBytes, randomRef, type SignedPayment, toHex } from "turnpike/protocol";
import { openStore, type Store } from "../../../facilitator/src/db/open";
import type { ExactRequest } from "../../../facilitator/src/payments";
import { balanceOf } from "../../../facilitator/src/payments/balance-locks";
import { requestOf } from "../../../facilitator/src/payments/payment-request";
import { createReservations, MAX_LIVE_RESERVATIONS } from "../../../facilitator/src/payments/reservations";
import {
  BLOCK_MS,
  type FacilitatorWorld,
  fund,
  type Payer,
  RESOURCE,
  startWorld,
  until,
  walletOf,
} from "../../support/facilitator";
import { authorizeAndDrain, paymentToWire, settleBody } from "../support/payments";
import type { ServiceProcess } from "../support/processes";
import { startTwoProcesses, type TwoProcesses } from "../support/two-processes";

const fresh = (): Hex => toHex(randomBytes(32));
const PRICE = 250_000n;
const SHORT = "invalid_exact_evm_insufficient_balance";
const TAKEN = "payment_already_granted";

interface Purchase {
  readonly request: ExactRequest;
  readonly grantId: Hex;
}

/** A payment whose nonce names its purchase, presented as a standard payload. */
const exactOf = (signed: SignedPayment, like: ExactRequest): ExactRequest => ({
  ...like,
  authorization: signed.authorization,
  signature: signed.signature as Hex,
  payTo: signed.authorization.to as Address,
  amount: signed.authorization.value,
});

/** A gate verifies, runs its handler, and settles afterwards, at either of the processes. */
describe("Facilitator: reservations, by two processes on one PostgreSQL", function () {
  this.timeout(180_000);
  let processes: TwoProcesses;
  let world: FacilitatorWorld;
  let settings: TwoProcesses["settings"];
  let one: ServiceProcess;
  let two: ServiceProcess;
  let database: Client;
  let store: Store;

  before(async () => {
    processes = await startTwoProcesses("reserving");
    ({ world, settings, one, two } = processes);
    database = new Client({ connectionString: settings.DATABASE_URL });
    await database.connect();
    store = await openStore(world.config(settings).database);
  });
  after(async () => {
    await store?.close();
    await database?.end();
    await processes?.stop();
  });

  const purchaseOf = async (payer: Payer, more: { amount?: bigint; validForSec?: number } = {}): Promise<Purchase> => ({
    request: await world.signExact({ payer, amount: PRICE, ...more }),
    grantId: fresh(),
  });
  const bodyOf = ({ request, grantId }: Purchase, version: 1 | 2) =>
    settleBody(request, version, world.chain.chainId, { grant: { id: grantId, resource: request.resource } });
  const stockBody = ({ request }: Purchase) => settleBody(request, 2, world.chain.chainId);
  const reserve = (at: ServiceProcess, purchase: Purchase, version: 1 | 2 = 2) =>
    at.client.x402Verify(bodyOf(purchase, version));
  const settle = (at: ServiceProcess, purchase: Purchase, version: 1 | 2 = 2) =>
    at.client.x402Settle(bodyOf(purchase, version));
  const release = (at: ServiceProcess, { request, grantId }: Purchase) =>
    at.client.releasePayment(world.idOf(request), grantId);
  const transfersOf = async ({ address }: Payer) => (await world.transfers()).filter(({ from }) => from === address);
  const rowsOf = async ({ address }: Payer) =>
    (await database.query("select * from payment_reservations where payer = $1", [address])).rows;

  function expectReserved(answer: X402Verdict, { request }: Purchase): void {
    expect(answer).to.deep.equal({ isValid: true, payer: request.authorization.from, reserved: true });
  }
  const expectRefused = (answer: X402Verdict, invalidReason: string) =>
    expect(answer, JSON.stringify(answer)).to.include({ isValid: false, invalidReason });

  it("says that it reserves", async () => {
    expect(await one.client.supported()).to.include({ reservations: true });
  });

  it("HA11 of many payments against a balance for one, one is reserved, whichever process is asked", async () => {
    const payer = await world.payer(PRICE);
    const purchases = await Promise.all(Array.from({ length: 20 }, () => purchaseOf(payer)));
    const answers = await Promise.all(purchases.map((each, index) => reserve(index % 2 ? one : two, each)));
    expect(answers.filter(({ isValid }) => isValid)).to.have.length(1);
    for (const answer of answers) if (!answer.isValid) expectRefused(answer, SHORT);
    expect(await rowsOf(payer)).to.have.length(1);
  });

  for (const version of [1, 2] as const) {
    it(`HA11 a version ${version} payment is reserved once, settles once, and moves once`, async () => {
      const payer = await world.payer(PRICE);
      const purchase = await purchaseOf(payer);
      const asked = await Promise.all([one, two, one, two].map((at) => reserve(at, purchase, version)));
      for (const answer of asked) expectReserved(answer, purchase);
      expect(await rowsOf(payer)).to.have.length(1);
      const settled = await Promise.all([one, two].map((at) => settle(at, purchase, version)));
      for (const answer of settled) expect(answer).to.include({ success: true });
      expect(await rowsOf(payer), "accepted").to.have.length(0);
      expectReserved(await reserve(one, purchase, version), purchase);
      expectRefused(await reserve(one, { ...purchase, grantId: fresh() }, version), TAKEN);
      expect(await release(one, purchase), "it is paid").to.equal(false);
      expect(await transfersOf(payer)).to.have.length(1);
    });
  }

  it("HA11 the payer's other payments see the balance less what is reserved, through every channel", async () => {
    const payer = await world.payer(2n * PRICE);
    const [held, other] = [await purchaseOf(payer), await purchaseOf(payer, { amount: PRICE + 1n })];
    expectReserved(await reserve(one, held), held);
    const native = await world.signPayment({ payer, amount: PRICE + 1n });
    for (const at of [one, two]) {
      expectRefused(await reserve(at, other), SHORT);
      expectRefused(await at.client.x402Verify(stockBody(other)), SHORT);
      expect(await settle(at, other)).to.include({ success: false, errorReason: SHORT });
      expect(await at.client.x402Settle(stockBody(other))).to.include({ success: false, errorReason: SHORT });
      const refused = await at.client.authorize(paymentToWire(native));
      expect(refused.kind === "refused" && refused.error.code).to.equal("InsufficientFunds");
    }
    const fits = await purchaseOf(payer);
    expect(await two.client.x402Verify(stockBody(fits))).to.include({ isValid: true });
    expect(await two.client.x402Settle(stockBody(fits))).to.include({ success: true });
    expect(await settle(two, held)).to.include({ success: true });
    expect(await transfersOf(payer)).to.have.length(2);
  });

  it("HA11 a reserved payment buys nothing else, at another gate, through another channel, or with other terms", async () => {
    const payer = await world.payer(4n * PRICE);
    const ref = randomRef();
    const native = await world.signPayment({ payer, amount: PRICE, ref });
    const purchase = { request: exactOf(native, await world.signExact({ payer })), grantId: fresh() };
    expectReserved(await reserve(one, purchase), purchase);
    const cheaper = exactOf(await world.signPayment({ payer, amount: PRICE - 1n, ref }), purchase.request);
    const toPayer = exactOf(
      await world.signPayment({ payer, amount: PRICE, ref, payTo: payer.address }),
      purchase.request,
    );
    const elsewhere = { ...purchase.request, resource: `${RESOURCE}&page=2` };
    for (const at of [one, two]) {
      for (const request of [cheaper, toPayer, elsewhere]) {
        expectRefused(await reserve(at, { ...purchase, request }), TAKEN);
        expect(await settle(at, { ...purchase, request })).to.include({ success: false, errorReason: TAKEN });
      }
      const otherGate = { ...purchase, grantId: fresh() };
      expectRefused(await reserve(at, otherGate), TAKEN);
      expect(await settle(at, otherGate)).to.include({ success: false, errorReason: TAKEN });
      expect(await release(at, otherGate), "it is not theirs").to.equal(false);
      // The reference has no word for a payment that is granted elsewhere.
      expectRefused(await at.client.x402Verify(stockBody(purchase)), "invalid_transaction_state");
      expect(await at.client.x402Settle(stockBody(purchase))).to.include({ success: false, errorReason: TAKEN });
      const refused = await at.client.authorize(paymentToWire(native));
      expect(refused.kind === "refused" && refused.error.code).to.equal("PayloadConflict");
    }
    expect(await transfersOf(payer)).to.have.length(0);
    expect(await settle(two, purchase)).to.include({ success: true });
    expect(await transfersOf(payer)).to.have.length(1);
  });

  it("HA11 a reserved payment that its payer submits itself proves nothing elsewhere until it is released", async () => {
    const payer = await world.payer(PRICE);
    const native = await world.signPayment({ payer, amount: PRICE });
    const purchase = { request: exactOf(native, await world.signExact({ payer })), grantId: fresh() };
    expectReserved(await reserve(one, purchase), purchase);
    await fund(world.chain, payer.address);
    const { from, to, value, validAfter, validBefore, nonce } = native.authorization;
    const token = world.token.connect(walletOf(world.chain, payer.key)) as typeof world.token;
    const submit = token.getFunction("transferWithAuthorization");
    await (await submit(from, to, value, validAfter, validBefore, nonce, native.signature)).wait();
    const refused = await two.client.authorize(paymentToWire(native));
    expect(refused.kind === "refused" && refused.error.code).to.equal("PayloadConflict");
    expect(await settle(one, purchase)).to.include({
      success: false,
      errorReason: "invalid_exact_evm_nonce_already_used",
    });
    expect(await release(one, purchase)).to.equal(true);
    expect((await two.client.authorize(paymentToWire(native))).kind).to.equal("settled");
    expect(await transfersOf(payer)).to.have.length(1);
  });

  it("HA11 a released payment's money is available again, at once and everywhere", async () => {
    const payer = await world.payer(PRICE);
    const [first, next] = [await purchaseOf(payer), await purchaseOf(payer)];
    expect(await release(one, first), "never seen").to.equal(false);
    expectReserved(await reserve(one, first), first);
    expectRefused(await reserve(two, next), SHORT);
    expect(await release(two, first)).to.equal(true);
    expect(await release(one, first), "again").to.equal(false);
    expectReserved(await reserve(two, next), next);
    expect(await settle(one, first), "its money is taken").to.include({ success: false, errorReason: SHORT });
    expect(await settle(one, next)).to.include({ success: true });
    expect(await transfersOf(payer)).to.have.length(1);
  });

  it("HA11 a gate may settle what it released, while the money lasts", async () => {
    const payer = await world.payer(PRICE);
    const purchase = await purchaseOf(payer);
    expectReserved(await reserve(one, purchase), purchase);
    expect(await release(one, purchase)).to.equal(true);
    expect(await settle(two, purchase)).to.include({ success: true });
    expect(await transfersOf(payer)).to.have.length(1);
  });

  it("HA11 a process that dies between the two leaves the reservation to the others", async () => {
    const dying = await processes.program.start(settings, "api");
    const payer = await world.payer(PRICE);
    const [purchase, other] = [await purchaseOf(payer), await purchaseOf(payer)];
    expectReserved(await reserve(dying, purchase), purchase);
    await dying.kill();
    expectRefused(await reserve(two, other), SHORT);
    expectReserved(await reserve(two, purchase), purchase);
    expect(await settle(two, purchase)).to.include({ success: true });
    expect(await transfersOf(payer)).to.have.length(1);
  });

  /** What a process asks for once it has judged a payment. */
  async function acceptanceOf(payer: Payer, { amount, atBlock }: { amount: bigint; atBlock: number }) {
    const { request: exact, grantId } = await purchaseOf(payer, { amount });
    const request = requestOf(world.config(settings), "settle", { ...exact, purchase: { grantId, isGate: true } });
    if (request instanceof Error) throw request;
    const { chainId } = world.chain;
    return { chainId, request, state: "queued" as const, hasCode: false, balance: amount, atBlock };
  }
  const inProcess = () => createReservations({ store, chainId: world.chain.chainId, monotonicMs: () => 0 });

  it("HA11 a reservation waits for what another process is reserving of the same balance", async () => {
    const payer = await world.payer(PRICE);
    const atBlock = await world.chain.provider.getBlockNumber();
    const acceptance = await acceptanceOf(payer, { amount: PRICE, atBlock });
    const other = await purchaseOf(payer);
    const rival = new Client({ connectionString: settings.DATABASE_URL });
    await rival.connect();
    try {
      await rival.query("begin");
      const balance = balanceOf(acceptance);
      await rival.query("select pg_advisory_xact_lock(hashtextextended($1, 0))", [balance]);
      let reserved: string | undefined;
      const reserving = inProcess()
        .reserve(acceptance)
        .then((outcome) => {
          reserved = outcome;
        });
      const isWaiting = async () =>
        (await database.query("select 1 from pg_locks where locktype = 'advisory' and not granted")).rows.length > 0;
      await until(async () => reserved !== undefined || (await isWaiting()), "it waits, or is done without waiting");
      const { authorization, payTo, amount } = other.request;
      await rival.query(
        `insert into payment_reservations (chain_id, payment_id, grant_id, payer, token, pay_to, amount, resource_hash,
          expires_at) values ($1, $2, $3, $4, $5, $6, $7, $8, $9)`,
        [
          ...[world.chain.chainId, world.idOf(other.request), other.grantId, payer.address, world.contracts.token],
          ...[payTo, amount.toString(), fresh(), authorization.validBefore.toString()],
        ],
      );
      await rival.query("commit");
      await reserving;
      expect(reserved, "one balance backs one of them").to.equal("short");
    } finally {
      await rival.end();
    }
  });

  it("HA11 counts a transfer that was mined after the balance was read", async () => {
    const payer = await world.payer(2n * PRICE);
    const atBlock = await world.chain.provider.getBlockNumber();
    const paid = await purchaseOf(payer);
    expect(await settle(one, paid)).to.include({ success: true });
    const acceptance = await acceptanceOf(payer, { amount: 2n * PRICE, atBlock });
    const reservations = inProcess();
    expect(await reservations.reserve(acceptance)).to.equal("short");
    expect(await reservations.check(acceptance)).to.equal("short");
    expect(await rowsOf(payer)).to.have.length(0);
  });

  it("HA11 a payer cannot fill the table, and its other payments still settle", async () => {
    const payer = await world.payer(10n * PRICE);
    const known = await purchaseOf(payer);
    expectReserved(await reserve(one, known), known);
    await database.query(
      `insert into payment_reservations select chain_id, 'filler ' || n, grant_id, payer, token, pay_to, 1, resource_hash,
        expires_at from payment_reservations, generate_series(1, $2::int) n where payer = $1`,
      [payer.address, MAX_LIVE_RESERVATIONS - 1],
    );
    const answer = await fetch(`${one.url}/verify`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify(bodyOf(await purchaseOf(payer), 2)),
    });
    expect(answer.status).to.equal(429);
    expectReserved(await reserve(two, known), known);
    expect(await two.client.x402Settle(stockBody(await purchaseOf(payer)))).to.include({ success: true });
    await database.query("delete from payment_reservations where payment_id like 'filler %'");
  });

  it("HA11 a reorganisation between the two keeps the reservation, and moves the money once", async () => {
    const rpc = (method: string, params: unknown[] = []) => world.chain.provider.send(method, params);
    const payer = await world.payer(PRICE);
    const [purchase, other] = [await purchaseOf(payer), await purchaseOf(payer)];
    const snapshot = await rpc("evm_snapshot");
    const before = await world.chain.provider.getBlockNumber();
    await until(async () => (await world.chain.provider.getBlockNumber()) > before + 2, "blocks follow");
    expectReserved(await reserve(one, purchase), purchase);
    await rpc("evm_revert", [snapshot]);
    expectRefused(
      await until(async () => reserve(two, other).catch(() => undefined), "the blocks are read again"),
      SHORT,
    );
    const settled = await until(async () => {
      const answer = await settle(two, purchase).catch(() => undefined);
      return answer?.success && answer;
    }, "it settles");
    expect(settled).to.include({ success: true });
    expect(await transfersOf(payer)).to.have.length(1);
  });

  it("HA11 a reservation ends with its authorization, by the chain's clock", async () => {
    const payer = await world.payer(PRICE);
    const [ended, next] = [
      await purchaseOf(payer, { validForSec: 120 }),
      await purchaseOf(payer, { validForSec: 3_000 }),
    ];
    expectReserved(await reserve(one, ended), ended);
    expectRefused(await reserve(two, next), SHORT);
    await world.chain.provider.send("evm_increaseTime", [130]);
    await until(async () => {
      const answer = await reserve(two, next);
      return answer.isValid && answer;
    }, "the block is applied");
    expect(await settle(one, ended)).to.include({
      success: false,
      errorReason: "invalid_exact_evm_payload_authorization_valid_before",
    });
    expect(await settle(one, next)).to.include({ success: true });
    expect(await transfersOf(payer)).to.have.length(1);

    // Its row stays for as long as a reverted block may set the clock back.
    const upkeep = () => inProcess().deleteEnded();
    await upkeep();
    expect(await rowsOf(payer)).to.have.length(1);
    await database.query("update payment_reservations set expires_at = expires_at - 3600 where payer = $1", [
      payer.address,
    ]);
    await upkeep();
    expect(await rowsOf(payer)).to.have.length(0);
  });
});

describe("Facilitator: reservations on the embedded database", function () {
  this.timeout(120_000);
  let world: FacilitatorWorld;

  before(async () => {
    world = await startWorld({ blockMs: BLOCK_MS });
  });
  after(() => world?.stop());

  it("HA11 a payment that did not move is not sent again with money that is reserved", async () => {
    const core = await world.core();
    const payer = await world.payer(PRICE);
    const drained = await world.signPayment({ payer, amount: PRICE });
    expect((await authorizeAndDrain(world, core, payer, drained)).kind).to.equal("refused");
    const mint = world.token.getFunction("mint");
    await (await mint(payer.address, PRICE)).wait();
    const reserved = await world.signExact({ payer, amount: PRICE, grantId: fresh() });
    const verdict = await until(async () => {
      const answer = await core.payments.verifyExact(reserved);
      return answer.kind === "valid" && answer;
    }, "the money is there");
    expect(verdict).to.include({ isReserved: true });
    const again = await core.payments.authorize(drained);
    expect(again.kind === "refused" && again.error.reason).to.equal("funds");
    expect((await core.payments.settleExact(reserved)).kind).to.equal("settled");
    expect((await world.transfers()).filter(({ from }) => from === payer.address)).to.have.length(1);
  });
});
