import { expect } from "chai";
import { createFacilitatorClient } from "turnpike/facilitator";
import { type Address, type Hex, type TurnpikeError, ZERO_ADDRESS } from "turnpike/protocol";
import { BLOCK_MS, type Payer, until } from "../../support/facilitator";
import { paymentToWire } from "../support/payments";
import { refundToWire, signRefund, signStatement } from "../support/refunds";
import { type Service, type ServiceWorld, startServiceWorld } from "../support/service";

const PRICE = 250_000n;

describe("automatic refunds after a restart, and after the account's key was replaced", function () {
  this.timeout(120_000);
  let world: ServiceWorld;
  let service: Service;
  let provider: Payer;
  let apiKey: string;
  let version = 0;

  before(async () => {
    world = await startServiceWorld();
    provider = await world.payer(10_000_000n);
  });
  after(() => world.stop());

  const rpc = (method: string, params: unknown[] = []) => world.chain.provider.send(method, params);

  /** Starts the service with this key for the provider's refunds, which the provider names. */
  async function startWith(account: Payer): Promise<void> {
    await service?.stop();
    const settings = { RENEWALS: "false", REFUND_KEYS: `${provider.address}=${account.key}`, AUTHORIZE_WAIT_MS: "0" };
    service = await world.service(settings);
    apiKey ??= await service.apiKey({ wallet: provider, scopes: ["refunds", "read"] });
    const fields = { provider, account: account.address, dailyCap: 1_000_000_000n, version: ++version };
    const statement = await signStatement(world, fields);
    const body = JSON.stringify(statement, (_, value) => (typeof value === "bigint" ? String(value) : value));
    const headers = { "content-type": "application/json" };
    expect((await fetch(`${service.url}/refund-accounts`, { method: "POST", headers, body })).status).to.equal(200);
  }

  async function paid(): Promise<{ id: Hex; payer: Address }> {
    const signed = await world.signPayment({ payTo: provider.address, amount: PRICE });
    const isSettled = async () => (await service.client.authorize(paymentToWire(signed))).kind === "settled";
    await until(isSettled, "the payment is settled");
    return { id: world.idOf(signed), payer: signed.authorization.from };
  }

  async function refund(id: Hex): Promise<string> {
    const outcome = await createFacilitatorClient({ url: service.url, apiKey })
      .refundPayment(id)
      .catch((error: Error) => ({ kind: "refused" as const, error: error.cause as TurnpikeError }));
    return outcome.kind === "refused" ? outcome.error.code : outcome.kind;
  }

  /** Accepts a refund that is not mined before it expires. */
  async function expire(accept: () => Promise<string>, id: Hex): Promise<void> {
    await rpc("evm_setIntervalMining", [0]);
    expect(await accept()).to.equal("pending");
    await world.chain.advance(1_000);
    await rpc("evm_setIntervalMining", [BLOCK_MS]);
    const reader = createFacilitatorClient({ url: service.url, apiKey });
    const isOver = async () => {
      const found = await reader.events();
      if (found.kind !== "found") throw found.error;
      const mine = found.value.events.filter(({ data }) => (data as { refundedId?: string }).refundedId === id);
      return mine.some(({ type }) => type === "refund.failed");
    };
    await until(isOver, "the refund has failed");
  }

  /** Returns what becomes of it once the service has read the chain. */
  async function decided(id: Hex): Promise<string> {
    let outcome = "pending";
    await until(async () => {
      outcome = await refund(id);
      return outcome !== "pending";
    }, "the request is decided");
    return outcome;
  }

  /** @throws the refusal */
  async function isRefunded(id: Hex): Promise<boolean> {
    const outcome = await refund(id);
    expect(outcome).to.be.oneOf(["pending", "settled"]);
    return outcome === "settled";
  }

  const received = async (payer: Address) =>
    (await world.transfers(payer)).flatMap(({ from, value }) => (from === ZERO_ADDRESS ? [] : [[from, value]]));

  it("T47 one that expired under the former key is paid once, from the account of the new key", async () => {
    const [former, next] = [await world.payer(10_000_000n), await world.payer(10_000_000n)];
    await startWith(former);
    const { id, payer } = await paid();
    await expire(() => refund(id), id);

    await startWith(next);
    await until(() => isRefunded(id), "the refund is settled");
    expect(await refund(id)).to.equal("settled");

    await startWith(former);
    expect(await decided(id), "the former key again").to.equal("PayloadConflict");
    const found = await service.client.payment(id);
    if (found.kind !== "found") expect.fail(found.error.code);
    expect(found.value.refunds?.map(({ index, account }) => [index, account])).to.deep.equal([[0, next.address]]);
    expect(await received(payer)).to.deep.equal([[next.address, PRICE]]);
  });

  it("T47 one that expired before a restart is signed again by the same key", async () => {
    const account = await world.payer(10_000_000n);
    await startWith(account);
    const { id, payer } = await paid();
    await expire(() => refund(id), id);
    await startWith(account);
    await until(() => isRefunded(id), "the refund is settled");
    expect(await received(payer)).to.deep.equal([[account.address, PRICE]]);
  });

  it("T47 one that may still move under the former key is not paid from the new one", async () => {
    const [former, next] = [await world.payer(10_000_000n), await world.payer(10_000_000n)];
    await startWith(former);
    const { id, payer } = await paid();
    await rpc("evm_setIntervalMining", [0]);
    expect(await refund(id)).to.equal("pending");
    await startWith(next);
    expect(await decided(id)).to.equal("PayloadConflict");
    await rpc("evm_setIntervalMining", [BLOCK_MS]);
    await until(async () => (await received(payer)).length > 0, "the first refund is mined");
    expect(await refund(id)).to.equal("PayloadConflict");
    expect(await received(payer)).to.deep.equal([[former.address, PRICE]]);
  });

  it("T51 one by the payee that has expired leaves its index to an automatic refund, and the payee another", async () => {
    const account = await world.payer(10_000_000n);
    await startWith(account);
    const { id, payer } = await paid();
    const byHand = async (index: number) => {
      const target = { type: "payment", paymentId: id } as const;
      const signed = await signRefund(world, { account: provider, to: payer, amount: PRICE, target, index });
      const outcome = await service.client.refund(refundToWire(signed));
      return outcome.kind === "refused" ? outcome.error.code : outcome.kind;
    };
    await expire(() => byHand(0), id);
    await until(() => isRefunded(id), "the refund is settled");
    expect(await byHand(0)).to.equal("PayloadConflict");
    expect(await byHand(1)).to.equal("RefundExceedsPayment");
    expect(await received(payer)).to.deep.equal([[account.address, PRICE]]);
  });
});
