import { expect } from "chai";
import { Interface } from "ethers";
import type { Address, Hex } from "turnpike/protocol";
import type { Core } from "../../../facilitator/src/app/core";
import { createAccountReads } from "../../../facilitator/src/chain/account-reads";
import type { ChainReader } from "../../../facilitator/src/relayer";
import { GasBurnerToken__factory } from "../../../sdk/src/chain/generated";
import { type FacilitatorWorld, startWorld } from "../../support/facilitator";

describe("reading what a token knows of many payers", function () {
  this.timeout(120_000);
  let world: FacilitatorWorld;
  let core: Core;
  const calls = new Interface(["function balanceOf(address) view returns (uint256)"]);

  before(async () => {
    world = await startWorld();
    core = await world.core();
  });
  after(() => world.stop());

  it("answers for each as single calls do, in one question", async () => {
    const payers = await Promise.all([world.payer(1n), world.payer(0n), world.payer(2n ** 200n), world.payer(5n)]);
    const spent = await world.signPayment({ payer: await world.payer() });
    await core.payments.authorize(spent);
    const balanceAtBlock = core.indexer.applied();
    const queries = [
      ...payers.map(({ address: payer }) => ({
        token: world.contracts.token,
        payer,
        nonce: spent.authorization.nonce,
      })),
      { token: world.contracts.token, payer: spent.authorization.from, nonce: spent.authorization.nonce },
      { token: world.contracts.token, payer: world.contracts.turnpike, nonce: spent.authorization.nonce },
    ];
    let asked = 0;
    const call: ChainReader["call"] = (request) => {
      asked++;
      return core.relayer.chain.call(request);
    };
    const { facts: read } = createAccountReads({ ...core.relayer.chain, call });
    const facts = await Promise.all(queries.map((query) => read({ ...query, isPermit2: false, balanceAtBlock })));
    expect(asked, "one for the nonces, one for the balances").to.equal(2);
    for (const [place, { token, payer }] of queries.entries()) {
      const data = calls.encodeFunctionData("balanceOf", [payer]) as Hex;
      expect(facts[place]?.balance).to.equal(BigInt(await core.relayer.read({ to: token, data })));
    }
    expect(facts.map(({ isNonceUsed }) => isNonceUsed)).to.deep.equal([false, false, false, false, true, false]);
    expect(facts.map(({ hasCode }) => hasCode)).to.deep.equal([false, false, false, false, false, true]);
  });

  it("asks one by one where a node runs no creation calls, and takes no answer for an outage", async () => {
    const { chain } = core.relayer;
    const { address: payer } = await world.payer(7n);
    const nonce: Hex = `0x${"01".repeat(32)}`;
    const query = { token: world.contracts.token, payer, nonce, isPermit2: false, balanceAtBlock: -1 };
    const refusing = createAccountReads({
      ...chain,
      call: async (request) => (request.to ? chain.call(request) : { kind: "reverted", data: "0x", message: "no" }),
    });
    expect(await refusing.facts(query)).to.deep.equal({ hasCode: false, isNonceUsed: false, balance: 7n });
    const silent = createAccountReads({ ...chain, call: async () => ({ kind: "ok", data: "0x" }) });
    const refused = await silent.facts(query).catch((error: unknown) => error);
    expect(refused).to.include({ code: "Unavailable" });
    const noToken = await refusing.facts({ ...query, token: payer }).catch((error: unknown) => error);
    expect(noToken, "no account without code is a token").to.include({ code: "Unavailable" });
  });

  it("leaves the other payers answered when a token burns all gas that it is given", async () => {
    const { chain } = core.relayer;
    const burner = await new GasBurnerToken__factory(await world.chain.wallet("burner")).deploy();
    await burner.waitForDeployment();
    await (await burner.arm(true)).wait();
    const { address: payer } = await world.payer(7n);
    const nonce: Hex = `0x${"01".repeat(32)}`;
    const query = { token: world.contracts.token, payer, nonce, isPermit2: false, balanceAtBlock: -1 };
    const burning = { ...query, token: (await burner.getAddress()) as Address };
    let asked = 0;
    const call: ChainReader["call"] = (request) => {
      asked++;
      return chain.call(request);
    };
    const { facts } = createAccountReads({ ...chain, call });
    const failures = Array.from({ length: 99 }, () => facts(burning).catch((error: unknown) => error));
    expect(await facts(query)).to.deep.equal({ hasCode: false, isNonceUsed: false, balance: 7n });
    for (const failure of await Promise.all(failures)) expect(failure).to.include({ code: "Unavailable" });
    expect(asked, "one for the nonces, one for the balances").to.equal(2);
  });
});
