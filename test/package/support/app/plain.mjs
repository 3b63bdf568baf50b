// Plain JavaScript as an ECMAScript module: gates a route, is asked for payment, pays, and quotes.
import assert from "node:assert/strict";
import { createServer } from "node:http";
import { paymentGate } from "turnpike";
import { createAgent, memoryLedger, walletFromKey } from "turnpike/agent";
import { BatchSettler__factory, Turnpike__factory } from "turnpike/chain";
import { formatAmount, PolicyRefused } from "turnpike/protocol";
import { createTestProvider } from "turnpike/testing";

const test = createTestProvider();
await test.install();
const gate = paymentGate({ pricing: [{ type: "one-time", amount: 500_000 }] });
const server = createServer((req, res) => gate(req, res, () => res.end(JSON.stringify({ paid: req.payment.kind }))));
await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
const url = `http://127.0.0.1:${server.address().port}/data`;

const asked = await fetch(url);
assert.equal(asked.status, 402);
const served = await fetch(url, { headers: test.pay(await asked.json()) });
assert.deepEqual([served.status, await served.json()], [200, { paid: "one-time" }]);

const agent = createAgent({
  wallet: walletFromKey(`0x${"11".repeat(32)}`),
  policy: { perPayment: 1, perDay: 1 },
  facilitators: ["https://facilitator.example"],
  ledger: memoryLedger(),
});
const quote = await agent.quote(url);
assert.equal(quote.options[0].amount, 500_000n);
await assert.rejects(agent.pay(url), (error) => error instanceof PolicyRefused);
assert.equal(Turnpike__factory.createInterface().getFunction("debit").inputs.length, 3);
assert.equal(BatchSettler__factory.createInterface().getFunction("settle").inputs.length, 2);
await agent.close();
server.close();
console.log(`esm ${formatAmount(quote.options[0].amount)}`);
