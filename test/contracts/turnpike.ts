// What belongs to the whole: multicall, batched reads, the domain, the layout of storage, and the limits of the code.

import { expect } from "chai";
import { id, ZeroAddress, ZeroHash } from "ethers";
import { artifacts, ethers } from "hardhat";
import * as c from "../support/contracts";
import { loadFixture } from "../support/fixture";
import { itOfDeployedCode } from "./support/deployed-code";
import { commonYear, FAR, setNext, signup, utc } from "./support/signups";

/** Below the limit of EIP-170, which is 24,576 bytes. */
const MAX_CODE = 24_000;
/** Flags of a subscription's word. */
const [INTRO, NEXT, LIMITED] = [1n << 249n, 1n << 250n, 1n << 252n];
const [PAUSED, ENDING, CANCELLED] = [1n << 253n, 1n << 254n, 1n << 255n];

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

/** A word of the record that the mapping at `slot` keeps under `key`. */
async function word(w: c.World, type: string, key: string | bigint, slot: bigint, offset = 0n): Promise<bigint> {
  const at = ethers.keccak256(ethers.AbiCoder.defaultAbiCoder().encode([type, "uint256"], [key, slot]));
  return BigInt(await ethers.provider.getStorage(w.turnpike, BigInt(at) + offset));
}

