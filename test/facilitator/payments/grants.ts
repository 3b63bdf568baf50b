import { expect } from "chai";
import { Client } from "pg";
import type { X402Settlement } from "turnpike/facilitator";
import {
  type Address,
  addressOfKey,
  type Hex,
  isGrantSigned,
  keccakText,
  paymentIdOf,
  randomBytes,
  toHex,
} from "turnpike/protocol";
import { openStore } from "../../../facilitator/src/db/open";
import type { ExactRequest } from "../../../facilitator/src/payments";
import { HOLD_MS, renewHolds } from "../../../facilitator/src/payments/holds";
import { testKey } from "../../support/chain";
import { BLOCK_MS, type FacilitatorWorld, until } from "../../support/facilitator";
import { paymentToWire, type SettleMore, settleBody } from "../support/payments";
import type { ServiceProcess } from "../support/processes";
import { startTwoProcesses, type TwoProcesses } from "../support/two-processes";

const fresh = (): Hex => toHex(randomBytes(32));

describe("Facilitator: grants of x402 payments, by two processes on one PostgreSQL", function () {
  this.timeout(180_000);
  let processes: TwoProcesses;
  let world: FacilitatorWorld;
  let settings: TwoProcesses["settings"];
  let one: ServiceProcess;
  let two: ServiceProcess;

  before(async () => {
    processes = await startTwoProcesses("grant");
    ({ world, settings, one, two } = processes);
  });
  after(() => processes?.stop());

  const bodyOf = (request: ExactRequest, version: 1 | 2, more: SettleMore = {}) =>
    settleBody(request, version, world.chain.chainId, more);
  const settle = (at: ServiceProcess, request: ExactRequest, version: 1 | 2 = 2, more: SettleMore = {}) =>
    at.client.x402Settle(bodyOf(request, version, more));
  const verify = (at: ServiceProcess, request: ExactRequest, version: 1 | 2 = 2, more: SettleMore = {}) =>
    at.client.x402Verify(bodyOf(request, version, more));
  /** An answer that comes after a second or less may come before the payment is stored. */
  const accepted = (request: ExactRequest) =>
    until(async () => {
      const seen = await one.client.payment(world.idOf(request));
      return seen.kind === "found" && seen.value.status !== "unknown";
    }, "the payment was accepted");
  const transfersOf = async ({ authorization: { from } }: ExactRequest) =>
    (await world.transfers()).filter((transfer) => transfer.from === from);

  function expectGranted(answer: X402Settlement, request: ExactRequest, grantId: Hex, resource: string): void {
    if (!answer.success) expect.fail(`it is ${JSON.stringify(answer)}`);
    const { chainId } = world.chain;
    const { token, payTo, amount, authorization } = request;
    const paymentId = paymentIdOf({ chainId, token, payer: authorization.from, nonce: authorization.nonce });
    const facilitator = addressOfKey(testKey("proof signer") as Hex);
    expect(answer.grant?.facilitator).to.equal(facilitator);
    const facts = {
      chainId,
      token,
      paymentId,
      resourceHash: keccakText(resource),
      payTo,
      amount,
      grantId,
      facilitator,
    };
    const transaction = answer.transaction as Hex;
    expect(isGrantSigned({ ...facts, transaction }, answer.grant?.signature ?? "0x"), "signed for it").to.equal(true);
    expect(isGrantSigned({ ...facts, transaction, grantId: fresh() }, answer.grant?.signature ?? "0x")).to.equal(false);
  }

  for (const version of [1, 2] as const) {
    it(`HA3 stock servers at both processes get one payment of version ${version} once between them`, async () => {
      const request = await world.signExact();
      const asked = [one, two, one, two, one, two];
      const answers = await Promise.all(asked.map((at) => settle(at, request, version)));
      const settled = answers.filter(({ success }) => success);
      expect(settled, JSON.stringify(answers)).to.have.length(1);
      for (const at of [one, two, one]) {
        expect(await settle(at, request, version)).to.include({
          success: false,
          errorReason: "payment_already_granted",
        });
        expect(await verify(at, request, version)).to.include({
          isValid: false,
          invalidReason: "invalid_transaction_state",
        });
      }
      expect(await transfersOf(request)).to.have.length(1);
    });

    it(`HA1 a gate is granted its own version ${version} purchase again and again, by either process`, async () => {
      const request = await world.signExact();
      const grant = { id: fresh(), resource: request.resource };
      const answers = await Promise.all([one, two, one].map((at) => settle(at, request, version, { grant })));
      for (const answer of answers) expectGranted(answer, request, grant.id, grant.resource);
      expectGranted(await settle(two, request, version, { grant }), request, grant.id, grant.resource);
      const otherGate = { grant: { ...grant, id: fresh() } };
      for (const [at, more] of [
        [two, otherGate],
        [one, {}],
      ] as const) {
        const answer = await settle(at, request, version, more);
        expect(answer, "another gate, a stock server").to.include({
          success: false,
          errorReason: "payment_already_granted",
        });
        expect(answer).not.to.have.property("grant");
      }
      expect(await verify(one, request, version)).to.include({ isValid: false });
      expect(await transfersOf(request)).to.have.length(1);
    });
  }

  it("HA1 a payment that a stock server was granted is granted to no gate", async () => {
    const request = await world.signExact();
    expect((await settle(one, request)).success).to.equal(true);
    const grant = { id: fresh(), resource: request.resource };
    expect(await settle(two, request, 1, { grant })).to.include({ errorReason: "payment_already_granted" });
  });

  it("HA1 a granted payment is reported as granted, whatever else the next server asks it for", async () => {
    const resource = "https://another.example/thing";
    for (const version of [1, 2] as const) {
      const [bought, ofGate, native] = [await world.signExact(), await world.signExact(), await world.signPayment()];
      const grant = { id: fresh(), resource: "https://gate.example/report?q=1" };
      const url = { url: null };
      expect((await settle(one, bought, version)).success).to.equal(true);
      const first = await settle(one, { ...ofGate, resource: grant.resource }, version, { ...url, grant });
      expect(first.success, JSON.stringify(first)).to.equal(true);
      expect((await one.client.authorize(paymentToWire(native))).kind).to.equal("settled");
      const asExact: ExactRequest = {
        ...bought,
        authorization: native.authorization,
        signature: native.signature as Hex,
        payTo: native.authorization.to as Address,
        amount: native.authorization.value,
      };
      for (const request of [bought, ofGate, asExact]) {
        for (const at of [one, two]) {
          const answer = await settle(at, { ...request, resource }, version);
          expect(answer).to.include({ success: false, errorReason: "payment_already_granted" });
          expect(await verify(at, { ...request, resource }, version)).to.include({ isValid: false });
        }
      }
    }
  });

  it("HA1 the server's resource counts, whatever the payload names, and a payload may name none", async () => {
    const unnamed = await world.signExact();
    const grant = { id: fresh(), resource: "https://gate.example/report?q=1" };
    expectGranted(await settle(one, unnamed, 2, { url: null, grant }), unnamed, grant.id, grant.resource);
    const lied = await world.signExact();
    const answer = await settle(one, lied, 2, { url: "https://made.up/", grant });
    expect(answer).to.include({ success: false, errorReason: "invalid_payment_requirements" });
    expect(await transfersOf(lied)).to.have.length(0);
    const stock = await world.signExact();
    expect(await verify(two, stock, 2, { url: null })).to.include({ isValid: true });
    expect(await settle(two, stock, 2, { url: null })).to.include({ success: true });
    expect(await settle(one, stock, 2, { url: null })).to.include({ success: false });
    const tool = await world.signExact();
    expect(await settle(two, tool, 2, { url: "mcp://tool/search" })).to.include({ success: true });
  });

  it("HA1 the first of two gates that ask at the same time has the payment, before it is on any chain", async () => {
    const request = await world.signExact();
    const gates = [fresh(), fresh()].map((id) => ({ grant: { id, resource: request.resource } }));
    const answers = await Promise.all(gates.map((more, index) => settle(index === 0 ? one : two, request, 1, more)));
    expect(answers.filter(({ success }) => success)).to.have.length(1);
    expect(answers.filter(({ success }) => !success)[0]).to.include({ errorReason: "payment_already_granted" });
  });

  describe("while no block comes", () => {
    let request: ExactRequest;
    const mineEvery = (blockMs: number) => world.chain.provider.send("evm_setIntervalMining", [blockMs]);
    const mineAgain = () => mineEvery(BLOCK_MS);

    beforeEach(async () => {
      request = { ...(await world.signExact()), maxTimeoutSec: 1 };
      await mineEvery(0);
    });
    afterEach(mineAgain);

    it("HA8 HA3 a stock server gets this answer with the transaction, and the same payload buys afterwards, at the other process", async () => {
      const answer = await settle(one, { ...request, maxTimeoutSec: 5 });
      expect(answer).to.include({ success: false, errorReason: "settlement_pending" });
      expect(answer.transaction, "stock servers ask again only with one").to.match(/^0x[0-9a-f]{64}$/);
      expect(await settle(two, request)).to.include({ errorReason: "settlement_pending" });
      expect(await verify(two, request), "it has bought nothing yet").to.include({ isValid: true });
      await mineAgain();
      const bought = await until(async () => {
        const again = await settle(two, request);
        return again.success && again;
      }, "the payment is settled");
      expect(bought).to.include({ success: true, transaction: (await transfersOf(request))[0]?.transaction });
      expect(await settle(one, request)).to.include({ errorReason: "payment_already_granted" });
      expect(await transfersOf(request)).to.have.length(1);
    });

    it("HA1 nobody takes what a gate waits for, also while the gate has given up", async () => {
      const grant = { id: fresh(), resource: request.resource };
      expect(await settle(one, request, 1, { grant })).to.include({ errorReason: "settlement_pending" });
      await accepted(request);
      expect(await verify(two, request, 1)).to.include({ isValid: false });
      await mineAgain();
      // Its authorization is in calldata by now: strangers present it everywhere.
      await until(async () => (await transfersOf(request)).length === 1, "the payment is mined");
      const strangers = [{}, { grant: { ...grant, id: fresh() } }];
      for (const more of strangers) {
        const refused = await until(async () => {
          const answer = await settle(two, request, 1, more);
          return !answer.success && answer.errorReason !== "settlement_pending" && answer;
        }, "it is reported");
        expect(refused).to.include({ errorReason: "payment_already_granted" });
      }
      expectGranted(await settle(two, request, 1, { grant }), request, grant.id, grant.resource);
    });

    it("HA1 a client that disconnected is granted nothing, and the next request is", async () => {
      request = { ...request, maxTimeoutSec: 20 };
      const controller = new AbortController();
      const left = fetch(`${one.url}/settle`, {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: JSON.stringify(bodyOf(request, 2)),
        signal: controller.signal,
      }).catch(() => "left");
      await accepted(request);
      controller.abort();
      expect(await left).to.equal("left");
      await mineAgain();
      const bought = await until(async () => {
        const again = await settle(two, request);
        return again.success && again;
      }, "the next request is served");
      expect(bought.success).to.equal(true);
      expect(await transfersOf(request)).to.have.length(1);
    });
  });

  it("HA1 a process that dies holding a payment for a stock server does not keep it for ever", async () => {
    const dying = await processes.program.start(settings, "api");
    const request = await world.signExact();
    await world.chain.provider.send("evm_setIntervalMining", [0]);
    const lost = settle(dying, request).catch(() => "lost");
    await accepted(request);
    await dying.kill();
    expect(await lost).to.equal("lost");
    await world.chain.provider.send("evm_setIntervalMining", [BLOCK_MS]);
    await until(async () => (await transfersOf(request)).length === 1, "the payment is mined");
    const database = new Client({ connectionString: settings.DATABASE_URL });
    await database.connect();
    const held = "not is_gate and granted_at_ms is null and held_until_ms > 0";
    const { rows } = await database.query(
      `select held_until_ms - (extract(epoch from clock_timestamp()) * 1000)::bigint as left from payment_grants where ${held}`,
    );
    expect(rows, "the dead request's hold").to.have.length(1);
    expect(Number(rows[0]?.left), "nobody renews it").to.be.at.most(HOLD_MS);
    // The database's clock is moved instead of waiting for it: two minutes back, and then on.
    await database.query(`update payment_grants set held_until_ms = held_until_ms + 120000 where ${held}`);
    expect(await settle(one, request), "somebody may still be there").to.include({ errorReason: "settlement_pending" });
    await database.query(`update payment_grants set held_until_ms = held_until_ms - 130000 where ${held}`);
    await database.end();
    expect(await settle(two, request)).to.include({ success: true });
    expect(await settle(one, request)).to.include({ errorReason: "payment_already_granted" });
  });

  it("HA1 a request that waits keeps its hold for as long as it lives, and no longer", async () => {
    const request = await world.signExact();
    const database = new Client({ connectionString: settings.DATABASE_URL });
    await database.connect();
    const own = "payment_id = decode(substr($1, 3), 'hex')";
    const rowOf = async () => {
      const { rows } = await database.query(
        `select *, '0x' || encode(grant_id, 'hex') as grant_id from payment_grants where ${own}`,
        [world.idOf(request)],
      );
      return rows[0] as { held_until_ms: string; granted_at_ms: string | null; grant_id: Hex } | undefined;
    };
    try {
      await world.chain.provider.send("evm_setIntervalMining", [0]);
      const waiting = settle(one, request);
      const first = await until(rowOf, "the payment is held");
      await until(async () => Number((await rowOf())?.held_until_ms) > Number(first.held_until_ms), "it is renewed");
      await world.chain.provider.send("evm_setIntervalMining", [BLOCK_MS]);
      expect(await waiting).to.include({ success: true });
      expect(await rowOf()).to.include({ grant_id: first.grant_id });

      // A renewal that comes late revives no hold that was released, and takes none from another request.
      const config = world.config(settings);
      const store = await openStore(config.database);
      const open = new Map([[first.grant_id, { paymentId: world.idOf(request) }]]);
      const ended = `update payment_grants set granted_at_ms = null, held_until_ms = 0 where ${own}`;
      await database.query(ended, [world.idOf(request)]);
      await renewHolds(store, world.chain.chainId, open);
      expect(Number((await rowOf())?.held_until_ms)).to.equal(0);
      const lapsed = `update payment_grants set held_until_ms = 1, grant_id = decode(substr($2, 3), 'hex') where ${own}`;
      await database.query(lapsed, [world.idOf(request), fresh()]);
      await renewHolds(store, world.chain.chainId, open);
      expect(Number((await rowOf())?.held_until_ms)).to.equal(1);
      await store.close();
    } finally {
      await database.end();
    }
  });

  it("HA8 more than the price, less than it, and another transfer method are refused before any money moves", async () => {
    const request = await world.signExact({ amount: 300_000n });
    for (const amount of [299_999n, 150_000n, 300_001n]) {
      for (const version of [1, 2] as const) {
        const wrong = { ...request, amount };
        const word = "invalid_exact_evm_payload_authorization_value";
        const reason = version === 1 ? word : `${word}_mismatch`;
        expect(await verify(one, wrong, version)).to.include({ isValid: false, invalidReason: reason });
        expect(await settle(one, wrong, version)).to.include({ success: false, errorReason: reason });
      }
    }
    for (const version of [1, 2] as const) {
      const more = { extra: { assetTransferMethod: "permit2" } };
      expect(await settle(one, request, version, more)).to.include({ errorReason: "unsupported_payload_type" });
      expect(await verify(one, request, version, more)).to.include({ invalidReason: "unsupported_payload_type" });
    }
    const body = bodyOf(request, 2) as unknown as { paymentPayload: { payload: object } };
    const both = {
      ...body,
      paymentPayload: { ...body.paymentPayload, payload: { ...body.paymentPayload.payload, permit2Authorization: {} } },
    };
    const answer = await fetch(`${one.url}/settle`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify(both),
    });
    expect(answer.status).to.equal(400);
    expect(await answer.text()).to.include("permit2Authorization");
    expect(await transfersOf(request)).to.have.length(0);
    expect(await settle(one, request), "its own price").to.include({ success: true });
  });

  it("HA1 a native payment is granted by its proof alone", async () => {
    const signed = await world.signPayment();
    expect((await one.client.authorize(paymentToWire(signed))).kind).to.equal("settled");
    const asExact: ExactRequest = {
      ...(await world.signExact()),
      authorization: signed.authorization,
      signature: signed.signature as Hex,
      payTo: signed.authorization.to as Address,
      amount: signed.authorization.value,
    };
    const grant = { id: fresh(), resource: signed.resource };
    for (const more of [{}, { grant }]) expect(await settle(two, asExact, 1, more)).to.include({ success: false });
  });
});
