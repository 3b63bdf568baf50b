// Every act of a subscriber: what a signature is good for, and what it is not.

import { time } from "@nomicfoundation/hardhat-network-helpers";
import { expect } from "chai";
import { concat, dataSlice, Signature, type Signer, toBeHex, ZeroAddress, ZeroHash, zeroPadValue } from "ethers";
import { ethers } from "hardhat";
import * as c from "../support/contracts";
import { loadFixture } from "../support/fixture";
import { FAR, setNext } from "./support/signups";

const N = 0xfffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141n;

type Auth = Awaited<ReturnType<typeof c.authFor>>;

interface Act {
  name: Exclude<c.MessageName, "Subscribe" | "Voucher" | "Void">;
  /** The signed fields between idHash and version. */
  fields: (w: c.World) => Promise<Record<string, unknown>>;
  /** What a cheat would rather have had signed. */
  forged: (w: c.World) => Promise<Record<string, unknown>>;
  /** By the relayer, unless another is named. */
  send: (w: c.World, idHash: string, fields: Record<string, unknown>, auth: Auth, by?: Signer) => Promise<unknown>;
  event: string;
}

const none = async () => ({});

const ACTS: Act[] = [
  {
    name: "Pause",
    fields: none,
    forged: none,
    send: (w, idHash, _fields, auth, by = w.relayer) => w.turnpike.connect(by).pause(idHash, auth),
    event: "Paused",
  },
  {
    name: "Resume",
    fields: async () => ({ maxCharge: 5n }),
    forged: async () => ({ maxCharge: 6n }),
    send: (w, idHash, f, auth, by = w.relayer) => w.turnpike.connect(by).resume(idHash, f.maxCharge as bigint, auth),
    event: "Resumed",
  },
  {
    name: "Cancel",
    fields: async () => ({ atPeriodEnd: true }),
    forged: async () => ({ atPeriodEnd: false }),
    send: (w, idHash, f, auth, by = w.relayer) => w.turnpike.connect(by).cancel(idHash, f.atPeriodEnd as boolean, auth),
    event: "Cancelled",
  },
  {
    name: "SetMaxOverage",
    fields: async () => ({ cap: 5n }),
    forged: async () => ({ cap: 6n }),
    send: (w, idHash, f, auth, by = w.relayer) => w.turnpike.connect(by).setMaxOverage(idHash, f.cap as bigint, auth),
    event: "MaxOverageSet",
  },
  {
    name: "ChangePlan",
    fields: async (w) => ({ newPlanId: await c.createPlan(w), maxOverage: 5n, maxCharge: c.PRICE }),
    forged: async (w) => ({ newPlanId: await c.createPlan(w), maxOverage: 6n, maxCharge: c.PRICE + 1n }),
    send: (w, idHash, f, auth, by = w.relayer) =>
      w.turnpike
        .connect(by)
        .changePlan(idHash, f.newPlanId as string, f.maxOverage as bigint, f.maxCharge as bigint, auth),
    event: "PlanChanged",
  },
  {
    name: "SetNext",
    fields: async (w) => ({ until: FAR, nextPlanId: await c.createPlan(w) }),
    forged: async (w) => ({ until: FAR + 1n, nextPlanId: await c.createPlan(w) }),
    send: async (w, idHash, f, auth, by = w.relayer) => {
      const [planId, shown] = [f.nextPlanId as string, await c.shownOf(w, f.nextPlanId as string)];
      return w.turnpike.connect(by).setNext(idHash, f.until as bigint, planId, shown, auth);
    },
    event: "NextSet",
  },
  {
    name: "Rekey",
    fields: async () => ({ newSecretHash: c.freshSecretHash() }),
    forged: async () => ({ newSecretHash: c.freshSecretHash() }),
    send: (w, idHash, f, auth, by = w.relayer) => w.turnpike.connect(by).rekey(idHash, f.newSecretHash as string, auth),
    event: "Rekeyed",
  },
];

