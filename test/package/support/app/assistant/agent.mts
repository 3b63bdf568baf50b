import { createAgent, walletFromKey } from "turnpike/agent";
import { fileLedger } from "turnpike/agent/file-ledger";
import { isTurnpikeError } from "turnpike/protocol";

const agent = createAgent({
  wallet: walletFromKey(process.env.AGENT_KEY as `0x${string}`),
  // Base units. A plan's first period and its cap of metered use have to fit, into a day too.
  policy: { perPayment: 100_000n, perDay: 12_000_000n, perSubscription: 11_000_000n },
  facilitators: [process.env.TURNPIKE_FACILITATOR_URL ?? ""],
  ledger: fileLedger("./agent.ledger"), // one file for each wallet: it remembers what was paid
});
try {
  // Once. The same name never pays twice, also after a time-out or a restart.
  const response = await agent.pay("https://api.example/report", { idempotencyKey: "report of 2027-01-31" });
  console.log(response.status, response.receipt?.amount, await response.text());
  // A plan, by a GET that offers it: signs up once, then uses the subscription. Without a cap, metered use is refused.
  await agent.subscribe({ url: "https://api.example/report", maxOverage: 1_000_000n });
  const words = await agent.fetch("https://api.example/words", { method: "POST" });
  console.log(words.status);
} catch (error) {
  if (!isTurnpikeError(error)) throw error;
  // PaymentPending: the outcome is unknown. Make the same call again later, with the same key.
  console.error(error.code, error.reason, error.remedy);
} finally {
  await agent.close();
}
