import { expect } from "chai";
import { findPermit2Settlement, type Rpc, tokenInterface, uptoProxyInterface } from "turnpike/chain";
import { type Address, checksum, type Hex, keccakText, permit2NonceOf, UPTO_PERMIT2_PROXY } from "turnpike/protocol";

const addressOf = (digits: string): Address => checksum(`0x${digits.repeat(20)}` as Hex);

const [token, payer, payTo, other] = ["70", "71", "72", "73"].map(addressOf) as [Address, Address, Address, Address];

const FACTS = { token, payer, payTo, amount: 120_000n, nonce: 7n };

const EXPECTED = { ...FACTS, nonce: permit2NonceOf(FACTS.nonce), transaction: keccakText("transaction") };

interface Shown {
  readonly call?: Partial<typeof FACTS>;
  readonly log?: Partial<typeof FACTS>;
  readonly to?: Address;
  readonly status?: string;
  /** the node's newest block */
  readonly head?: string;
}

/** A node that shows one transaction: a call of the proxy in block 5, and the token's transfer. */
function nodeWith({ call = {}, log = {}, to = UPTO_PERMIT2_PROXY, status = "0x1", head = "0x6" }: Shown): Rpc {
  const called = { ...FACTS, ...call };
  const permit = [[called.token, 500_000n], called.nonce, 1_800_000_000n];
  const witness = [called.payTo, other, 0n];
  const args = [permit, called.amount, called.payer, witness, "0x11"];
  const input = uptoProxyInterface.encodeFunctionData("settle", args);
  const moved = { ...FACTS, ...log };
  const event = tokenInterface.encodeEventLog("Transfer", [moved.payer, moved.payTo, moved.amount]);
  const answers: Readonly<Record<string, unknown>> = {
    eth_getTransactionByHash: { to: to.toLowerCase(), input },
    eth_getTransactionReceipt: { status, blockNumber: "0x5", logs: [{ address: moved.token, ...event }] },
    eth_blockNumber: head,
  };
  return { send: async (method: string) => answers[method] } as unknown as Rpc;
}

describe("chain > payments over Permit2", () => {
  const find = (shown: Shown, confirmations = 1) =>
    findPermit2Settlement(nodeWith(shown), { ...EXPECTED, confirmations });

  it("are shown by a direct call of the proxy and the token's transfer, at the required depth", async () => {
    expect(await find({})).to.equal("settled");
    expect(await find({}, 2)).to.equal("settled");
    expect(await find({}, 3)).to.equal("shallow");
  });

  it("are not deep enough by a receipt that is ahead of the node's newest block", async () => {
    for (const head of ["0x4", "0x5"]) expect(await find({ head }, 2), head).to.equal("shallow");
    expect(await find({ head: "0x6" }, 2)).to.equal("settled");
  });

  it("HU8 are not shown by another payment, a failed call, or a call of something else", async () => {
    const others = { token: other, payer: other, payTo: other, amount: 120_001n, nonce: 8n };
    for (const name of Object.keys(others) as (keyof typeof others)[]) {
      const changed = { [name]: others[name] };
      expect(await find({ call: changed }), `call: ${name}`).to.equal("absent");
      if (name !== "nonce") expect(await find({ log: changed }), `log: ${name}`).to.equal("absent");
    }
    expect(await find({ status: "0x0" })).to.equal("absent");
    expect(await find({ to: other })).to.equal("absent");
  });
});
