import { expect } from "chai";
import { type Ledger, memoryLedger } from "turnpike/agent";
import {
  chargeIdOf,
  debitIdOf,
  type Hex,
  refundNonce,
  signDigest,
  transferTypedData,
  typedDataDigest,
} from "turnpike/protocol";
import { startRpc } from "./support/hardhat-rpc";
import { rejection } from "./support/rejection";
import { advance, INTERVAL_SEC, PRICE, type Relay, relayBeforeEach } from "./support/relay";
import { serve } from "./support/servers";
import { addressOf, agentFor, CHAIN_ID, testKey } from "./support/world";

describe("refunds of a subscription's charges, judged by the chain", () => {
  let relay: Relay;
  let planId: Hex;
  let ledger: Ledger;
  let nowSec: number;
  let reports: Map<string, object>;
  let reporter: string;
  let rpc: string;

  relayBeforeEach((fresh) => {
    ({ relay, planId } = fresh);
  });
  beforeEach(async () => {
    ledger = memoryLedger();
    reports = new Map();
    nowSec = await relay.nowSec();
    rpc = (await startRpc()).url;
    const known = (id: string) => (reports.has(id) ? [reports.get(id)] : []);
    reporter = (
      await serve(({ url }) => {
        const id = url.split("/").at(-1) ?? "";
        return { status: 200, json: { id, refunds: known(id) } };
      })
    ).url;
  });

  const agentOf = (perDay: bigint, more: object = {}) =>
    agentFor(relay.url, {
      policy: { perPayment: PRICE, perDay, perSubscription: 3n * PRICE, tokens: [relay.addresses.token] },
      deployments: [deployment()],
      facilitators: [relay.url, reporter],
      clock: { nowSec: () => nowSec },
      ledger,
      rpc,
      ...more,
    }).agent;
  const deployment = () => ({ chainId: CHAIN_ID, turnpike: relay.addresses.turnpike });

  /** The payee's transfer back to the payer, under the nonce of the first refund of `id`. */
  async function refund(id: Hex, amount: bigint): Promise<Hex> {
    const [from, to] = [addressOf("treasury"), addressOf("payer")];
    const authorization = { from, to, value: amount, validAfter: 0n, validBefore: 2n ** 40n };
    const nonce = refundNonce(id, 0);
    const { token } = relay.addresses;
    const domain = { chainId: CHAIN_ID, token, name: "Test USD", version: "1" };
    const digest = typedDataDigest(transferTypedData(domain, { ...authorization, nonce }));
    const signature = signDigest(digest, testKey("treasury"));
    const transfer = relay.token["transferWithAuthorization(address,address,uint256,uint256,uint256,bytes32,bytes)"];
    const sent = await transfer(from, to, amount, 0n, 2n ** 40n, nonce, signature);
    await sent.wait();
    return sent.hash as Hex;
  }
  const report = (id: Hex, transaction: Hex, amount: bigint) =>
    reports.set(id, { index: 0, account: addressOf("treasury"), amount: amount.toString(), transaction });

  it("D18 a signup's refunded charge frees its own day's budget, once", async () => {
    const agent = agentOf(PRICE);
    const { idHash, version, paidThroughSec: paidThrough } = await agent.subscribe({ planId });
    const other = await relay.createPlan();
    expect((await rejection(agent.subscribe({ planId: other }))).reason).to.equal("per_day");
    const id = chargeIdOf(deployment(), { idHash, version, paidThrough });
    report(id, await refund(id, PRICE), PRICE);
    expect(await agentOf(PRICE, { rpc: undefined }).creditRefunds(), "on a Facilitator's word").to.deep.equal([]);
    const [credited, ...rest] = await agent.creditRefunds();
    expect(credited).to.include({ idHash, refunded: PRICE, amount: PRICE });
    expect(rest).to.deep.equal([]);
    expect(await agent.creditRefunds(), "the same refund again").to.deep.equal([]);
    expect((await agent.subscribe({ planId: other })).status).to.equal("ACTIVE");
    expect((await rejection(agent.subscribe({ planId, another: true }))).reason).to.equal("per_day");
  });

  it("D18 a plan change's refunded charge is credited in part", async () => {
    const agent = agentOf(3n * PRICE);
    const subscription = await agent.subscribe({ planId });
    const dear = await relay.createPlan({ amount: 2n * PRICE });
    const { idHash, version, paidThroughSec: paidThrough } = await agent.changePlan(subscription, { planId: dear });
    const id = chargeIdOf(deployment(), { idHash, version, paidThrough });
    report(id, await refund(id, 7n), 7n);
    expect((await agent.creditRefunds()).map(({ refunded }) => refunded)).to.deep.equal([7n]);
  });

  it("D18 a refund of a debit or a renewal, or of another day, frees nothing: they were never in this budget", async () => {
    const agent = agentOf(PRICE);
    const subscription = await agent.subscribe({ planId });
    const { idHash, version, paidThroughSec } = subscription;
    const signup = chargeIdOf(deployment(), { idHash, version, paidThrough: paidThroughSec });
    const debit = debitIdOf(deployment(), { idHash, index: 0 });
    await advance(INTERVAL_SEC);
    await relay.turnpike.renew(idHash);
    const renewal = chargeIdOf(deployment(), { idHash, version, paidThrough: paidThroughSec + INTERVAL_SEC });
    for (const id of [debit, renewal]) {
      const transaction = await refund(id, PRICE / 2n);
      report(id, transaction, PRICE / 2n);
      // Said to refund the signup's charge, which another nonce would do.
      report(signup, transaction, PRICE / 2n);
      expect(await agent.creditRefunds()).to.deep.equal([]);
    }
    nowSec += 86_400;
    report(signup, await refund(signup, PRICE), PRICE);
    expect(await agent.creditRefunds()).to.deep.equal([]);
  });
});
