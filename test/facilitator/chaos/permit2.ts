import { expect } from "chai";
import pino from "pino";
import { uptoProxyInterface } from "turnpike/chain";
import { type X402RequestWire, x402RequestSchema } from "turnpike/facilitator";
import {
  type Address,
  addressOfKey,
  type Hex,
  permit2AuthorizationOf,
  randomBytes,
  toHex,
  UPTO_PERMIT2_PROXY,
  uptoPayloadSchema,
} from "turnpike/protocol";
import type { Core } from "../../../facilitator/src/app/core";
import { dumpText } from "../../../facilitator/src/cli/maintenance/dump";
import { reconcile } from "../../../facilitator/src/cli/maintenance/reconcile";
import { reindex } from "../../../facilitator/src/cli/maintenance/reindex";
import { exactRequestOf } from "../../../facilitator/src/http/routes/x402-request";
import { noProgress } from "../../../facilitator/src/lib/progress";
import type { ExactRequest } from "../../../facilitator/src/payments";
import { idOfPayment } from "../../../facilitator/src/payments/transfer";
import { placePermit2 } from "../../../scripts/sandbox/permit2";
import { testKey } from "../../support/chain";
import { fund, type Payer, until, walletOf } from "../../support/facilitator";
import { approvedPayer, type Permit2Fields, signPermit2 } from "../../support/permit2";
import { usePostgresWorld } from "../support/postgres-world";
import { signRefund } from "../support/refunds";

/** Not so fast that a busy machine cannot read along. */
const BLOCK_MS = 250;
const AMOUNT = 250_000n;

