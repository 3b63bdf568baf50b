/** Servers and Facilitators that take the money and hide it: D1 to D5, D13, D17. */
import type { HostileCase } from "./play";
import { addressOf, PRICE } from "./stage";

const ONE = "one payment, however often the caller asks again";

export const SETTLEMENT: readonly HostileCase[] = [
  {
    id: "D1-settle-then-drop",
    does: "The gate takes the payment and closes the connection without an answer.",
    safeResult: ONE,
    async run(play) {
      const gate = await play.stage.gate({ steps: ["settle_then_drop"] });
      await play.insist(gate.url);
      return play.signedAtMost(1);
    },
  },
  {
    id: "D1-settle-then-502",
    does: "The gate takes the payment and answers 502, twice.",
    safeResult: ONE,
    async run(play) {
      const gate = await play.stage.gate({ steps: ["settle_then_502", "settle_then_502"] });
      await play.insist(gate.url);
      return play.signedAtMost(1);
    },
  },
  {
    id: "D1-settle-then-402",
    does: "The gate takes the payment and asks for another one, with a fresh quote, twice.",
    safeResult: ONE,
    async run(play) {
      const gate = await play.stage.gate({ steps: ["settle_then_402", "settle_then_402"] });
      await play.insist(gate.url);
      return play.signedAtMost(1);
    },
  },
  {
    id: "D1-facilitator-settles-then-drops",
    does: "The Facilitator settles, and the answer is lost, twice.",
    safeResult: ONE,
    dialects: ["turnpike"],
    async run(play) {
      play.stage.facilitatorSteps.push("settle_then_drop", "settle_then_502");
      const gate = await play.stage.gate();
      await play.insist(gate.url);
      return play.signedAtMost(1);
    },
  },
  {
    id: "D2-outcome-unknown",
    does: "The settling party takes the payment, never answers for it again, and no status can be read.",
    safeResult: "held: one payment, however often the caller asks again",
    async run(play) {
      play.stage.facilitatorSteadily = "settle_then_drop";
      play.stage.isStatusReadable = false;
      const gate = await play.stage.gate({ steadily: "settle_then_drop" });
      await play.insist(gate.url, 4);
      return play.signedAtMost(1);
    },
  },
  {
    id: "D2-forged-proof",
    does: "The Facilitator takes the payment and answers with a signed proof of another one.",
    safeResult: "held: one payment, and no proof shown to the gate",
    dialects: ["turnpike"],
    async run(play) {
      play.stage.facilitatorSteadily = { forge: { payTo: addressOf("stranger"), amount: 1n } };
      const gate = await play.stage.gate();
      await play.insist(gate.url);
      const shown = gate.seen.filter(({ headers }) => headers["x-payment"] !== undefined).length;
      return play.also(play.stage.authorizations.length <= 1 && shown === 0, `${shown} wrong proofs shown`);
    },
  },
  {
    id: "D2-refusal-after-settling",
    does: "The Facilitator takes the payment and says that it refused it.",
    safeResult: ONE,
    dialects: ["turnpike"],
    async run(play) {
      play.stage.facilitatorSteadily = "settle_then_refuse";
      const gate = await play.stage.gate();
      await play.insist(gate.url);
      return play.signedAtMost(1);
    },
  },
  {
    id: "D2-refused-and-called-failed",
    does: "The Facilitator takes the payment, says that it refused it, and that it has failed.",
    safeResult: ONE,
    dialects: ["turnpike"],
    async run(play) {
      play.stage.facilitatorSteadily = "settle_then_refuse";
      play.stage.statusLie = "failed";
      const gate = await play.stage.gate();
      await play.insist(gate.url);
      return play.signedAtMost(1);
    },
  },
  {
    id: "D2-refused-and-called-late",
    does: "The Facilitator takes the payment, says that it refused it, that it knows nothing of it, and that it is a year later.",
    safeResult: ONE,
    dialects: ["turnpike"],
    async run(play) {
      play.stage.facilitatorSteadily = "settle_then_refuse";
      play.stage.statusLie = "unknown";
      const gate = await play.stage.gate();
      await play.attempt(gate.url);
      play.stage.reportedTimeSec = () => Math.floor(Date.now() / 1_000) + 31_536_000;
      await play.insist(gate.url);
      return play.signedAtMost(1);
    },
  },
  {
    id: "D3-abort",
    does: "The settling party takes the payment and hangs; the caller aborts, and buys elsewhere with a budget for one.",
    safeResult: "the budget stays taken: one payment over both",
    async run(play) {
      const caller = new AbortController();
      const limits = { perDay: PRICE };
      const gate = await play.stage.gate({ steadily: "hang" });
      const other = await play.stage.gate();
      if (play.stage.dialect === "turnpike") play.stage.facilitatorSteps.push("hang");
      const first = play.attempt(gate.url, { signal: caller.signal, limits });
      await Promise.race([first, until(() => play.stage.authorizations.length > 0)]);
      caller.abort();
      await first;
      await play.attempt(other.url, { limits });
      return play.signedAtMost(1);
    },
  },
  {
    id: "D4-402-while-pending",
    does: "Settlement is pending, and the gate goes on asking for payment meanwhile.",
    safeResult: ONE,
    async run(play) {
      play.stage.facilitatorSteps.push("pending", "pending");
      const gate = await play.stage.gate({ steps: ["refuse", "refuse"] });
      await play.insist(gate.url);
      return play.signedAtMost(1);
    },
  },
  {
    id: "D5-rising-price",
    does: "Every 402 doubles the price, and every payment is answered with another 402.",
    safeResult: "one payment, at the first price",
    async run(play) {
      const gate = await play.stage.gate({
        lie: (facts, nth) => ({ ...facts, amount: ((PRICE / 10n) * 2n ** BigInt(nth - 1)).toString() }),
        steadily: "refuse",
      });
      await play.insist(gate.url);
      const { authorizations } = play.stage;
      const isFirst = authorizations.every(({ value }) => BigInt(value) === PRICE / 10n);
      return play.also(authorizations.length <= 1 && isFirst, isFirst ? "at the first price" : "at a later price");
    },
  },
  {
    id: "D5-endless-402",
    does: "The gate takes every payment and answers 402 for ever.",
    safeResult: "one payment and at most 20 requests in one call",
    async run(play) {
      const gate = await play.stage.gate({ steadily: "settle_then_402" });
      await play.attempt(gate.url);
      return play.also(
        play.stage.authorizations.length <= 1 && gate.seen.length <= 20,
        `${gate.seen.length} to the gate`,
      );
    },
  },
  {
    id: "D5-dribbling-402",
    does: "A 402 whose body never ends, a byte at a time.",
    safeResult: "given up in bounded time, nothing signed",
    async run(play) {
      const gate = await play.stage.gate({ unpaid: () => "dribble" });
      await play.attempt(gate.url);
      return play.signedNothing();
    },
  },
  {
    id: "D5-flooding-402",
    does: "A 402 with a body of 64 MB.",
    safeResult: "given up without reading it all into memory, nothing signed",
    async run(play) {
      const gate = await play.stage.gate({ unpaid: () => "flood" });
      const before = process.memoryUsage().rss;
      await play.attempt(gate.url);
      const grownMb = Math.max(0, Math.round((process.memoryUsage().rss - before) / 1_048_576));
      return { ...play.signedNothing(), saw: `${play.signedNothing().saw}; about ${grownMb} MB more memory` };
    },
  },
  {
    id: "D13-content-absent",
    does: "The gate takes the payment and answers 500, then 404.",
    safeResult: "one payment, and the answer is reported",
    async run(play) {
      const gate = await play.stage.gate({ steps: [{ status: 500 }, { status: 404 }] });
      await play.attempt(gate.url);
      await play.attempt(gate.url);
      return play.signedAtMost(1);
    },
  },
  {
    id: "D17-state-lost",
    does: "The same purchase, by its key, after the client lost everything but its wallet.",
    safeResult: "one transfer: the token refuses the second, since both authorizations bear one nonce",
    async run(play) {
      const gate = await play.stage.gate();
      await play.attempt(gate.url, { idempotencyKey: "invoice-2026-0001", session: "first" });
      await play.attempt(gate.url, { idempotencyKey: "invoice-2026-0001", session: "reborn" });
      return play.signedAtMost(1);
    },
  },
];

async function until(isSo: () => boolean): Promise<void> {
  for (let i = 0; i < 500 && !isSo(); i++) await new Promise((resolve) => setTimeout(resolve, 10));
}
