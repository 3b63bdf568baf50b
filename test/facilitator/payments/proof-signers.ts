import { expect } from "chai";
import type { KeyChallenge } from "turnpike/facilitator";
import { addressOfKey, ConfigError, type Hex, personalDigest, signDigest } from "turnpike/protocol";
import { loadConfig } from "../../../facilitator/src/config";
import { acceptedSigners } from "../../../facilitator/src/relayer/accepted-signers";
import { testKey } from "../../support/chain";
import { useService } from "../support/http-service";

const NEW_KEY = testKey("next proof signer") as Hex;
const OLD = addressOfKey(testKey("proof signer") as Hex);
const NEW = addressOfKey(NEW_KEY);

describe("Facilitator: the signers of its proofs", function () {
  this.timeout(120_000);
  const http = useService({ PROOF_SIGNERS: NEW, PUBLIC_URL: "https://pay.example.com" });

  it("HD3 are published: the current one first, the next one, and the retired one with its end", async () => {
    const announced = await http.service.client.supported();
    expect(announced.proofSigners).to.deep.equal([OLD, NEW]);
    expect(announced.retiredProofSigners).to.deep.equal([]);
    await http.restart({ PROOF_KEY: NEW_KEY, PROOF_SIGNERS: `${OLD.toLowerCase()}@1790000000` });
    const retired = await http.service.client.supported();
    expect(retired.proofSigners).to.deep.equal([NEW]);
    expect(retired.retiredProofSigners).to.deep.equal([{ address: OLD, until: 1_790_000_000 }]);
  });

  it("HD3 a sign-in that a process with the former key began ends at one with the current key", async () => {
    await http.restart({ PROOF_SIGNERS: NEW });
    const wallet = await http.world.payer(0n);
    const wanted = { provider: wallet.address, name: "in between", scopes: ["read"] };
    const create = async (began: KeyChallenge): Promise<number> => {
      const { message = "", challenge, expiresAt } = began;
      const signature = signDigest(personalDigest(message), wallet.key);
      return (await http.call("/keys", { body: { ...wanted, challenge, expiresAt, signature } })).status;
    };
    const begin = async () => (await (await http.call("/keys/challenge", { body: wanted })).json()) as KeyChallenge;
    const [began, unknown] = [await begin(), await begin()];
    expect(began.facilitator).to.equal(OLD);
    await http.restart({ PROOF_KEY: NEW_KEY, PROOF_SIGNERS: OLD });
    expect(await create(began)).to.equal(201);
    await http.restart({ PROOF_KEY: NEW_KEY, PROOF_SIGNERS: "" });
    expect(await create(unknown), "a signer that was taken out").to.equal(422);
  });

  it("HD3 are refused at the start where they contradict each other or cannot be read", () => {
    const env = http.world.env();
    for (const wrong of ["nobody", `${OLD}@`, `${OLD}@tomorrow`, `${OLD}@2026-09-21`, `${NEW},0x12`]) {
      expect(() => loadConfig({ ...env, PROOF_SIGNERS: wrong }), wrong).to.throw(ConfigError, /PROOF_SIGNERS must be/);
    }
    expect(() => acceptedSigners(OLD, [{ address: OLD, until: 5 }])).to.throw(ConfigError, /retires.*PROOF_KEY/);
    expect(() => acceptedSigners(OLD, [{ address: NEW }, { address: NEW, until: 5 }])).to.throw(ConfigError, /twice/);
    const both = acceptedSigners(OLD, [{ address: OLD }, { address: NEW }]);
    expect(
      both.list.map(({ address }) => address),
      "one list for all processes",
    ).to.deep.equal([OLD, NEW]);
  });
});
