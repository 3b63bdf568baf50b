// What an item of a batch needs with a token as dear as the large dollars are, beside what the Facilitator gives it
// (GAS_PER_ITEM). The token is compiled here: it belongs to no deployment. GAS_PER_ITEM_TOLD=1 prints the figures.

import { readFileSync } from "node:fs";
import path from "node:path";
import { expect } from "chai";
import { Contract, ContractFactory, hexlify, randomBytes, Wallet } from "ethers";
import { ethers } from "hardhat";
import { PAYMENTS } from "../../facilitator/src/config/payments";
import { itOfDeployedCode } from "./support/deployed-code";

const FILE = "ProxiedDollar.sol";
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

interface Compiled {
  readonly abi: [];
  readonly evm: { readonly bytecode: { readonly object: string } };
}

/** Optimized as such tokens are. */
function compile(): Record<string, Compiled> {
  const content = readFileSync(path.join(__dirname, "support", FILE), "utf8");
  const input = {
    language: "Solidity",
    sources: { [FILE]: { content } },
    settings: {
      optimizer: { enabled: true, runs: 10_000 },
      evmVersion: "cancun",
      outputSelection: { "*": { "*": ["abi", "evm.bytecode.object"] } },
    },
  };
  const output = JSON.parse(require("solc").compile(JSON.stringify(input)));
  expect((output.errors ?? []).filter(({ severity }: { severity: string }) => severity === "error")).to.deep.equal([]);
  return output.contracts[FILE];
}

/** The service's default gas per item. */
const GIVEN = BigInt(PAYMENTS.gasPerItem.fallback ?? 0);

describe("BatchSettler with a token behind a proxy, with a denylist, and payees who hold nothing", function () {
  this.timeout(120_000);

  itOfDeployedCode("A14 the gas that each item is given is more than it needs, in a batch of any size", async () => {
    const [deployer] = await ethers.getSigners();
    const { ProxiedDollar, DollarProxy } = compile();
    const deploy = async (of: Compiled | undefined, ...args: unknown[]) => {
      const contract = await new ContractFactory(of?.abi ?? [], of?.evm.bytecode.object ?? "", deployer).deploy(
        ...args,
      );
      return (await contract.waitForDeployment()).getAddress();
    };
    const implementation = await deploy(ProxiedDollar);
    const address = await deploy(DollarProxy, implementation, `0x${"ad".repeat(20)}`);
    const token = new Contract(address, ProxiedDollar?.abi ?? [], deployer);
    await (await token.getFunction("initialize")("USD Coin")).wait();
    const settler = await ethers.deployContract("BatchSettler");
    const { chainId } = await ethers.provider.getNetwork();
    const domain = { name: "USD Coin", version: "2", chainId, verifyingContract: address };

    for (const size of BATCHES) {
      const payers = Array.from({ length: size }, () => new Wallet(hexlify(randomBytes(32))));
      // More than they pay: a balance that is left at nothing would cost less.
      await (
        await token.getFunction("mint")(
          payers.map((payer) => payer.address),
          VALUE * 2n,
        )
      ).wait();
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
      if (process.env.GAS_PER_ITEM_TOLD === "1") {
        console.log(`batch of ${size}: an item needs ${high} of ${GIVEN}; ${gasUsed / BigInt(size)} gas each in all`);
      }
      // Leaves a margin for more expensive tokens.
      expect(high < (GIVEN * 9n) / 10n, `an item of ${size} needs ${high} of ${GIVEN}`).to.equal(true);
    }
  });
});
