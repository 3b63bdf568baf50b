// What belongs to the whole: multicall, batched reads, the domain, the layout of storage, and the limits of the code.

import { loadFixture } from "@nomicfoundation/hardhat-network-helpers";
import { expect } from "chai";
import { id, ZeroAddress, ZeroHash } from "ethers";
import { artifacts, ethers } from "hardhat";
import * as c from "../support/contracts";
import { itOfDeployedCode } from "./support/deployed-code";

const EIP170_LIMIT = 24_576;

interface StorageLayout {
  storage: { label: string; slot: string; offset: number; type: string }[];
  types: Record<string, { label: string; numberOfBytes: string; members?: { label: string; slot: string }[] }>;
}

async function layoutOf(name: string): Promise<StorageLayout> {
  const info = await artifacts.getBuildInfo(name);
  const [file = "", contract = ""] = name.split(":");
  const output = c.present(c.present(info).output.contracts[file]?.[contract]);
  return (output as unknown as { storageLayout: StorageLayout }).storageLayout;
}

describe("Turnpike", () => {
  describe("multicall", () => {
    it("does all or nothing, as the caller, and returns each answer", async () => {
      const w = await loadFixture(c.world);
      const secretHash = c.freshSecretHash();
      const idHash = await w.turnpike.idHashOf(w.subscriber, secretHash);
      const encode = w.turnpike.interface.encodeFunctionData.bind(w.turnpike.interface);
      const calls = [encode("subscribe", [w.planId, secretHash, 5n]), encode("pause", [idHash])];
      const me = w.turnpike.connect(w.subscriber);
      expect((await me.multicall.staticCall(calls))[0]).to.equal(idHash);
      await me.multicall(calls);
      expect((await c.recordOf(w, idHash)).paused).to.equal(true);

      const before = await c.recordOf(w, idHash);
      await expect(me.multicall([encode("setMaxOverage", [idHash, 9n]), encode("pause", [idHash])]))
        .to.be.revertedWithCustomError(w.turnpike, "SubscriptionNotActive")
        .withArgs(idHash, c.Status.PAUSED);
      expect(await c.recordOf(w, idHash)).to.deep.equal(before);
    });

    it("makes no one the subscriber, the provider or the contract itself, also nested", async () => {
      const w = await loadFixture(c.world);
      const s = await c.subscribe(w);
      const encode = w.turnpike.interface.encodeFunctionData.bind(w.turnpike.interface);
      const stranger = w.turnpike.connect(w.stranger);
      const attempts: [string, string][] = [
        [encode("pause", [s.idHash]), "NotSubscriber"],
        [encode("deprecatePlan", [w.planId, ZeroHash]), "NotProvider"],
        [encode("renewInner", [s.idHash]), "OnlySelf"],
      ];
      for (const [data, error] of attempts) {
        await expect(stranger.multicall([data])).to.be.revertedWithCustomError(w.turnpike, error);
        await expect(stranger.multicall([encode("multicall", [[data]])])).to.be.revertedWithCustomError(
          w.turnpike,
          error,
        );
      }
    });

    it("accepts no ether, by any entry point", async () => {
      const w = await loadFixture(c.world);
      const data = w.turnpike.interface.encodeFunctionData("multicall", [[]]);
      for (const transaction of [
        { to: w.turnpike, value: 1n },
        { to: w.turnpike, value: 1n, data },
        { to: w.settler, value: 1n },
      ]) {
        await expect(w.stranger.sendTransaction(transaction)).to.be.reverted;
      }
    });
  });

  describe("views", () => {
    it("reads many states and plans at once, unknown ones as zero, and agrees with the single reads", async () => {
      const w = await loadFixture(c.world);
      const s = await c.subscribe(w, { maxOverage: 10n });
      await w.turnpike.connect(w.operator).debit(s.idHash, 3n, 0n);
      const [known, unknown] = await w.lens.getStates([s.idHash, id("?")]);
      expect(known?.subscription).to.deep.equal(await w.lens.getSubscription(s.idHash));
      expect(known?.allowance).to.deep.equal(await w.lens.getAllowance(s.idHash));
      expect(known?.allowance.remaining).to.equal(7n);
      expect([unknown?.subscription.subscriber, unknown?.subscription.status]).to.deep.equal([
        ZeroAddress,
        c.Status.NONE,
      ]);
      const [plan, none] = await w.lens.getPlans([w.planId, id("?")]);
      expect(plan).to.deep.equal(await w.lens.getPlan(w.planId));
      expect([none?.planId, none?.index, none?.provider]).to.deep.equal([ZeroHash, 0n, ZeroAddress]);
      await expect(w.turnpike.quoteChange(id("?"), w.planId))
        .to.be.revertedWithCustomError(w.turnpike, "SubscriptionNotActive")
        .withArgs(id("?"), c.Status.NONE);
    });

    it("returns its signing domain", async () => {
      const w = await loadFixture(c.world);
      const domain = await w.turnpike.eip712Domain();
      const { chainId } = await ethers.provider.getNetwork();
      expect([domain.name, domain.version, domain.chainId, domain.verifyingContract]).to.deep.equal([
        "Turnpike",
        "1",
        chainId,
        await w.turnpike.getAddress(),
      ]);
    });
  });

  describe("storage", () => {
    it("keeps the documented layout", async () => {
      const { storage, types } = await layoutOf("contracts/Turnpike.sol:Turnpike");
      expect(storage.map((v) => [v.label, v.slot, v.offset, types[v.type]?.label])).to.deep.equal([
        ["_nameFallback", "0", 0, "string"],
        ["_versionFallback", "1", 0, "string"],
        ["_subscriptions", "2", 0, "mapping(bytes32 => struct Ledger.SubscriptionRecord)"],
        ["_allowances", "3", 0, "mapping(bytes32 => struct Ledger.AllowanceRecord)"],
        ["_plans", "4", 0, "mapping(uint256 => struct Ledger.PlanRecord)"],
        ["_planIndexOf", "5", 0, "mapping(bytes32 => uint32)"],
        ["_operators", "6", 0, "mapping(uint256 => bool)"],
        ["_planCount", "7", 0, "uint32"],
      ]);
      const words = (struct: string) => {
        const type = c.present(Object.values(types).find((t) => t.label === `struct Ledger.${struct}`));
        return type.members?.map((m) => [m.label, m.slot]);
      };
      expect(words("SubscriptionRecord")).to.deep.equal([["word", "0"]]);
      expect(words("AllowanceRecord")).to.deep.equal([["word", "0"]]);
      expect(words("PlanRecord")).to.deep.equal([
        ["price", "0"],
        ["payee", "1"],
        ["owner", "2"],
        ["planId", "3"],
      ]);
      expect((await layoutOf("contracts/BatchSettler.sol:BatchSettler")).storage).to.deep.equal([]);
    });

    it("packs each record into the words that are documented", async () => {
      const w = await loadFixture(c.world);
      const s = await c.subscribe(w, { maxOverage: 1_000n });
      const me = w.turnpike.connect(w.subscriber);
      await w.turnpike.connect(w.operator).debit(s.idHash, 7n, 0n);
      await me.cancel(s.idHash, true);
      await me.pause(s.idHash);
      const word = async (type: string, key: string | bigint, slot: bigint, offset = 0n) => {
        const at = ethers.keccak256(ethers.AbiCoder.defaultAbiCoder().encode([type, "uint256"], [key, slot]));
        return BigInt(await ethers.provider.getStorage(w.turnpike, BigInt(at) + offset));
      };
      const p = BigInt(s.paidThrough);
      const flags = 1n | 2n; // paused, ending
      expect(await word("bytes32", s.idHash, 2n)).to.equal(
        BigInt(w.subscriber.address) | (p << 160n) | (1n << 200n) | (2n << 232n) | (flags << 248n),
      );
      expect(await word("bytes32", s.idHash, 3n)).to.equal(1_000n | (7n << 88n) | (p << 176n) | (1n << 216n));
      expect(await word("uint256", 1n, 4n)).to.equal(BigInt(await w.token.getAddress()) | (c.PRICE << 160n));
      expect(await word("uint256", 1n, 4n, 1n)).to.equal(
        BigInt(w.treasury.address) | (BigInt(c.INTERVAL) << 160n) | (BigInt(c.GRACE) << 192n),
      );
      const next = await c.createPlan(w);
      await w.turnpike.connect(w.provider).deprecatePlan(w.planId, next);
      expect((await word("uint256", 1n, 4n, 1n)) >> 224n).to.equal(1n);
      expect(await word("uint256", 1n, 4n, 2n)).to.equal(BigInt(w.provider.address) | (2n << 160n));
      expect(await word("uint256", 1n, 4n, 3n)).to.equal(BigInt(w.planId));
      expect(await word("bytes32", next, 5n)).to.equal(2n);
      expect(await word("uint256", (1n << 160n) | BigInt(w.operator.address), 6n)).to.equal(1n);
    });
  });

  itOfDeployedCode("fits into a contract", async () => {
    for (const name of ["Turnpike", "BatchSettler"]) {
      const { deployedBytecode } = await artifacts.readArtifact(name);
      expect((deployedBytecode.length - 2) / 2, name).to.be.lessThan(EIP170_LIMIT);
    }
  });
});
