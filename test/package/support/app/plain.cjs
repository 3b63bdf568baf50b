// Plain JavaScript as CommonJS: the same package, the same classes.
const assert = require("node:assert/strict");
const { createAgent, walletFromKey } = require("turnpike/agent");
const { isTurnpikeError, PolicyRefused } = require("turnpike/protocol");
const root = require("turnpike");

async function main() {
  for (const name of [
    "paymentGate",
    "parsePaymentProof",
    "verifyPaymentProof",
    "buildPaymentRequired",
    "deductAllowance",
  ]) {
    assert.equal(typeof root[name], "function", name);
  }
  assert.equal(root.createAgent, createAgent);
  assert.equal(root.PolicyRefused, PolicyRefused);
  const agent = createAgent({
    wallet: walletFromKey(`0x${"11".repeat(32)}`),
    policy: { perPayment: 1, perDay: 1 },
    facilitators: ["https://facilitator.example"],
    fetch: async () => new Response("{}", { status: 402 }),
  });
  await assert.rejects(
    agent.pay("https://api.example/"),
    (error) => isTurnpikeError(error) && error.reason === "quote",
  );
  console.log(`cjs ${await agent.address()}`);
}
main();
