// The scripts on Foundry's node, called as functions: their command lines are tested on Hardhat's node (deploy.ts).

import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { expect } from "chai";
import { Contract, Wallet } from "ethers";
import { createPlan, deprecatePlan, lensAddressOf, lensInterface, setOperator } from "turnpike/chain";
import type { Address } from "turnpike/protocol";
import { deploy } from "../../scripts/deploy";
import { readArtifact } from "../../scripts/deploy/artifact";
import { addressOf, CREATE2_DEPLOYER, create2 } from "../../scripts/deploy/create2";
import { isDevnet } from "../../scripts/deploy/genuine";
import { recordFile } from "../../scripts/deploy/record";
import { findAnvil, startAnvil } from "../support/anvil";
import { type Chain, testKey } from "../support/chain";
import { until } from "../support/sandbox";

const CONTRACTS = [
  ["turnpike", "contracts/Turnpike.sol", "Turnpike"],
  ["batchSettler", "contracts/BatchSettler.sol", "BatchSettler"],
] as const;

describe("scripts on a fresh anvil", function () {
  this.timeout(120_000);
  const anvil = findAnvil();
  if (!anvil) return void it.skip("which npm has not got for this platform");
  let chain: Chain;
  let directory: string;

  before(async () => {
    chain = await startAnvil(anvil, { chainId: 31_340 });
    directory = mkdtempSync(path.join(tmpdir(), "turnpike-anvil-"));
  });
  after(async () => {
    await chain.stop();
    rmSync(directory, { recursive: true, force: true });
  });
  const deployer = () => chain.wallet("deployer");
  const deployHere = async () => deploy({ signer: await deployer(), isDevnet: true, directory });

  it("know it for a devnet, deploy the committed bytes once, and record their addresses", async () => {
    expect(await isDevnet((method, parameters) => chain.provider.send(method, parameters))).to.equal(true);
    const record = await deployHere();
    expect(JSON.parse(readFileSync(path.join(directory, "local-31340.json"), "utf8"))).to.deep.equal(record);
    for (const [field, source, name] of CONTRACTS) {
      const artifact = readArtifact(source, name);
      const { address, block, transaction, initCodeHash } = record[field];
      expect(address, "depends on the bytes alone").to.equal(addressOf(artifact));
      const receipt = await chain.provider.getTransactionReceipt(String(transaction));
      expect(receipt).to.include({ blockNumber: block, to: CREATE2_DEPLOYER, status: 1 });
      expect(initCodeHash).to.equal(artifact.initCodeHash);
      expect(artifact.isRuntimeCode(await chain.provider.getCode(address))).to.equal(true);
    }
    const nonce = await chain.provider.getTransactionCount(await deployer());
    expect(await deployHere()).to.deep.equal(record);
    expect(await chain.provider.getTransactionCount(await deployer())).to.equal(nonce);
  });

  it("go on where another transaction created a contract first, as an interrupted run's does", async () => {
    const { provider } = chain;
    const batchSettler = readArtifact("contracts/BatchSettler.sol", "BatchSettler");
    const state = await provider.send("evm_snapshot", []);
    await provider.send("anvil_setCode", [addressOf(batchSettler), "0x"]);
    await provider.send("anvil_setNonce", [addressOf(batchSettler), "0x0"]);
    await provider.send("evm_setAutomine", [false]);
    try {
      const signers = await Promise.all([deployer(), chain.wallet("another deployer")]);
      const both = signers.map((signer) => create2(signer, batchSettler));
      await until("both in the pool", async () => (await provider.send("txpool_status", [])).pending === "0x2");
      await provider.send("evm_mine", []);
      const receipts = await Promise.all(both);
      expect(receipts.filter((receipt) => receipt?.status === 1)).to.have.length(1);
      expect(receipts.filter((receipt) => receipt === undefined)).to.have.length(1);
    } finally {
      await provider.send("evm_setAutomine", [true]);
      await provider.send("evm_revert", [state]);
    }
  });

  it("name the account that lacks gas money, and send nothing", async () => {
    const poor = new Wallet(testKey("poor deployer"), chain.provider);
    await chain.provider.send("anvil_setBalance", [poor.address, "0x1"]);
    const failure = await create2(poor as never, readArtifact("contracts/test/HookedToken.sol", "HookedToken")).catch(
      (error: Error) => error.message,
    );
    expect(failure)
      .to.contain(`The account ${poor.address} of TURNPIKE_DEPLOYER_KEY has 0.000000000000000001 ether on chain 31340`)
      .and.contain("send it ether for gas");
    expect(await chain.provider.getTransactionCount(poor.address)).to.equal(0);
  });

  it("write no public chain's record of a private one with its id, and send nothing", async () => {
    for (const chainId of [8_453, 84_532]) {
      const fake = await startAnvil(anvil, { chainId });
      try {
        const signer = await fake.wallet("deployer");
        const failure = await deploy({ signer, isDevnet: true }).catch((error: Error) => error.message);
        expect(failure).to.match(
          /is a development node, a fork perhaps, with the id of base-(mainnet|sepolia): name a node/,
        );
        expect(await fake.provider.getTransactionCount(signer.address)).to.equal(0);
        expect(existsSync(recordFile(chainId))).to.equal(false);
        expect((await deploy({ signer, isDevnet: true, directory })).chainId).to.equal(chainId);
      } finally {
        await fake.stop();
      }
    }
  });

  it("record the lens that Turnpike made, with the code that was compiled", async () => {
    const { turnpike, lens } = await deployHere();
    expect(lens).to.include({ address: lensAddressOf(turnpike.address as Address), block: turnpike.block });
    const { isRuntimeCode } = readArtifact("contracts/TurnpikeLens.sol", "TurnpikeLens");
    expect(isRuntimeCode(await chain.provider.getCode(lens.address))).to.equal(true);
    expect(lens.initCodeHash).to.not.equal(turnpike.initCodeHash);
  });

  it("refuse other code at a contract's address", async () => {
    const address = addressOf(readArtifact("contracts/BatchSettler.sol", "BatchSettler"));
    const right = await chain.provider.getCode(address);
    await chain.provider.send("anvil_setCode", [address, `${right.slice(0, -2)}ff`]);
    const failure = await deployHere().catch((error: Error) => error.message);
    expect(failure).to.equal(`The code at ${address} is not BatchSettler's.`);
    await chain.provider.send("anvil_setCode", [address, right]);
    await deployHere();
  });

  it("create a plan once, name an operator, and close the plan", async () => {
    const { turnpike, batchSettler } = await deployHere();
    const lens = new Contract(lensAddressOf(turnpike.address as Address), lensInterface, chain.provider);
    const signer = await deployer();
    // Any account with code will do for a token here.
    const terms = { token: batchSettler.address as Address, amount: 1_000_000n, intervalSec: 86_400, graceSec: 3_600 };
    const { planId, receipt } = await createPlan(signer, turnpike.address as Address, terms);
    expect(receipt?.status).to.equal(1);
    expect(await createPlan(signer, turnpike.address as Address, terms)).to.deep.equal({ planId, receipt: undefined });
    const operator = new Wallet(testKey("operator")).address as Address;
    for (const rights of [1, 0]) {
      await setOperator(signer, turnpike.address as Address, { planId, account: operator, rights });
      expect(await lens.getFunction("rightsOf")(planId, operator)).to.equal(BigInt(rights));
    }
    await deprecatePlan(signer, turnpike.address as Address, { planId });
    expect((await lens.getFunction("getPlan")(planId)).deprecated).to.equal(true);
  });

  it("refuse a chain without Cancun", async () => {
    const old = await startAnvil(anvil, { chainId: 31_341, hardfork: "shanghai" });
    try {
      const failure = await deploy({ signer: await old.wallet("deployer"), isDevnet: true, directory }).catch(
        (error: Error) => error.message,
      );
      expect(failure).to.contain("Chain 31341 does not run Cancun's opcodes");
    } finally {
      await old.stop();
    }
  });
});
