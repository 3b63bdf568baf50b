import { expect } from "chai";
import { type Ledger, memoryLedger } from "turnpike/agent";
import { refundAccountDigest } from "turnpike/facilitator";
import {
  type Address,
  type Hex,
  keccakText,
  refundNonce,
  signDigest,
  toHex,
  wordOfAddress,
  wordOfUint,
} from "turnpike/protocol";
import { bare, highS } from "../../support/signature-forms";
import { rejection } from "./support/rejection";
import { serve } from "./support/servers";
import { addressOf, agentFor, CHAIN_ID, marketBeforeEach, TOKEN, testKey } from "./support/world";

const PRICE = 500_000n;
const DAY_SEC = 86_400;
const TRANSACTION: Hex = `0x${"5e".repeat(32)}`;

interface OnChain {
  readonly account?: Address;
  readonly to?: Address;
  readonly amount?: bigint;
  readonly index?: number;
  readonly status?: string;
}

const topicOf = (address: Address): Hex => toHex(wordOfAddress(address));

describe("refunds to an agent", () => {
  const market = marketBeforeEach();
  let ledger: Ledger;
  let nowSec: number;
  const pay = (agent = agentOf()) => agent.pay(`${market.provider.url}/data`);
  const policy = { perPayment: PRICE, perDay: PRICE, tokens: [TOKEN] };
  const clock = { nowSec: () => nowSec };
  const agentOf = (more: object = {}) => agentFor(market.facilitator.url, { policy, ledger, clock, ...more }).agent;

  beforeEach(() => {
    ledger = memoryLedger();
    nowSec = 1_800_000_000;
  });

  /** A Facilitator that reports one refund of every payment. */
  const reporting = async (
    reported: { readonly amount?: bigint; readonly account?: Address; readonly naming?: object } = {},
  ) =>
    (
      await serve(({ url }) => {
        const { amount = PRICE, account = addressOf("provider"), naming } = reported;
        const refund = { index: 0, account, amount: String(amount), transaction: TRANSACTION, naming };
        const id = url.split("/").at(-1) ?? "";
        return { status: 200, json: { id, status: "settled", refunded: String(amount), refunds: [refund] } };
      })
    ).url;

  /** A node whose receipt has the refund of `paymentId`. */
  const node = async (paymentId: Hex, refund: OnChain = {}) =>
    (
      await serve(({ body }) => {
        const { id, method } = JSON.parse(body) as { id: number; method: string };
        const { account = addressOf("provider"), to = addressOf("payer"), amount = PRICE, index = 0 } = refund;
        const used = [
          keccakText("AuthorizationUsed(address,bytes32)"),
          topicOf(account),
          refundNonce(paymentId, index),
        ];
        const moved = [keccakText("Transfer(address,address,uint256)"), topicOf(account), topicOf(to)];
        const logs = [
          { address: TOKEN, topics: used, data: "0x" },
          { address: TOKEN, topics: moved, data: toHex(wordOfUint(amount)) },
        ];
        const receipt = { status: refund.status ?? "0x1", logs };
        return { status: 200, json: { jsonrpc: "2.0", id, result: method === "eth_chainId" ? CHAIN_ID : receipt } };
      })
    ).url;

  it("D18 are credited to the payment's own day, once, where its RPC proves them", async () => {
    const { receipt } = await pay();
    expect((await rejection(pay())).code).to.equal("PolicyRefused");
    const rpc = await node(receipt?.paymentId as Hex);
    const agent = agentOf({ rpc, facilitators: [market.facilitator.url, await reporting()] });
    const credited = await agent.creditRefunds();
    expect(credited.map((found) => ["paymentId" in found && found.paymentId, found.refunded])).to.deep.equal([
      [receipt?.paymentId, PRICE],
    ]);
    expect(await agent.creditRefunds(), "the same refund again").to.deep.equal([]);
    await pay();
    expect((await rejection(pay())).code).to.equal("PolicyRefused");
  });

  it("D18 are no budget of a later day", async () => {
    const { receipt } = await pay();
    nowSec += DAY_SEC;
    market.chain.nowSec = nowSec;
    const rpc = await node(receipt?.paymentId as Hex);
    const agent = agentOf({ rpc, facilitators: [market.facilitator.url, await reporting()] });
    expect(await agent.creditRefunds()).to.deep.equal([]);
    await pay();
    expect((await rejection(pay())).code).to.equal("PolicyRefused");
  });

  it("D18 are credited from an account that the payee has named by its own signature, and from no other", async () => {
    const { receipt } = await pay();
    const account = addressOf("stranger");
    const terms = { account, token: TOKEN, version: 1, expiresAt: nowSec, facilitator: addressOf("facilitator") };
    const statement = (signer: string, more: { dailyCap?: bigint; chainId?: number; token?: Address } = {}) => {
      const { chainId = CHAIN_ID, ...signed } = { ...terms, dailyCap: PRICE, ...more };
      const digest = refundAccountDigest({ ...signed, provider: addressOf("provider"), chainId });
      return { ...signed, dailyCap: String(PRICE), signature: signDigest(digest, testKey(signer)) };
    };
    const creditOf = async (naming: object | undefined) => {
      const rpc = await node(receipt?.paymentId as Hex, { account });
      const url = await reporting({ account, ...(naming && { naming }) });
      return agentOf({ rpc, facilitators: [market.facilitator.url, url] }).creditRefunds();
    };
    const forged = [
      undefined,
      statement("stranger"),
      statement("provider", { dailyCap: 1n }),
      statement("provider", { chainId: CHAIN_ID + 1 }),
      statement("provider", { token: account }),
      { ...statement("provider"), account: addressOf("payer") },
      { ...statement("provider"), signature: bare(highS(statement("provider").signature)) },
    ];
    for (const [index, naming] of forged.entries())
      expect(await creditOf(naming), `forgery ${index}`).to.deep.equal([]);
    const ledgerBefore = ledger;
    for (const form of [bare, (signature: Hex) => signature]) {
      ledger = ledgerBefore;
      const { signature, ...named } = statement("provider");
      expect(await creditOf({ ...named, signature: form(signature) })).to.have.length(form === bare ? 1 : 0);
    }
  });

  it("D18 are not credited on a Facilitator's word, nor by another transfer", async () => {
    const { receipt } = await pay();
    const paymentId = receipt?.paymentId as Hex;
    const honest = await reporting();
    const stranger = addressOf("stranger");
    const lies: readonly [object, OnChain | undefined][] = [
      [{}, undefined],
      [{}, { status: "0x0" }],
      [{}, { index: 1 }],
      [{}, { to: stranger }],
      [{}, { amount: PRICE - 1n }],
      [{}, { account: stranger }],
      [{ account: stranger }, { account: stranger }],
    ];
    for (const [reported, onChain] of lies) {
      const rpc = onChain && { rpc: await node(paymentId, onChain) };
      const url = Object.keys(reported).length > 0 ? await reporting(reported) : honest;
      const agent = agentOf({ ...rpc, facilitators: [market.facilitator.url, url] });
      expect(await agent.creditRefunds(), JSON.stringify(onChain?.index ?? onChain?.status)).to.deep.equal([]);
    }
    expect((await rejection(pay())).code).to.equal("PolicyRefused");
  });
});
