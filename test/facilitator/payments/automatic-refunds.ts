import { expect } from "chai";
import { createFacilitatorClient, type FacilitatorClient, refundAccountDigest } from "turnpike/facilitator";
import {
  type Address,
  type Hex,
  proofToWire,
  type SignedPayment,
  signDigest,
  type TurnpikeError,
} from "turnpike/protocol";
import { purchaseOfServer, type RefundRequest } from "../../../facilitator/src/payments";
import type { Payer } from "../../support/facilitator";
import { fund, RESOURCE, until, walletOf } from "../../support/facilitator";
import { paymentToWire, settleBody } from "../support/payments";
import { refundAccountFor, refundToWire, signRefund, signStatement } from "../support/refunds";
import { type Service, type ServiceWorld, startServiceWorld } from "../support/service";

const PRICE = 250_000n;

describe("refunds from the account that a provider has named", function () {
  this.timeout(120_000);
  let world: ServiceWorld;
  let service: Service;
  let account: Payer;
  let provider: Payer;
  let refunding: FacilitatorClient;
  let version = 0;

  before(async () => {
    world = await startServiceWorld();
    provider = await world.payer();
    const refunds = await refundAccountFor(world, provider.address);
    account = refunds.account;
    service = await world.service({ ...refunds.settings, RENEWALS: "false" });
    refunding = await clientOf(provider, ["refunds", "read"]);
  });
  after(() => world.stop());
  beforeEach(() => name({ dailyCap: 1_000_000_000n }));

  const clientOf = async (wallet: Payer, scopes: readonly ("refunds" | "read")[]) =>
    createFacilitatorClient({ url: service.url, apiKey: await service.apiKey({ wallet, scopes }) });

  /** Each statement replaces the one before. */
  async function name({ dailyCap, validForSec }: { readonly dailyCap: bigint; readonly validForSec?: number }) {
    const life = validForSec === undefined ? {} : { validForSec };
    return post(
      await signStatement(world, { provider, account: account.address, dailyCap, version: ++version, ...life }),
    );
  }
  async function post(statement: object): Promise<{ readonly status: number; readonly json: Record<string, unknown> }> {
    const body = JSON.stringify(statement, (_, value) => (typeof value === "bigint" ? String(value) : value));
    const headers = { "content-type": "application/json" };
    const response = await fetch(`${service.url}/refund-accounts`, { method: "POST", headers, body });
    return { status: response.status, json: (await response.json()) as Record<string, unknown> };
  }
  async function paid(payTo: Address = provider.address): Promise<{ id: Hex; payer: Address; signed: SignedPayment }> {
    const signed = await world.signPayment({ payTo, amount: PRICE });
    const outcome = await service.client.authorize(paymentToWire(signed));
    expect(outcome.kind).to.equal("settled");
    return { id: world.idOf(signed), payer: signed.authorization.from, signed };
  }
  async function refund(id: Hex, by: FacilitatorClient = refunding): Promise<string> {
    const outcome = await by
      .refundPayment(id)
      .catch((error: Error) => ({ kind: "refused" as const, error: error.cause as TurnpikeError }));
    return outcome.kind === "refused" ? `${outcome.error.code} ${outcome.error.reason ?? ""}`.trim() : outcome.kind;
  }
  const received = async (payer: Address) =>
    (await world.transfers(payer)).filter(({ from }) => from === account.address).map(({ value }) => value);

  it("T47 twenty requests at once, and later ones, are one transfer of the whole payment", async () => {
    const { id, payer } = await paid();
    const outcomes = await Promise.all(Array.from({ length: 20 }, () => refund(id)));
    outcomes.push(await refund(id));
    expect([...new Set(outcomes)]).to.deep.equal(["settled"]);
    expect(await received(payer)).to.deep.equal([PRICE]);
    const found = await service.client.payment(id);
    if (found.kind !== "found") expect.fail(found.error.code);
    const [shown] = found.value.refunds ?? [];
    expect(shown).to.include({ index: 0, account: account.address, amount: PRICE });
    const naming = shown?.naming;
    if (!naming) expect.fail("an agent cannot see who named the account");
    const { signature, ...terms } = naming;
    const { chainId } = world.chain;
    const digest = refundAccountDigest({ ...terms, provider: provider.address, chainId });
    expect(signature, "the provider's own statement").to.equal(signDigest(digest, provider.key));
    const events = await (await clientOf(provider, ["read"])).events();
    if (events.kind !== "found") expect.fail(events.error.code);
    const mine = events.value.events.filter(({ data }) => (data as { refundedId?: string }).refundedId === id);
    expect(mine.map(({ type }) => type)).to.deep.equal(["refund.settled"]);
  });

  it("T47 the proof of a refunded payment is refused, also to a gate that never saw it", async () => {
    const signed = await world.signPayment({ payTo: provider.address, amount: PRICE });
    const settled = await service.client.authorize(paymentToWire(signed));
    if (settled.kind !== "settled" || !settled.proof) expect.fail(`no proof: ${settled.kind}`);
    const { proof } = settled;
    const verify = () => service.client.verifyProof(proofToWire(proof));
    expect(await verify()).to.deep.equal({ valid: true });
    expect(await refund(world.idOf(signed))).to.equal("settled");
    expect(await verify()).to.deep.equal({ valid: false, reason: "refunded" });
  });

  it("T48 only a key of the payee with its scope has a payment refunded", async () => {
    const { id, payer } = await paid();
    const stranger = await world.payer();
    expect(await refund(id, service.client)).to.equal("InvalidApiKey");
    expect(await refund(id, await clientOf(provider, ["read"]))).to.equal("ScopeMissing");
    expect(await refund(id, await clientOf(stranger, ["refunds"]))).to.equal("UnknownObject");
    expect(await refund((await paid(stranger.address)).id), "another's payment").to.equal("UnknownObject");
    expect(await refund(`0x${"9".repeat(64)}`)).to.equal("UnknownObject");
    expect(await received(payer)).to.deep.equal([]);
  });

  it("T48 a statement of another signer, chain, Facilitator, account or time names nothing", async () => {
    const stranger = await world.payer();
    const fields = { provider, account: account.address, dailyCap: PRICE, version: ++version };
    const asked = await Promise.all(
      [
        { signer: stranger },
        { chainId: world.chain.chainId + 1 },
        { facilitator: stranger.address },
        { account: stranger.address },
        { provider: stranger },
        { token: stranger.address },
        { validForSec: -1 },
        { version: 1 },
      ].map(async (more) => post(await signStatement(world, { ...fields, ...more }))),
    );
    expect(asked.map(({ json }) => json.code)).to.deep.equal([
      ...["InvalidSignature", "InvalidSignature", "InvalidSignature"],
      ...["PaymentNotAllowed", "PaymentNotAllowed", "PaymentNotAllowed"],
      ...["InvalidRequest", "PayloadConflict"],
    ]);
    const raised = { ...(await signStatement(world, fields)), dailyCap: 10n * PRICE };
    expect((await post(raised)).json.code).to.equal("InvalidSignature");
    const { accounts } = await listed();
    expect(accounts.map(({ version: counted }) => counted)).to.deep.equal([version - 1]);
  });

  const listed = async () => {
    const found = await refunding.refundAccounts();
    return found.kind === "found" ? found.value : expect.fail(found.error.code);
  };

  it("T49 refunds at once never pass the daily cap, and a higher one is signed", async () => {
    const { used } = (await listed()).accounts[0] ?? expect.fail("no account is listed");
    await name({ dailyCap: used + 2n * PRICE + 1n });
    const payments = await Promise.all(Array.from({ length: 5 }, () => paid()));
    const outcomes = await Promise.all(payments.map(({ id }) => refund(id)));
    const capped = "RateLimited refund_cap";
    expect(outcomes.sort()).to.deep.equal([capped, capped, capped, "settled", "settled"]);
    const sums = await Promise.all(payments.map(({ payer }) => received(payer)));
    expect(sums.flat()).to.deep.equal([PRICE, PRICE]);
    expect((await listed()).accounts[0]?.used).to.equal(used + 2n * PRICE);
    await name({ dailyCap: used + 5n * PRICE });
    expect(await Promise.all(payments.map(({ id }) => refund(id)))).to.deep.equal(payments.map(() => "settled"));
    expect((await Promise.all(payments.map(({ payer }) => received(payer)))).flat()).to.have.length(5);
  });

  it("T50 nothing is refunded once the statement is revoked or over, and the old one cannot be presented again", async () => {
    const { id, payer } = await paid();
    const statement = await signStatement(world, {
      provider,
      account: account.address,
      dailyCap: 10n * PRICE,
      version: ++version,
    });
    expect((await post(statement)).status).to.equal(200);
    expect((await post(statement)).status, "a repetition").to.equal(200);
    const { token } = world.contracts;
    const byReader = await (await clientOf(provider, ["read"])).revokeRefundAccount(token);
    expect(byReader.kind === "refused" && byReader.error.code).to.equal("ScopeMissing");
    const revoked = await refunding.revokeRefundAccount(token);
    expect(revoked.kind === "found" && revoked.value.revokedAt).to.be.a("number");
    expect((await post(statement)).json.code).to.equal("PayloadConflict");
    expect(await refund(id)).to.equal("PaymentNotAllowed refund_account");
    await name({ dailyCap: 100n * PRICE, validForSec: 2 });
    await world.chain.provider.send("evm_increaseTime", [3]);
    const over = (await world.nowSec()) + 2;
    await until(async () => (await world.nowSec()) >= over, "the statement is over");
    // Settles in a later block, so that the service has indexed the statement's end.
    await paid(await world.payer().then(({ address }) => address));
    expect(await refund(id)).to.equal("PaymentNotAllowed refund_account");
    expect(await received(payer)).to.deep.equal([]);
    await name({ dailyCap: 1_000_000_000n });
    expect(await refund(id)).to.equal("settled");
  });

  it("T51 a payment is refunded by its payee or automatically, never by both", async () => {
    const [first, second] = [await paid(), await paid()];
    const byHand = async ({ id, payer }: { id: Hex; payer: Address }, index: number) => {
      const target = { type: "payment", paymentId: id } as const;
      const signed = await signRefund(world, { account: provider, to: payer, amount: PRICE, target, index });
      const outcome = await service.client.refund(refundToWire(signed));
      return outcome.kind === "refused" ? outcome.error.code : outcome.kind;
    };
    expect(await byHand(first, 0)).to.equal("settled");
    expect(await refund(first.id)).to.match(/^PayloadConflict/);
    expect(await refund(second.id)).to.equal("settled");
    expect(await byHand(second, 0)).to.equal("PayloadConflict");
    expect(await byHand(second, 1)).to.equal("RefundExceedsPayment");
    expect(await received(first.payer)).to.deep.equal([]);
    expect(await received(second.payer)).to.deep.equal([PRICE]);
  });

  it("T51 a payment that its payee refunded as a payment, or by itself, is not refunded automatically", async () => {
    const [settled, submitted, first] = [await paid(), await paid(), await paid()];
    const signedFor = ({ id, payer }: { id: Hex; payer: Address }) =>
      signRefund(world, { account: provider, to: payer, amount: PRICE, target: { type: "payment", paymentId: id } });
    const settle = async (signed: RefundRequest) => {
      const { network, token, authorization, signature } = signed;
      const terms = { payTo: authorization.to, amount: PRICE, resource: RESOURCE, maxTimeoutSec: 20 };
      const exact = { network, token, ...terms, purchase: purchaseOfServer(), authorization, signature };
      const body = JSON.stringify(settleBody(exact, 2, world.chain.chainId));
      const ask = async (path: string) => {
        const headers = { "content-type": "application/json" };
        const answer = await fetch(`${service.url}${path}`, { method: "POST", headers, body });
        return (await answer.json()) as { readonly isValid?: boolean; readonly success?: boolean };
      };
      return [(await ask("/verify")).isValid, (await ask("/settle")).success];
    };
    expect(await settle(await signedFor(settled))).to.deep.equal([true, true]);
    expect(await refund(settled.id)).to.equal("PayloadConflict refund_index");
    expect(await received(settled.payer)).to.deep.equal([]);

    await fund(world.chain, provider.address);
    const { authorization: signed, signature } = await signedFor(submitted);
    const token = world.token.connect(walletOf(world.chain, provider.key)) as typeof world.token;
    const sent = await token.getFunction("transferWithAuthorization")(
      ...[signed.from, signed.to, signed.value, signed.validAfter, signed.validBefore, signed.nonce, signature],
    );
    await sent.wait();
    expect(await refund(submitted.id)).to.equal("PayloadConflict refund_index");
    expect(await received(submitted.payer)).to.deep.equal([]);

    expect(await refund(first.id)).to.equal("settled");
    expect(await settle(await signedFor(first)), "the nonce of a refund that was accepted").to.deep.equal([
      false,
      false,
    ]);
    expect(await refund(first.id)).to.equal("settled");
  });
});
