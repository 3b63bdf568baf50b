import { expect } from "chai";
import { proofToWire, recoverSigner } from "turnpike/protocol";
import { compactOf, openKmsSigner } from "../../../facilitator/src/relayer/kms";
import { type FacilitatorWorld, fund, startWorld, until } from "../../support/facilitator";
import { AWS_ENV, type Kms, startKms } from "../support/kms";

const DIGEST = `0x${"3c".repeat(32)}` as const;

describe("Facilitator: keys in AWS KMS", function () {
  this.timeout(120_000);
  const kept = { ...process.env };
  let kms: Kms;

  before(() => {
    Object.assign(process.env, AWS_ENV);
  });
  beforeEach(async () => {
    kms = await startKms();
  });
  afterEach(() => kms.stop());
  after(() => {
    for (const name of Object.keys(AWS_ENV)) {
      if (kept[name] === undefined) delete process.env[name];
      else process.env[name] = kept[name];
    }
  });

  it("signs digests that recover to the key's address, with low s, every time", async () => {
    const signer = await openKmsSigner({ keyId: "alias/relayer", endpoint: kms.url });
    expect(kms.asked[0]).to.deep.equal({ target: "TrentService.GetPublicKey", body: { KeyId: "alias/relayer" } });
    for (let i = 0; i < 40; i++) {
      const digest = `0x${i.toString(16).padStart(2, "0").repeat(32)}` as const;
      const signature = await signer.signDigest(digest);
      // The protocol's own recovery refuses a high s and a v that is not 27 or 28.
      expect(recoverSigner(digest, signature)).to.equal(signer.address);
    }
    expect(kms.asked[1]?.body).to.include({
      KeyId: "alias/relayer",
      MessageType: "DIGEST",
      SigningAlgorithm: "ECDSA_SHA_256",
    });
  });

  it("takes no other kind of key, no other key's signature, no malformed one, and reports an outage as one", async () => {
    const foreign = await startKms("prime256v1", "ECC_NIST_P256");
    const codeOf = (act: Promise<unknown>) =>
      act.then(
        () => "none",
        (error: { code?: string }) => error.code,
      );
    expect(await codeOf(openKmsSigner({ keyId: "k", endpoint: foreign.url }))).to.equal("ConfigError");
    await foreign.stop();
    const signer = await openKmsSigner({ keyId: "k", endpoint: kms.url });
    for (const fault of ["other key", "broken", "silent", "throttled", "5xx", "denied"] as const) {
      kms.fault = fault;
      expect(await codeOf(Promise.resolve(signer.signDigest(DIGEST))), fault).to.equal("Unavailable");
    }
  });

  it("reads DER strictly", () => {
    const der = (...bytes: number[]): Uint8Array => Uint8Array.from([0x30, bytes.length, ...bytes]);
    expect(Buffer.from(compactOf(der(2, 1, 5, 2, 1, 7))).toString("hex")).to.match(/^0+5.{63}7$/);
    for (const bad of [
      undefined,
      Uint8Array.of(),
      der(2, 1, 5),
      der(2, 1, 0, 2, 1, 7),
      der(2, 1, 5, 2, 1, 7, 0),
      der(2, 2, 5, 2, 1, 7),
    ]) {
      expect(() => compactOf(bad)).to.throw(/malformed/);
    }
  });

  describe("as the relayer's key", () => {
    let world: FacilitatorWorld;
    before(async () => {
      world = await startWorld();
    });
    after(() => world.stop());

    it("pays the gas: a payment settles though no key is in this process", async () => {
      const { address } = await openKmsSigner({ keyId: "alias/relayer", endpoint: kms.url });
      await fund(world.chain, address);
      const core = await world.core({ RELAYER_KEYS: "aws-kms:alias/relayer", KMS_ENDPOINT: kms.url });
      const outcome = await core.payments.authorize(await world.signPayment());
      expect(outcome.kind).to.equal("settled");
      const hash = outcome.kind === "settled" ? proofToWire(outcome.proof).transaction : "0x";
      expect((await world.chain.provider.getTransaction(hash))?.from).to.equal(address);
      for (const fault of ["silent", "throttled"] as const) {
        const before = kms.asked.length;
        kms.fault = fault;
        const pending = core.payments.authorize(await world.signPayment(), { waitMs: 15_000 });
        await until(async () => kms.asked.length > before, `signing was tried while KMS is ${fault}`);
        delete kms.fault;
        expect((await pending).kind, `${fault}: it delays, it loses nothing`).to.equal("settled");
      }
      expect((await world.transfers()).length, "each payment once").to.equal(3);
      await core.stop();
    });
  });
});
