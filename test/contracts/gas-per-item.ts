// What an item of a batch needs with a token as dear as the large dollars are, beside what the Facilitator gives it
// (GAS_PER_ITEM). GAS_PER_ITEM_PRINT=1 prints the figures.

import { expect } from "chai";
import { hexlify, randomBytes, Wallet } from "ethers";
import { ethers } from "hardhat";
import { PAYMENTS } from "../../facilitator/src/config/payments";
import { deployDollar } from "../support/dollar";
import { itOfDeployedCode } from "./support/deployed-code";

const TYPES = {
  TransferWithAuthorization: [
    { name: "from", type: "address" },
    { name: "to", type: "address" },
    { name: "value", type: "uint256" },
    { name: "validAfter", type: "uint256" },
    { name: "validBefore", type: "uint256" },
    { name: "nonce", type: "bytes32" },
  ],
};
const VALUE = 250_000n;
const BATCHES = [1, 10, 127];

/** The service's default gas per item. */
const GIVEN = BigInt(PAYMENTS.gasPerItem.fallback ?? 0);

describe("BatchSettler with a token behind a proxy, with a denylist, and payees who hold nothing", () => {
  itOfDeployedCode("A14 the gas that each item is given is more than it needs, in a batch of any size", async () => {
    const token = await deployDollar("USD Coin");
    const address = await token.getAddress();
    const settler = await ethers.deployContract("BatchSettler");
    const { chainId } = await ethers.provider.getNetwork();
    const domain = { name: "USD Coin", version: "2", chainId, verifyingContract: address };

    for (const size of BATCHES) {
      const payers = Array.from({ length: size }, () => new Wallet(hexlify(randomBytes(32))));
      // More than they pay: a balance that is left at nothing would cost less.
      for (const payer of payers) await token.mint(payer, VALUE * 2n);
      const items = await Promise.all(
        payers.map(async (payer) => {
          const to = hexlify(randomBytes(20));
          const nonce = hexlify(randomBytes(32));
          const message = { from: payer.address, to, value: VALUE, validAfter: 0n, validBefore: 2n ** 40n, nonce };
          return { token: address, ...message, signature: await payer.signTypedData(domain, TYPES, message) };
        }),
      );
      const allMove = async (gasPerItem: bigint): Promise<boolean> => {
        const gasLimit = 2n ** 24n;
        const ok = await settler.getFunction("settle").staticCall(items, gasPerItem, { gasLimit });
        return ok.every(Boolean);
      };
      expect(await allMove(GIVEN), `a batch of ${size}`).to.equal(true);
      let [low, high] = [20_000n, GIVEN];
      while (high - low > 100n) {
        const middle = (low + high) / 2n;
        if (await allMove(middle)) high = middle;
        else low = middle;
      }
      const sent = await settler.getFunction("settle")(items, GIVEN, { gasLimit: 2n ** 24n });
      const gasUsed = (await sent.wait())?.gasUsed ?? 0n;
      if (process.env.GAS_PER_ITEM_PRINT === "1") {
        console.log(`batch of ${size}: an item needs ${high} of ${GIVEN}; ${gasUsed / BigInt(size)} gas each in all`);
      }
      // Leaves a margin for more expensive tokens.
      expect(high < (GIVEN * 9n) / 10n, `an item of ${size} needs ${high} of ${GIVEN}`).to.equal(true);
    }
  });
});
