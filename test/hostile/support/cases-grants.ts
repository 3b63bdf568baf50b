/** What gates and Facilitators say of payments that bought something, or nothing yet: HA1, HA2, HA3, HA8. */
import type { HostileCase } from "./play";
import { addressOf } from "./stage";

const ONE = "one payment, however often the caller asks again";

export const GRANTS: readonly HostileCase[] = [
  {
    id: "HA1-granted-elsewhere",
    does: "The gate takes the payment, says that it bought another request already, and asks for a fresh one.",
    safeResult: ONE,
    async run(play) {
      const gate = await play.stage.gate({ steadily: "settle_then_granted" });
      await play.insist(gate.url);
      return play.signedAtMost(1);
    },
  },
  {
    id: "HA2-proof-by-a-stranger",
    does: "The Facilitator takes the payment and answers with a proof in a stranger's name, twice.",
    safeResult: ONE,
    dialects: ["turnpike"],
    async run(play) {
      const forge = { facilitator: addressOf("stranger") };
      play.stage.facilitatorSteps.push({ forge }, { forge });
      const gate = await play.stage.gate();
      await play.insist(gate.url);
      return play.signedAtMost(1);
    },
  },
  {
    id: "HA3-answers-that-differ",
    does: "Of a Facilitator's processes one says pending, one refuses, one drops the connection, and one settles.",
    safeResult: ONE,
    dialects: ["turnpike"],
    async run(play) {
      play.stage.facilitatorSteps.push("pending", "settle_then_refuse", "settle_then_drop", "settle");
      const gate = await play.stage.gate();
      await play.insist(gate.url);
      return play.signedAtMost(1);
    },
  },
  {
    id: "HA8-pending-as-402",
    does: "The gate answers 402 while the payment is pending, as stock servers do, with a fresh quote, twice.",
    safeResult: ONE,
    async run(play) {
      const gate = await play.stage.gate({ steps: ["settle_then_pending", "settle_then_pending"] });
      await play.insist(gate.url);
      return play.signedAtMost(1);
    },
  },
  {
    id: "HA8-permit2",
    does: "The only option asks for a Permit2 transfer.",
    safeResult: "no EIP-3009 transfer is signed for it",
    dialects: ["x402-v1", "x402-v2"],
    async run(play) {
      const lie = <T extends { extra: object }>(facts: T) => ({
        ...facts,
        extra: { ...facts.extra, assetTransferMethod: "permit2" },
      });
      const gate = await play.stage.gate({ lie });
      await play.insist(gate.url);
      return play.signedAtMost(0);
    },
  },
];