for (const act of ACTS) {
  async function signed(options: Parameters<typeof c.authFor>[4] = {}) {
    const w = await loadFixture(c.world);
    const s = await c.subscribe(w, { maxOverage: 1n });
    // Resume is the one act that needs a pause before it.
    if (act.name === "Resume") await w.turnpike.connect(w.subscriber).pause(s.idHash, c.NO_AUTH);
    const fields = await act.fields(w);
    const auth = await c.authFor(w, act.name, s.idHash, fields, options);
    const send = (override: Partial<Auth> = {}, sentFields = fields) =>
      act.send(w, s.idHash, sentFields, { ...auth, ...override });
    return { w, s, fields, auth, send };
  }

  describe(`Signatures > ${act.name}`, () => {
    it("acts for the subscriber, from any sender, and raises the version", async () => {
      const { w, s, auth, send } = await signed();
      await expect(send()).to.emit(w.turnpike, act.event);
      expect((await w.lens.getSubscription(s.idHash)).version).to.equal(auth.version + 1n);
    });

    it("needs no signature of the subscriber itself, and reads none; of anyone else it does", async () => {
      const { w, s, fields } = await signed();
      for (const caller of [w.stranger, w.relayer, w.operator, w.treasury]) {
        await expect(act.send(w, s.idHash, fields, c.NO_AUTH as Auth, caller))
          .to.be.revertedWithCustomError(w.turnpike, "NotSubscriber")
          .withArgs(s.idHash, caller.address);
      }
      const stale = { version: 9n, deadline: 1n, signature: "0xabcd" };
      await expect(act.send(w, s.idHash, fields, stale as Auth, w.subscriber)).to.emit(w.turnpike, act.event);
      expect((await w.lens.getSubscription(s.idHash)).version).to.be.greaterThan(0n);
    });

    it("A3 A26 is good for one act, and void after any other", async () => {
      const { w, s, auth, send } = await signed();
      await w.turnpike.connect(w.subscriber).setMaxOverage(s.idHash, 2n, c.NO_AUTH);
      await expect(send())
        .to.be.revertedWithCustomError(w.turnpike, "StaleVersion")
        .withArgs(s.idHash, auth.version, auth.version + 1n);
      // Naming the current version instead is another message, which nobody signed.
      await expect(send({ version: auth.version + 1n }))
        .to.be.revertedWithCustomError(w.turnpike, "InvalidSignature")
        .withArgs(w.subscriber.address);

      const once = await signed();
      await once.send();
      await expect(once.send()).to.be.revertedWithCustomError(once.w.turnpike, "StaleVersion");
    });

    it("A3 is no good on another chain, for another contract, or under another name", async () => {
      const { w, s, fields, auth, send } = await signed();
      const message = { subscriber: w.subscriber.address, idHash: s.idHash, ...fields };
      const whole = { ...message, version: auth.version, deadline: auth.deadline };
      const other = await ethers.deployContract("Turnpike");
      for (const domain of [
        { chainId: 1n },
        { verifyingContract: await other.getAddress() },
        { name: "Turnstile" },
        { version: "2" },
      ]) {
        const signature = await c.sign(w, w.subscriber, act.name, whole, domain);
        await expect(send({ signature }), JSON.stringify(Object.keys(domain)))
          .to.be.revertedWithCustomError(w.turnpike, "InvalidSignature")
          .withArgs(w.subscriber.address);
      }
    });

    it("covers record, values and deadline", async () => {
      const { w, s, auth, fields, send } = await signed();
      const refusal = (sent: Promise<unknown>) =>
        expect(sent).to.be.revertedWithCustomError(w.turnpike, "InvalidSignature").withArgs(w.subscriber.address);
      await refusal(send({ deadline: auth.deadline - 1n }));
      const forged = await act.forged(w);
      for (const name of Object.keys(forged)) await refusal(send({}, { ...fields, [name]: forged[name] }));

      const twin = await c.subscribe(w);
      if (act.name === "Resume") await w.turnpike.connect(w.subscriber).pause(twin.idHash, c.NO_AUTH);
      await refusal(act.send(w, twin.idHash, fields, auth));
      const byStranger = await c.authFor(w, act.name, s.idHash, fields, { signer: w.stranger });
      await refusal(send({ signature: byStranger.signature }));
    });

    if (act.name === "Resume" || act.name === "SetMaxOverage") {
      it("covers the plan's token", async () => {
        const { w, s, auth, fields, send } = await signed();
        const { signature } = await c.authFor(w, act.name, s.idHash, { ...fields, token: w.stranger.address });
        await expect(send({ signature }))
          .to.be.revertedWithCustomError(w.turnpike, "InvalidSignature")
          .withArgs(w.subscriber.address);
        await expect(send({ signature: auth.signature })).to.emit(w.turnpike, act.event);
      });
    }

    it("holds until its deadline, inclusive", async () => {
      const deadline = (await time.latest()) + 1_000;
      const inTime = await signed({ deadline: BigInt(deadline) });
      await time.setNextBlockTimestamp(deadline);
      await expect(inTime.send()).to.emit(inTime.w.turnpike, act.event);
      const late = await signed({ deadline: BigInt(deadline) });
      await time.setNextBlockTimestamp(deadline + 1);
      await expect(late.send()).to.be.revertedWithCustomError(late.w.turnpike, "SignatureExpired").withArgs(deadline);
    });

    it("A5 takes no other form of the same signature", async () => {
      const { w, auth, send } = await signed();
      const { r, s, v, yParityAndS } = Signature.from(auth.signature);
      const highS = zeroPadValue(toBeHex(N - BigInt(s)), 32);
      const forms = {
        "malleable s": concat([r, highS, toBeHex(v === 27 ? 28 : 27)]),
        "v 0 or 1": concat([r, s, toBeHex(v - 27, 1)]),
        "v 29": concat([r, s, toBeHex(29)]),
        "64 bytes": concat([r, yParityAndS]),
        padded: concat([auth.signature, "0x00"]),
        cut: dataSlice(auth.signature, 0, 64),
        zero: concat([ZeroHash, ZeroHash, "0x1b"]),
        empty: "0x",
      };
      for (const [form, signature] of Object.entries(forms)) {
        await expect(send({ signature }), form)
          .to.be.revertedWithCustomError(w.turnpike, "InvalidSignature")
          .withArgs(w.subscriber.address);
      }
    });

    it("finds no record to act on for an unknown idHash", async () => {
      const { w, fields, auth } = await signed();
      await expect(act.send(w, ZeroHash, fields, { ...auth, version: 0n }))
        .to.be.revertedWithCustomError(w.turnpike, "SubscriptionNotActive")
        .withArgs(ZeroHash, c.Status.NONE);
    });
  });
}

