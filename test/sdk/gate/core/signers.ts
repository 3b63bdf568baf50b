/** A gate whose Facilitator rotates the key of its proofs. */
import { expect } from "chai";
import type { Provider, ProviderOptions } from "turnpike/gate";
import { type AcceptEntryWire, ConfigError, PROOF_LIFE_SEC } from "turnpike/protocol";
import {
  addressOf,
  FRAMEWORKS,
  type Framework,
  headerOf,
  NOW,
  ONE_TIME,
  type ProofFields,
  proofOf,
  quoteOf,
  type SmallFacilitator,
  send,
  startSmallFacilitator,
  type TestClock,
  type TestServer,
  testClock,
  testProvider,
} from "../../../support/gate";

const RETIRED_AT = NOW + 100;
const OLD = addressOf("facilitator");
const NEW = addressOf("next facilitator");

for (const framework of Object.keys(FRAMEWORKS) as Framework[]) {
  for (const verify of ["signature", "facilitator"] as const) {
    describe(`a retired proof signer through ${framework}, verify "${verify}"`, () => {
      let facilitator: SmallFacilitator;
      let provider: Provider;
      let server: TestServer;
      let clock: TestClock;

      beforeEach(async () => {
        facilitator = await startSmallFacilitator();
        clock = testClock();
        const signers = [NEW, `${OLD}@${RETIRED_AT}`];
        provider = testProvider(facilitator, { clock, verify, facilitator: { url: facilitator.url, signers } });
        server = await FRAMEWORKS[framework](provider, [{ path: "/paid", gate: { pricing: ONE_TIME } }]);
      });
      afterEach(async () => {
        await server.stop();
        await provider.close();
        await facilitator.stop();
      });

      const quoted = async () => (await quoteOf(`${server.url}/paid`)).accepts[0] as AcceptEntryWire;
      const present = async (entry: AcceptEntryWire, settledAt: number, fields: ProofFields = {}) => {
        const times = { settledAt, expiresAt: settledAt + PROOF_LIFE_SEC };
        const { status, json } = await send(`${server.url}/paid`, {
          headers: headerOf(proofOf(entry, { ...times, ...fields })),
        });
        return status === 200 ? "served" : json.reason;
      };

      it("HD3 counts for what settled before its end, also when it is presented later", async () => {
        const entry = await quoted();
        clock.sec = RETIRED_AT + 300;
        expect(await present(entry, RETIRED_AT - 1)).to.equal("served");
        expect(await present(await quoted(), clock.sec, { signedBy: "next facilitator" })).to.equal("served");
      });

      it("HD3 counts for nothing that settled at its end or later", async () => {
        const entry = await quoted();
        clock.sec = RETIRED_AT + 300;
        for (const settledAt of [RETIRED_AT, RETIRED_AT + 1]) {
          expect(await present(entry, settledAt)).to.equal("signer_retired");
        }
        expect(await present(entry, RETIRED_AT, { signedBy: "next facilitator" }), "a fresh proof").to.equal("served");
        expect(server.served.get("/paid")).to.equal(1);
      });

      it("HD3 a key that leaked after its end cannot backdate: the quote is younger, or the proof lives too long", async () => {
        const early = await quoted();
        clock.sec = RETIRED_AT;
        expect(await present(await quoted(), RETIRED_AT - 1), "the gate quoted it later").to.equal("signer_retired");
        const immortal = { expiresAt: RETIRED_AT + 10 * PROOF_LIFE_SEC };
        expect(await present(early, RETIRED_AT - 1, immortal)).to.equal("signer_retired");
        expect(server.served.size).to.equal(0);
      });

      it("HD3 a signer that is taken out counts at once for nothing", async () => {
        const without = testProvider(facilitator, {
          clock,
          verify,
          facilitator: { url: facilitator.url, signers: [NEW] },
        });
        const other = await FRAMEWORKS[framework](without, [{ path: "/paid", gate: { pricing: ONE_TIME } }]);
        const entry = (await quoteOf(`${other.url}/paid`)).accepts[0] as AcceptEntryWire;
        const answer = await send(`${other.url}/paid`, { headers: headerOf(proofOf(entry)) });
        expect(answer.json.reason).to.equal("facilitator");
        await other.stop();
        await without.close();
      });
    });
  }
}

describe("the pinned signers of a gate", () => {
  const made = (signers: NonNullable<ProviderOptions["facilitator"]>["signers"]) => () =>
    testProvider({ url: "http://127.0.0.1:1", signer: OLD } as SmallFacilitator, {
      facilitator: { url: "http://127.0.0.1:1", ...(signers && { signers }) },
    });

  it("HD3 are addresses, retired ones with their end in code or as text", () => {
    expect(made([NEW, { address: OLD, until: RETIRED_AT }])).not.to.throw();
    expect(made([NEW, { address: OLD, until: "2026-11-22T17:00:00Z" }])).not.to.throw();
    for (const wrong of [`${OLD}@soon`, `${OLD}@2026-11-22`, "0x12", { address: OLD, until: "later" }]) {
      expect(made([NEW, wrong]), JSON.stringify(wrong)).to.throw(ConfigError, /facilitator\.signers has/);
    }
    expect(made([OLD, `${OLD}@5`])).to.throw(ConfigError, /twice/);
    expect(made([`${OLD}@5`])).to.throw(ConfigError, /all retired/);
  });
});
