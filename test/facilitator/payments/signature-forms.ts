/** Wallets write the v of a signature as 27 and 28, or as 0 and 1. Tokens and contracts read the first form alone. */
import { expect } from "chai";
import { ContractFactory } from "ethers";
import type { ChangeOutcome, SubscriptionChange, X402RequestWire } from "turnpike/facilitator";
import {
  type Address,
  type Hex,
  PERMIT2,
  personalDigest,
  randomBytes,
  secretHashOf,
  signDigest,
  toHex,
  typedDataDigest,
  voidTypedData,
} from "turnpike/protocol";
import { readArtifact } from "../../../scripts/deploy/artifact";
import { placePermit2 } from "../../../scripts/sandbox/permit2";
import { testKey } from "../../support/chain";
import { fund, type Payer } from "../../support/facilitator";
import { approvedPayer, signPermit2 } from "../../support/permit2";
import { bare, highS } from "../../support/signature-forms";
import { JSON_TYPE } from "../support/http-service";
import { paymentToWire, settleBody } from "../support/payments";
import { refundAccountFor, refundToWire, signRefund, signStatement } from "../support/refunds";
import { type Service, type ServiceWorld, startServiceWorld } from "../support/service";

const FUNDS = 1_000_000_000n;

describe("Facilitator: signatures with a v of 0 or 1", function () {
  this.timeout(120_000);
  let world: ServiceWorld;
  let service: Service;
  let refunds: Awaited<ReturnType<typeof refundAccountFor>>;
  before(async () => {
    world = await startServiceWorld();
    await placePermit2(world.chain);
    refunds = await refundAccountFor(world, world.payee);
    const settings = { PERMIT2: "true", RENEWALS: "false", ACTS_PER_HOUR: "1000", ...refunds.settings };
    service = await world.service(settings);
  });
  after(() => world?.stop());

  const done = (outcome: ChangeOutcome): SubscriptionChange => {
    if (outcome.kind !== "done") throw new Error(`not done: ${JSON.stringify(outcome)}`);
    return outcome.change;
  };
  const post = (path: string, body: object) =>
    fetch(service.url + path, {
      method: "POST",
      headers: JSON_TYPE,
      body: JSON.stringify(body, (_, value) => (typeof value === "bigint" ? String(value) : value)),
    });
  const refusalOf = async (response: Response) => ((await response.json()) as { code: string }).code;
  const barePayload = (request: X402RequestWire, form = (signature: string) => signature): X402RequestWire => {
    const { payload } = request.paymentPayload;
    return {
      ...request,
      paymentPayload: { ...request.paymentPayload, payload: { ...payload, signature: bare(form(payload.signature)) } },
    } as X402RequestWire;
  };

  it("settles native payments, and knows the other form as the same one", async () => {
    const signed = paymentToWire(await world.signPayment());
    const first = await service.client.authorize({ ...signed, signature: bare(signed.signature) });
    if (first.kind !== "settled") expect.fail(JSON.stringify(first));
    expect(await service.client.authorize(signed)).to.deep.equal(first);
    const { proof } = first;
    const wire = { ...proof, amount: String(proof.amount), signature: bare(proof.signature) };
    // A proof is made by a Facilitator, which writes 27 or 28: another form of it is a forgery.
    expect(await service.client.verifyProof(wire)).to.deep.equal({ valid: false, reason: "signature" });
    const other = paymentToWire(await world.signPayment());
    const high = await service.client.authorize({ ...other, signature: bare(highS(other.signature)) });
    expect(high.kind === "refused" && high.error.code).to.equal("InvalidSignature");
  });

  for (const version of [1, 2] as const) {
    it(`verifies and settles x402 payments of version ${version}`, async () => {
      const request = barePayload(settleBody(await world.signExact(), version, world.chain.chainId));
      expect(await service.client.x402Verify(request)).to.include({ isValid: true });
      expect(await service.client.x402Settle(request)).to.include({ success: true });
      const high = settleBody(await world.signExact(), version, world.chain.chainId);
      const refused = await service.client.x402Verify(barePayload(high, highS));
      expect(refused, "a high s")
        .to.include({ isValid: false })
        .and.to.have.property("invalidReason")
        .that.matches(/signature/);
    });
  }

  it("verifies and settles payments over Permit2, which takes a high s itself", async () => {
    const payer = await approvedPayer(world);
    const approved = barePayload(await signPermit2(world, { payer }));
    expect(await service.client.x402Verify(approved)).to.include({ isValid: true });
    expect(await service.client.x402Settle(approved)).to.include({ success: true });
    const high = barePayload(await signPermit2(world, { payer }), highS);
    expect(await service.client.x402Verify(high)).to.deep.include({
      isValid: false,
      invalidReason: "invalid_permit2_signature",
    });
  });

  it("settles payments over Permit2 whose permit brings the approval, and refuses a high s of it", async () => {
    for (const form of [bare, highS]) {
      const payer = await world.payer(FUNDS);
      const { value: amount, ...permit } = await world.permit(payer, 250_000n, undefined, PERMIT2);
      const info = {
        ...{ from: payer.address, asset: world.contracts.token, spender: PERMIT2, amount, nonce: "0", version: "1" },
        ...{ ...permit, signature: form(permit.signature) },
      };
      const request = barePayload(await signPermit2(world, { payer, info }));
      const verdict = await service.client.x402Verify(request);
      if (form === highS) {
        expect(verdict).to.include({ isValid: false, invalidReason: "invalid_eip2612_extension_format" });
        continue;
      }
      expect(verdict).to.include({ isValid: true });
      expect(await service.client.x402Settle(request)).to.include({ success: true });
    }
  });

  it("settles refunds, and takes the account of automatic ones by its payee's signature", async () => {
    const signed = await world.signPayment();
    await service.client.authorize(paymentToWire(signed));
    const key = testKey("payee") as Hex;
    const target = { type: "payment", paymentId: world.idOf(signed) } as const;
    const account = { key, address: world.payee };
    const refund = await signRefund(world, { account, to: signed.authorization.from, amount: 250_000n, target });
    const high = await service.client.refund(refundToWire({ ...refund, signature: bare(highS(refund.signature)) }));
    expect(high.kind === "refused" && high.error.code).to.equal("InvalidSignature");
    const answer = await service.client.refund(refundToWire({ ...refund, signature: bare(refund.signature) }));
    expect(answer.kind, JSON.stringify(answer)).to.equal("settled");

    const named = { provider: account, account: refunds.account.address, dailyCap: 1_000_000n };
    const statement = await signStatement(world, named);
    const refused = await post("/refund-accounts", { ...statement, signature: bare(highS(statement.signature)) });
    expect(await refusalOf(refused)).to.equal("InvalidSignature");
    for (const signature of [bare(statement.signature), statement.signature]) {
      const taken = await post("/refund-accounts", { ...statement, signature });
      expect(taken.status, await taken.text()).to.equal(200);
    }
  });

  it("submits signups with vouchers and permits, changes and voids, each once in either form", async () => {
    const subscriber = await world.payer(FUNDS);
    const voucher = { firstAmount: 100n, firstInterval: 0 };
    const { idHash, request } = await world.signup(subscriber, { permit: FUNDS, voucher });
    const inZero = {
      ...request,
      signature: bare(request.signature),
      ...(request.permit && { permit: { ...request.permit, signature: bare(request.permit.signature) } }),
      ...(request.voucher && { voucher: { ...request.voucher, signature: bare(request.voucher.signature) } }),
    };
    const [created, same] = await Promise.all([service.client.subscribe(inZero), service.client.subscribe(request)]);
    expect(done(created).transaction).to.equal(done(same).transaction);

    const pause = await world.change("pause", subscriber, { idHash });
    const paused = { ...pause, signature: bare(pause.signature) };
    const outcomes = await Promise.all(
      [paused, pause].map((each) => service.client.change({ idHash, act: "pause", request: each })),
    );
    expect(new Set(outcomes.map((outcome) => done(outcome).transaction)).size).to.equal(1);

    const secretHash = secretHashOf(toHex(randomBytes(32)));
    const { chainId } = world.chain;
    const message = { subscriber: subscriber.address, secretHash, deadline: 2n ** 40n };
    const data = voidTypedData({ chainId, turnpike: world.contracts.turnpike }, message);
    const signature = bare(signDigest(typedDataDigest(data), subscriber.key));
    done(
      await service.client.void({ subscriber: subscriber.address, secretHash, deadline: String(2n ** 40n), signature }),
    );
  });

  it("refuses a high s of signups, vouchers, permits, changes and voids, and submits none", async () => {
    const subscriber = await world.payer(FUNDS);
    const voucher = { firstAmount: 100n, firstInterval: 0 };
    const { idHash, request } = await world.signup(subscriber, { permit: FUNDS, voucher });
    const malleated = (signed: { signature: Hex } | undefined) => ({
      ...signed,
      signature: bare(highS(signed?.signature ?? "")),
    });
    const codeOf = (outcome: ChangeOutcome) => outcome.kind === "refused" && outcome.error.code;
    expect(codeOf(await service.client.subscribe({ ...request, ...malleated(request) }))).to.equal("InvalidSignature");
    const withVoucher = { ...request, voucher: malleated(request.voucher) } as typeof request;
    expect(codeOf(await service.client.subscribe(withVoucher))).to.equal("InvalidSignature");
    const withPermit = await post("/subscriptions", { ...request, permit: malleated(request.permit) });
    expect(await refusalOf(withPermit)).to.equal("InvalidRequest");

    const permit = { token: world.contracts.token, owner: subscriber.address, ...request.permit };
    const high = await post("/permits", { ...permit, ...malleated(request.permit) });
    expect(await high.text()).to.match(/InvalidRequest.*signature.*low s/);
    const taken = await post("/permits", { ...permit, signature: bare(request.permit?.signature ?? "") });
    expect(taken.status, await taken.text()).to.be.oneOf([200, 202]);

    done(await service.client.subscribe(request));
    const pause = await world.change("pause", subscriber, { idHash });
    const changed = await service.client.change({ idHash, act: "pause", request: { ...pause, ...malleated(pause) } });
    expect(codeOf(changed)).to.equal("InvalidSignature");
    const voiding = world.voiding(subscriber, secretHashOf(toHex(randomBytes(32))));
    expect(codeOf(await service.client.void({ ...voiding, ...malleated(voiding) }))).to.equal("InvalidSignature");
  });

  it("gives API keys", async () => {
    const wallet = await world.payer(0n);
    const wanted = { provider: wallet.address, name: "a key", scopes: ["read"] };
    const challenge = await (await post("/keys/challenge", wanted)).json();
    const signature = signDigest(personalDigest(challenge.message), wallet.key);
    const { challenge: text, expiresAt } = challenge;
    const given = { ...wanted, challenge: text, expiresAt };
    const high = await post("/keys", { ...given, signature: bare(highS(signature)) });
    expect(await refusalOf(high)).to.equal("InvalidSignature");
    const response = await post("/keys", { ...given, signature: bare(signature) });
    expect(response.status, await response.text()).to.equal(201);
  });

  it("leaves the bytes of a contract wallet as they are", async () => {
    const owner = await world.payer(0n);
    const deployer = await world.chain.wallet("deployer of a wallet");
    await fund(world.chain, deployer.address as Address);
    const { initCode } = readArtifact("contracts/test/TestWallets.sol", "TestWallet");
    const contract = await new ContractFactory(["constructor(address)"], initCode, deployer).deploy(owner.address);
    await contract.waitForDeployment();
    const wallet: Payer = { key: owner.key, address: (await contract.getAddress()) as Address };
    const { request } = await world.signup(wallet, {});
    const outcome = await service.client.subscribe({ ...request, signature: bare(request.signature) });
    expect(outcome.kind === "refused" && outcome.error.code, "the wallet reads 27 and 28 alone").to.equal(
      "InvalidSignature",
    );
  });
});