describe("payments over Permit2, at two processes on one PostgreSQL", function () {
  this.timeout(180_000);
  const keys = ["shared permit2 lane 1", "shared permit2 lane 2"].map((name) => testKey(name) as Hex);
  const [, named] = keys.map(addressOfKey) as [Address, Address];
  const settings = { PERMIT2: "true", UPTO_SIGNER: named, RELAYER_KEYS: keys.join(","), RENEWALS: "false" };
  const on = usePostgresWorld({ blockMs: BLOCK_MS });
  let cores: readonly [Core, Core];

  before(async () => {
    await placePermit2(on.world.chain);
    for (const key of keys) await fund(on.world.chain, addressOfKey(key));
    cores = [await on.world.core(settings), await on.world.core(settings)];
  });

  afterEach(() => rpc("evm_setIntervalMining", [BLOCK_MS]));

  const rpc = (method: string, params: unknown[] = []) => on.world.chain.provider.send(method, params);
  const sign = (payer: Payer, fields: Omit<Permit2Fields, "payer"> = {}) => {
    const grant = { id: toHex(randomBytes(32)), resource: "https://gate.example/report" };
    return signPermit2(on.world, { payer, resource: grant.resource, grant, ...fields });
  };
  const signUpto = (payer: Payer) => sign(payer, { facilitator: named });
  const read = (body: X402RequestWire, act: "verify" | "settle"): ExactRequest => {
    const request = exactRequestOf(x402RequestSchema.parse(body), act);
    return typeof request === "string" ? expect.fail(request) : request;
  };
  const charging = (body: X402RequestWire, amount: bigint): X402RequestWire =>
    ({ ...body, paymentRequirements: { ...body.paymentRequirements, amount: `${amount}` } }) as X402RequestWire;
  const idOf = (body: X402RequestWire): Hex => {
    const { token, authorization, transfer } = read(body, "settle");
    return idOfPayment(on.world.chain.chainId, token, authorization, transfer ?? expect.fail("it is over Permit2"));
  };
  const reserve = (core: Core, body: X402RequestWire) => core.payments.verifyExact(read(body, "verify"));
  const settle = async (core: Core, body: X402RequestWire): Promise<Hex | ""> => {
    const outcome = await until(async () => {
      const found = await core.payments.settleExact(read(body, "settle")).catch(() => undefined);
      return found && found.kind !== "pending" && found;
    }, "its outcome is known");
    return outcome.kind === "settled" ? outcome.transaction : expect.fail(JSON.stringify(outcome));
  };
  const movedBy = async ({ address }: Payer) =>
    (await on.world.transfers()).filter(({ from }) => from === address).map(({ value }) => value);

  it("HE15 what one reserves the other settles, once, and upto by the key that its payer signed", async () => {
    const payers = await Promise.all([1, 2, 3, 4].map(() => approvedPayer(on.world, AMOUNT)));
    const bodies = await Promise.all(payers.map((payer, place) => (place % 2 ? signUpto(payer) : sign(payer))));
    const verdicts = await Promise.all(bodies.flatMap((body) => cores.map((core) => reserve(core, body))));
    for (const verdict of verdicts) expect(verdict).to.include({ kind: "valid", isReserved: true });
    const charged = bodies.map((body, place) => (place % 2 ? charging(body, 100_000n) : body));
    for (const [place, body] of charged.entries()) {
      const answers = await Promise.all([...cores, ...cores].map((core) => settle(core, body)));
      expect(new Set(answers).size, "one transaction").to.equal(1);
      expect(await movedBy(payers[place] as Payer)).to.deep.equal([place % 2 ? 100_000n : AMOUNT]);
      const sender = (await on.world.chain.provider.getTransaction(answers[0] as Hex))?.from;
      if (place % 2) expect(sender).to.equal(named);
    }
  });

  it("HE15 of many payments against a balance for one, one is accepted, whichever process is asked", async () => {
    const payer = await approvedPayer(on.world, AMOUNT);
    const bodies = await Promise.all(
      Array.from({ length: 8 }, (_, place) => (place % 2 ? signUpto(payer) : sign(payer))),
    );
    const outcomes = await Promise.all(
      bodies.map((body, place) => (cores[place % 4 < 2 ? 0 : 1] as Core).payments.settleExact(read(body, "settle"))),
    );
    expect(outcomes.filter(({ kind }) => kind === "settled")).to.have.length(1);
    expect(await movedBy(payer)).to.deep.equal([AMOUNT]);
  });

  it("HE9 a stranger who calls the proxy of upto moves nothing, and the payment is charged by its own key", async () => {
    const payer = await approvedPayer(on.world, AMOUNT);
    const stranger = await on.world.payer(0n);
    await fund(on.world.chain, stranger.address);
    const body = await signUpto(payer);
    await rpc("evm_setIntervalMining", [0]);
    const answer = settle(cores[0], charging(body, 100_000n));
    const pending = async () => (await rpc("eth_getBlockByNumber", ["pending", false])).transactions.length > 0;
    await until(pending, "it is sent");
    const { signature } = body.paymentPayload.payload;
    const { token, amount, nonce, deadline, from, to, facilitator, validAfter } = permit2AuthorizationOf(
      uptoPayloadSchema.parse(body.paymentPayload.payload),
    );
    const terms = [[[token, amount], nonce, deadline], amount, from, [to, facilitator, validAfter], signature];
    const dear = { maxFeePerGas: 10n ** 11n, maxPriorityFeePerGas: 10n ** 10n, gasLimit: 400_000n };
    const data = uptoProxyInterface.encodeFunctionData("settle", terms);
    const sent = await walletOf(on.world.chain, stranger.key).sendTransaction({
      to: UPTO_PERMIT2_PROXY,
      data,
      ...dear,
    });
    await rpc("evm_setIntervalMining", [BLOCK_MS]);
    const transaction = await answer;
    expect((await on.world.chain.provider.getTransactionReceipt(sent.hash))?.status, "reverted").to.equal(0);
    expect((await on.world.chain.provider.getTransaction(transaction))?.from).to.equal(named);
    expect(await movedBy(payer)).to.deep.equal([100_000n]);
  });

  it("HE15 a reorganisation: both kinds are reported reversed, and settle once on the chain that stays", async () => {
    const payers = [await approvedPayer(on.world, AMOUNT), await approvedPayer(on.world, AMOUNT)] as const;
    const bodies = [await sign(payers[0]), charging(await signUpto(payers[1]), 100_000n)];
    const snapshot = await rpc("evm_snapshot");
    for (const body of bodies) await settle(cores[0], body);
    await rpc("evm_setIntervalMining", [0]);
    const height = await on.world.chain.provider.getBlockNumber();
    await rpc("evm_revert", [snapshot]);
    await rpc("hardhat_setNextBlockBaseFeePerGas", ["0x77359400"]);
    while ((await on.world.chain.provider.getBlockNumber()) <= height) await rpc("evm_mine");
    const reversed = async () => {
      const { db } = cores[1].store;
      const events = await db.selectFrom("events").select("object_id").where("type", "=", "payment.reversed").execute();
      return bodies.every((body) => events.some(({ object_id }) => object_id === idOf(body)));
    };
    await until(reversed, "both are reversed");
    await rpc("evm_setIntervalMining", [BLOCK_MS]);
    for (const body of bodies) await settle(cores[1], body);
    expect(await movedBy(payers[0])).to.deep.equal([AMOUNT]);
    expect(await movedBy(payers[1])).to.deep.equal([100_000n]);
  });

  it("HE15 read again from the chain: the same rows, beside a refund, a charge of 0 and a reservation", async () => {
    const { chainId } = on.world.chain;
    const payer = await approvedPayer(on.world, 4n * AMOUNT);
    const [paid, unused, reserved] = [await sign(payer), await signUpto(payer), await signUpto(payer)];
    expect(await settle(cores[0], paid)).to.not.equal("");
    expect(await settle(cores[0], charging(unused, 0n))).to.equal("");
    expect(await reserve(cores[0], reserved)).to.include({ isReserved: true });
    const account = { key: testKey("payee") as Hex, address: on.world.payee };
    const target = { type: "payment", paymentId: idOf(paid) } as const;
    const refund = await signRefund(on.world, { account, to: payer.address, amount: 100_000n, target });
    expect((await cores[0].payments.refund(refund)).kind).to.equal("settled");
    await cores[0].indexer.catchUp();
    await cores[1].stop();
    await cores[0].indexer.stop();
    const { store, relayer } = cores[0];
    const job = { config: on.world.config(settings), store, chain: relayer.chain, log: pino({ level: "silent" }) };
    const differences = async (): Promise<string[]> => {
      const found: string[] = [];
      for await (const wrong of reconcile({ ...job, progress: noProgress })) found.push(wrong);
      return found;
    };
    const before = await dumpText(store.db, chainId);
    expect(await differences()).to.deep.equal([]);
    await reindex({ ...job, progress: noProgress, isWiped: true });
    expect(await dumpText(store.db, chainId)).to.equal(before);
    expect(await differences()).to.deep.equal([]);

    const next = await on.world.core(settings);
    expect(await settle(next, charging(unused, 0n)), "it is still used up").to.equal("");
    expect(await reserve(next, reserved)).to.include({ isReserved: true });
    expect(await settle(next, charging(reserved, 100_000n))).to.not.equal("");
    expect(await movedBy(payer)).to.deep.equal([AMOUNT, 100_000n]);
  });
});
