/** What is signed for a subscription, or for a refund, while a local chain that makes blocks on demand has been quiet. */
import { expect } from "chai";
import { ethers } from "hardhat";
import { type VoucherRequest, walletFromKey } from "turnpike/agent";
import { issueVoucher } from "turnpike/chain";
import { submitRefund } from "turnpike/facilitator";
import { type Hex, keccakText } from "turnpike/protocol";
import { startRpc } from "./support/hardhat-rpc";
import { rejection } from "./support/rejection";
import { PRICE, type Relay, relayBeforeEach } from "./support/relay";
import { addressOf, agentFor, CHAIN_ID, NETWORK, testKey } from "./support/world";

const QUIET_SEC = 7_200;

const wallSec = (): number => Math.floor(Date.now() / 1_000);

describe("agent: windows on a quiet local chain", () => {
  let relay: Relay;
  let planId: Hex;
  let signed: { readonly type: string; readonly deadline: number }[];

  relayBeforeEach((fresh) => {
    ({ relay, planId } = fresh);
  });
  beforeEach(() => {
    signed = [];
  });

  /** By a wallet that signs no signup. */
  async function subscribe(more: object): Promise<Error & { reason?: string }> {
    const late = { timestamp: `0x${(wallSec() - QUIET_SEC).toString(16)}` };
    const rpc = await startRpc((method, result) =>
      method === "eth_getBlockByNumber" ? { ...(result as object), ...late } : result,
    );
    const own = walletFromKey(testKey("payer"));
    const wallet: typeof own = {
      ...own,
      signTypedData: async (domain, types, message) => {
        const type = Object.keys(types)[0] ?? "";
        const { deadline } = message as { deadline?: bigint };
        if (deadline !== undefined) signed.push({ type, deadline: Number(deadline) });
        if (type === "Subscribe") throw new Error("shown");
        return own.signTypedData(domain, types, message);
      },
    };
    const { agent } = agentFor(relay.url, {
      policy: { perPayment: PRICE, perDay: 10n * PRICE, tokens: [relay.addresses.token] },
      deployments: [{ chainId: CHAIN_ID, turnpike: relay.addresses.turnpike }],
      rpc: rpc.url,
      wallet,
    });
    return rejection(agent.subscribe({ planId, ...more }));
  }

  const voucherUntil = (deadlineSec: number) => async (request: VoucherRequest) => {
    const [, provider] = await ethers.getSigners();
    const terms = { firstAmount: 0n, firstInterval: 86_400, deadlineSec };
    return issueVoucher(provider ?? expect.fail("Hardhat has accounts"), request, { ...request, ...terms });
  };

  it("signs windows that the next block is within, with a voucher and an end that are not over", async () => {
    const soon = wallSec() + 60;
    for (const more of [{}, { voucher: voucherUntil(soon) }, { until: soon }]) await subscribe(more);
    expect(signed.filter(({ type }) => type === "Subscribe")).to.have.length(3);
    for (const { type, deadline } of signed) expect(deadline, type).to.be.above(wallSec() + 30);
  });

  it("signs no signup for a voucher or an end that has passed since the last block", async () => {
    const passed = wallSec() - 60;
    expect(await subscribe({ voucher: voucherUntil(passed) })).to.include({ reason: "voucher" });
    expect((await subscribe({ until: passed })).message).to.include("is not in the future");
    expect(signed.map(({ type }) => type)).to.not.include("Subscribe");
  });

  it("signs refunds that the next block is within", async () => {
    const { token, turnpike } = relay.addresses;
    const payer = addressOf("payer");
    const found = { chainId: CHAIN_ID, network: NETWORK, tokenName: "Test USD", tokenVersion: "1" };
    const client = {
      account: async () => ({ kind: "found", value: { ...found, chainTimeSec: wallSec() - QUIET_SEC } }),
      refund: async () => expect.fail("nothing was signed"),
    };
    const refund = submitRefund(client as never, {
      target: { type: "payment", paymentId: keccakText("payment") },
      amount: 1n,
      token,
      payer,
      account: payer,
      deployment: { chainId: CHAIN_ID, turnpike },
      sign: async ({ message }) => {
        throw new Error(String(message.validBefore));
      },
    });
    const shown = await refund.catch((error: Error) => error.message);
    expect(Number(shown)).to.be.above(wallSec() + 30);
  });
});
