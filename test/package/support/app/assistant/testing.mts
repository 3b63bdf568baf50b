import { strict as assert } from "node:assert";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { gated, paymentGate } from "turnpike/gate/node";
import { createTestProvider } from "turnpike/testing";

const test = createTestProvider();
await test.install(); // before your application is imported: its gates use it
const gate = paymentGate({ pricing: [{ type: "one-time", amount: 50_000 }] });
const server = createServer(gated(gate, (_request, response) => response.end("paid"))).listen(0);
const url = `http://localhost:${(server.address() as AddressInfo).port}/report`;

const unpaid = await fetch(url);
assert.equal(unpaid.status, 402);
const paid = await fetch(url, { headers: test.pay(await unpaid.json()) });
assert.equal(await paid.text(), "paid");
server.close();
