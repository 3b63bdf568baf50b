/** Wallets write the v of a signature as 27 and 28, or as 0 and 1. Tokens and contracts read the first form alone. */
import { expect } from "chai";
import { ContractFactory } from "ethers";
import type { ChangeOutcome, SubscriptionChange, X402RequestWire } from "turnpike/facilitator";
import {
  type Address,
  type Hex,
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
import { JSON_TYPE } from "../support/http-service";
import { paymentToWire, settleBody } from "../support/payments";
import { refundToWire, signRefund } from "../support/refunds";
import { type Service, type ServiceWorld, startServiceWorld } from "../support/service";

const FUNDS = 1_000_000_000n;

const bare = <S extends string>(signature: S) =>
  `${signature.slice(0, 130)}${signature.toLowerCase().endsWith("1b") ? "00" : "01"}` as Hex;

const ORDER = 0xfffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141n;

const highS = (signature: string) => {
  const s = (ORDER - BigInt(`0x${signature.slice(66, 130)}`)).toString(16).padStart(64, "0");
  return `${signature.slice(0, 66)}${s}${signature.endsWith("1b") ? "1c" : "1b"}`;
};

describe("Facilitator: signatures with a v of 0 or 1", function () {
  this.timeout(120_000);
  let world: ServiceWorld;
  let service: Service;
  before(async () => {
    world = await startServiceWorld();
    await placePermit2(world.chain);
    service = await world.service({ PERMIT2: "true", RENEWALS: "false", ACTS_PER_HOUR: "1000" });
  });
  after(() => world?.stop());

  const done = (outcome: ChangeOutcome): SubscriptionChange => {
    if (outcome.kind !== "done") throw new Error(`not done: ${JSON.stringify(outcome)}`);
    return outcome.change;
  };
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

  it("verifies and settles payments over Permit2", async () => {
    const approved = barePayload(await signPermit2(world, { payer: await approvedPayer(world) }));
    expect(await service.client.x402Verify(approved)).to.include({ isValid: true });
    expect(await service.client.x402Settle(approved)).to.include({ success: true });
  });

  it("settles refunds", async () => {
    const signed = await world.signPayment();
    await service.client.authorize(paymentToWire(signed));
    const key = testKey("payee") as Hex;
    const target = { type: "payment", paymentId: world.idOf(signed) } as const;
    const account = { key, address: world.payee };
    const refund = await signRefund(world, { account, to: signed.authorization.from, amount: 250_000n, target });
    const answer = await service.client.refund(refundToWire({ ...refund, signature: bare(refund.signature) }));
    expect(answer.kind, JSON.stringify(answer)).to.equal("settled");
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

  it("gives API keys", async () => {
    const call = (path: string, body: object) =>
      fetch(service.url + path, { method: "POST", headers: JSON_TYPE, body: JSON.stringify(body) });
    const wallet = await world.payer(0n);
    const wanted = { provider: wallet.address, name: "a key", scopes: ["read"] };
    const challenge = await (await call("/keys/challenge", wanted)).json();
    const signature = bare(signDigest(personalDigest(challenge.message), wallet.key));
    const { challenge: text, expiresAt } = challenge;
    const response = await call("/keys", { ...wanted, challenge: text, expiresAt, signature });
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