describe("Turnpike", () => {
  describe("multicall", () => {
    it("does all or nothing, as the caller, and returns each answer", async () => {
      const w = await loadFixture(c.world);
      const secretHash = c.freshSecretHash();
      const idHash = await w.turnpike.idHashOf(w.subscriber, secretHash);
      const encode = w.turnpike.interface.encodeFunctionData.bind(w.turnpike.interface);
      const calls = [
        encode("subscribe", c.signupArgs(w.subscriber.address, { planId: w.planId, secretHash, maxOverage: 5n })),
        encode("pause", [idHash, c.NO_AUTH]),
      ];
      const me = w.turnpike.connect(w.subscriber);
      expect((await me.multicall.staticCall(calls))[0]).to.equal(idHash);
      await me.multicall(calls);
      expect((await c.recordOf(w, idHash)).paused).to.equal(true);

      const before = await c.recordOf(w, idHash);
      await expect(
        me.multicall([encode("setMaxOverage", [idHash, 9n, c.NO_AUTH]), encode("pause", [idHash, c.NO_AUTH])]),
      )
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
        [encode("pause", [s.idHash, c.NO_AUTH]), "NotSubscriber"],
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
        ["_subscriptions", "0", 0, "mapping(bytes32 => struct Records.SubscriptionRecord)"],
        ["_allowances", "1", 0, "mapping(bytes32 => struct Records.AllowanceRecord)"],
        ["_nexts", "2", 0, "mapping(bytes32 => NextWord)"],
        ["_plans", "3", 0, "mapping(uint256 => struct Records.PlanRecord)"],
        ["_moves", "4", 0, "mapping(uint256 => struct Records.MoveRecord)"],
        ["_planIndexOf", "5", 0, "mapping(bytes32 => uint32)"],
        ["_rights", "6", 0, "mapping(uint256 => uint8)"],
        ["_planCount", "7", 0, "uint32"],
        ["_nameFallback", "8", 0, "string"],
        ["_versionFallback", "9", 0, "string"],
      ]);
      const words = (struct: string) => {
        const type = c.present(Object.values(types).find((t) => t.label === `struct Records.${struct}`));
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
      expect(words("MoveRecord")).to.deep.equal([
        ["proposal", "0"],
        ["nextProvider", "1"],
        ["firstPayTo", "2"],
      ]);
      expect((await layoutOf("contracts/BatchSettler.sol:BatchSettler")).storage).to.deep.equal([]);
      // The lens finds the records where its own would be.
      const lens = (await layoutOf("contracts/TurnpikeLens.sol:TurnpikeLens")).storage;
      const shown = (v: { label: string; slot: string; offset: number }) => [v.label, v.slot, v.offset];
      expect(lens.map(shown)).to.deep.equal(storage.slice(0, 8).map(shown));
    });

    it("packs each record into the words that are documented", async () => {
      const w = await loadFixture(c.world);
      const s = await c.subscribe(w, { maxOverage: 1_000n });
      const me = w.turnpike.connect(w.subscriber);
      await w.turnpike.connect(w.operator).debit(s.idHash, 7n, 0n);
      await me.cancel(s.idHash, true, c.NO_AUTH);
      await me.pause(s.idHash, c.NO_AUTH);
      const p = BigInt(s.paidThrough);
      expect(await word(w, "bytes32", s.idHash, 0n)).to.equal(
        BigInt(w.subscriber.address) | (p << 160n) | (1n << 196n) | (2n << 228n) | PAUSED | ENDING,
      );
      expect(await word(w, "bytes32", s.idHash, 1n)).to.equal(1_000n | (7n << 88n) | (p << 176n) | (1n << 216n));
      expect(await word(w, "uint256", 1n, 3n)).to.equal(BigInt(await w.token.getAddress()) | (c.PRICE << 160n));
      expect(await word(w, "uint256", 1n, 3n, 1n)).to.equal(
        BigInt(w.treasury.address) | (BigInt(c.INTERVAL) << 160n) | (BigInt(c.GRACE) << 192n),
      );
      const next = await c.createPlan(w);
      await w.turnpike.connect(w.provider).deprecatePlan(w.planId, next);
      expect((await word(w, "uint256", 1n, 3n, 1n)) >> 224n).to.equal(1n);
      expect(await word(w, "uint256", 1n, 3n, 2n)).to.equal(BigInt(w.provider.address) | (2n << 160n));
      expect(await word(w, "uint256", 1n, 3n, 3n)).to.equal(BigInt(w.planId));
      expect(await word(w, "bytes32", next, 5n)).to.equal(2n);
      expect(await word(w, "uint256", (1n << 160n) | BigInt(w.operator.address), 6n)).to.equal(c.Right.DEBIT);
    });

    it("packs months, a voucher's period, an end, a scheduled change and a move into their own words", async () => {
      const w = await loadFixture(c.world);
      const monthly = await c.createPlan(w, { interval: 1n, months: true });
      const next = await c.createPlan(w, { interval: 2n, months: true });
      const intro = await signup(w, { planId: monthly, until: FAR, voucher: {} });
      const year = await commonYear();
      await c.at(utc(year, 1, 31, 12), () => intro.direct());
      await setNext(w, intro.idHash, FAR, next);
      const p = BigInt(utc(year, 2, 28, 12));
      expect(await word(w, "bytes32", intro.idHash, 0n)).to.equal(
        BigInt(w.subscriber.address) |
          (p << 160n) |
          (2n << 196n) |
          (1n << 228n) |
          (31n << 244n) |
          INTRO |
          NEXT |
          LIMITED,
      );
      expect(await word(w, "bytes32", intro.idHash, 2n)).to.equal(FAR | (3n << 40n));
      expect((await word(w, "uint256", 2n, 3n, 1n)) >> 224n).to.equal(2n);

      const tomb = c.freshSecretHash();
      await w.turnpike.connect(w.subscriber).void(w.subscriber, tomb, 0n, "0x");
      expect(await word(w, "bytes32", await w.turnpike.idHashOf(w.subscriber, tomb), 0n)).to.equal(
        BigInt(w.subscriber.address) | CANCELLED,
      );

      const provider = w.turnpike.connect(w.provider);
      await provider.proposePayTo(monthly, w.stranger);
      const { effectiveAt } = await w.lens.getPlan(monthly);
      expect(await word(w, "uint256", 2n, 4n)).to.equal(BigInt(w.stranger.address) | (effectiveAt << 160n));
      await provider.offerPlan(monthly, w.relayer);
      expect(await word(w, "uint256", 2n, 4n, 1n)).to.equal(BigInt(w.relayer.address));
      await c.at(Number(effectiveAt), () => w.turnpike.applyPayTo(monthly));
      expect(await word(w, "uint256", 2n, 4n)).to.equal(0n);
      expect(await word(w, "uint256", 2n, 4n, 2n)).to.equal(BigInt(w.treasury.address));
      expect(await word(w, "uint256", 2n, 3n, 1n)).to.equal(
        BigInt(w.stranger.address) | (1n << 160n) | (BigInt(c.GRACE) << 192n) | (2n << 224n),
      );
    });
  });

  itOfDeployedCode("fits into a contract", async () => {
    for (const name of ["Turnpike", "TurnpikeLens", "BatchSettler"]) {
      const { deployedBytecode } = await artifacts.readArtifact(name);
      expect((deployedBytecode.length - 2) / 2, name).to.be.at.most(MAX_CODE);
    }
  });
});
