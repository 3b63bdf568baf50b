// The creation call that reads what tokens say of many accounts: nothing is deployed.

import { expect } from "chai";
import { AbiCoder, type BytesLike, type Result, ZeroHash } from "ethers";
import { ethers } from "hardhat";
import type { AccountLens } from "../../sdk/src/chain/generated";
import * as c from "../support/contracts";
import { loadFixture } from "../support/fixture";
import { itOfDeployedCode } from "./support/deployed-code";

type Query = AccountLens.QueryStruct;

const BALANCE_OF = "0x70a08231";
const ALLOWANCE = "0xdd62ed3e";
const APPROVE = "0x095ea7b3";
const TRANSFER = "0xa9059cbb";

/** EIP-7825: the most gas of a transaction. */
const MAX_GAS = 16_777_216n;

async function ask(queries: Query[]): Promise<unknown[]> {
  const { data } = await (await ethers.getContractFactory("AccountLens")).getDeployTransaction(queries);
  const encoded = await ethers.provider.call({ data, gasLimit: MAX_GAS });
  return decode(encoded);
}

function decode(encoded: BytesLike): unknown[] {
  const [answers] = AbiCoder.defaultAbiCoder().decode(
    ["tuple(uint256 codeSize, bool answered, uint256 word)[]"],
    encoded,
  );
  return [...(answers as Result)].map((answer: Result) => answer.toObject());
}

describe("AccountLens", () => {
  /** The fixture's token, and one that burns the gas of every view. */
  async function fixture() {
    const w = await c.world();
    const burner = await ethers.deployContract("GasBurnerToken");
    await burner.arm(true);
    return { ...w, burner };
  }

  it("returns the code size of each account and the word of each view, in the queries' order", async () => {
    const w = await loadFixture(fixture);
    const spender = ethers.zeroPadValue(await w.turnpike.getAddress(), 32);
    const size = (await ethers.provider.getCode(w.settler)).length / 2 - 1;
    const balance = await w.token.balanceOf(w.subscriber);
    const answers = await ask([
      { token: w.token, account: w.subscriber, selector: BALANCE_OF, argument: ZeroHash },
      { token: w.token, account: w.subscriber, selector: ALLOWANCE, argument: spender },
      { token: w.token, account: w.settler, selector: BALANCE_OF, argument: ZeroHash },
    ]);
    expect(answers).to.deep.equal([
      { codeSize: 0n, answered: true, word: balance },
      { codeSize: 0n, answered: true, word: c.FOREVER },
      { codeSize: BigInt(size), answered: true, word: 0n },
    ]);
    expect(await ask([])).to.deep.equal([]);
  });

  it("takes a revert, a write and an account without code for no answer", async () => {
    const w = await loadFixture(fixture);
    const account = w.subscriber;
    const none = { codeSize: 0n, answered: false, word: 0n };
    const answers = await ask([
      // Reverts with an error of more than a word, since the sender holds nothing.
      { token: w.token, account, selector: TRANSFER, argument: ethers.toBeHex(1n, 32) },
      { token: w.token, account, selector: APPROVE, argument: ZeroHash },
      { token: w.stranger, account, selector: BALANCE_OF, argument: ZeroHash },
    ]);
    expect(answers).to.deep.equal([none, none, none]);
  });

  itOfDeployedCode("answers about the last of a hundred accounts after 99 tokens have burned their gas", async () => {
    const w = await loadFixture(fixture);
    const query = { account: w.subscriber, selector: BALANCE_OF, argument: ZeroHash };
    const burning = Array.from({ length: 99 }, () => ({ ...query, token: w.burner }));
    const answers = await ask([...burning, { ...query, token: w.token }]);
    expect(answers.slice(0, 99)).to.deep.equal(burning.map(() => ({ codeSize: 0n, answered: false, word: 0n })));
    expect(answers[99]).to.include({ answered: true, word: await w.token.balanceOf(w.subscriber) });
  });
});