describe("Signatures", () => {
  it("A5 subscribes nobody in the name of the zero address", async () => {
    const w = await loadFixture(c.world);
    const zero = concat([ZeroHash, ZeroHash, "0x1b"]);
    await expect(
      w.turnpike.subscribe(
        ...c.signupArgs(
          ZeroAddress,
          { planId: w.planId, secretHash: ZeroHash },
          { deadline: c.FOREVER, signature: zero },
        ),
      ),
    )
      .to.be.revertedWithCustomError(w.turnpike, "InvalidSignature")
      .withArgs(ZeroAddress);
  });

  it("A3 is void after rekey and after cancel", async () => {
    const w = await loadFixture(c.world);
    const [moved, ended] = [await c.subscribe(w), await c.subscribe(w)];
    const auths = [await c.authFor(w, "Pause", moved.idHash), await c.authFor(w, "Pause", ended.idHash)];
    const fresh = c.freshSecretHash();
    await w.turnpike.connect(w.subscriber).rekey(moved.idHash, fresh, c.NO_AUTH);
    await w.turnpike.connect(w.subscriber).cancel(ended.idHash, false, c.NO_AUTH);
    const refusal = (idHash: string, auth: Auth, error: string) =>
      expect(w.turnpike.pause(idHash, auth)).to.be.revertedWithCustomError(w.turnpike, error);
    await refusal(moved.idHash, c.present(auths[0]), "StaleVersion");
    await refusal(await w.turnpike.idHashOf(w.subscriber, fresh), c.present(auths[0]), "InvalidSignature");
    await refusal(ended.idHash, c.present(auths[1]), "StaleVersion");
  });

  describe("A39 at version 65,535", () => {
    /** Sets the version where it is stored: 65,535 acts would take minutes. */
    async function exhausted() {
      const w = await c.world();
      const s = await c.subscribe(w, { maxOverage: 1n });
      const slot = ethers.keccak256(ethers.AbiCoder.defaultAbiCoder().encode(["bytes32", "uint256"], [s.idHash, 0n]));
      const turnpike = await w.turnpike.getAddress();
      const word = BigInt(await ethers.provider.getStorage(turnpike, slot)) | (0xffffn << 228n);
      await ethers.provider.send("hardhat_setStorageAt", [turnpike, slot, toBeHex(word, 32)]);
      expect((await w.lens.getSubscription(s.idHash)).version).to.equal(65_535n);
      return { w, s, me: w.turnpike.connect(w.subscriber) };
    }

    it("leaves no other act than cancel and rekey", async () => {
      const { w, s, me } = await loadFixture(exhausted);
      const other = await c.createPlan(w);
      const acts = [
        () => me.pause(s.idHash, c.NO_AUTH),
        () => me.setMaxOverage(s.idHash, 2n, c.NO_AUTH),
        () => me.changePlan(s.idHash, other, 0n, c.FOREVER, c.NO_AUTH),
        () => setNext(w, s.idHash, FAR, other),
        () => c.at(s.paidThrough + c.INTERVAL, () => me.resume(s.idHash, c.FOREVER, c.NO_AUTH)),
      ];
      for (const act of acts) {
        await expect(act()).to.be.revertedWithCustomError(w.turnpike, "VersionExhausted").withArgs(s.idHash);
      }
    });

    it("lets a rekeyed record start again at 0, and leaves the old one dead", async () => {
      const { w, s, me } = await loadFixture(exhausted);
      const auth = await c.authFor(w, "Cancel", s.idHash, { atPeriodEnd: false });
      const fresh = c.freshSecretHash();
      await me.rekey(s.idHash, fresh, c.NO_AUTH);
      const newIdHash = await w.turnpike.idHashOf(w.subscriber, fresh);
      expect((await c.recordOf(w, newIdHash)).version).to.equal(0n);
      expect((await c.recordOf(w, s.idHash)).version).to.equal(65_535n);
      await me.pause(newIdHash, c.NO_AUTH);
      await expect(w.turnpike.cancel(s.idHash, false, auth))
        .to.be.revertedWithCustomError(w.turnpike, "SubscriptionNotActive")
        .withArgs(s.idHash, c.Status.CANCELLED);
    });

    it("lets a signed end be brought again to no other effect", async () => {
      const { w, s } = await loadFixture(exhausted);
      const later = await c.authFor(w, "Cancel", s.idHash, { atPeriodEnd: true });
      await w.turnpike.cancel(s.idHash, true, later);
      const before = await c.recordOf(w, s.idHash);
      await w.turnpike.cancel(s.idHash, true, later);
      expect(await c.recordOf(w, s.idHash)).to.deep.equal(before);
      expect([before.ending, before.version]).to.deep.equal([true, 65_535n]);
    });
  });
});
