import { mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import path from "node:path";
import { expect } from "chai";
import { setOperator } from "turnpike/chain";
import { meterStream, paymentGate as nodeGate, openAiUsage, type Payment, type Provider } from "turnpike/gate";
import { type FetchGate, paymentGate } from "turnpike/gate/fetch";
import {
  type Address,
  addressOfKey,
  checksum,
  type Hex,
  isOverpriced,
  keccakText,
  parseUsageReceipt,
  recoverSigner,
  requestHashOf,
  type SignedUsageReceipt,
  typedDataDigest,
  type UsageReceipt,
  usageReceiptTexts,
  usageReceiptTypedData,
} from "turnpike/protocol";
import { createTestProvider, type TestProvider } from "turnpike/testing";
import { createMemoryMeterStore } from "../../../../sdk/src/gate/metering/shared-store";
import type { MeterStore } from "../../../../sdk/src/gate/metering/store";
import { createFileMeterStore } from "../../../../sdk/src/gate/provider/create-meter";
import { testKey } from "../../../support/chain";
import { closeServer, listen, type SmallFacilitator, startSmallFacilitator } from "../../../support/gate";
import { type SubscriptionWorld, startSubscriptionWorld, until } from "../../../support/subscriptions";
import { providerOn } from "../support/chain-provider";
import { ADAPTERS, PREFIX } from "../support/frameworks";
import { meterBeforeEach } from "../support/meter-world";

const KEY = keccakText("receipt key of this test");
const URL_OF_TOKENS = "http://gate.test/tokens?q=1";
const DEPLOYMENT = { chainId: 31_337, turnpike: checksum(`0x${"71".repeat(20)}`) };

const receiptsOf = (header: string | null): SignedUsageReceipt[] =>
  usageReceiptTexts(header).map((text) => parseUsageReceipt(text) ?? expect.fail(`no receipt: ${text}`));

const signerOf = ({ receipt, signature }: SignedUsageReceipt, deployment = DEPLOYMENT) =>
  recoverSigner(typedDataDigest(usageReceiptTypedData(deployment, receipt)), signature);

const numbersOf = ({ receipt: { sequence, amount, total } }: { receipt: UsageReceipt }) => [sequence, amount, total];

describe("Usage receipts of metered answers", () => {
  let world: TestProvider;
  let planId: Hex;
  let gate: FetchGate;
  let answer: (payment: Payment) => Promise<Response>;

  before(() => {
    world = createTestProvider({ publicUrl: "http://gate.test", receiptKey: KEY });
    ({ planId } = world.addPlan({}));
    const pricing = [{ type: "subscription", plan: planId }] as const;
    gate = paymentGate({ provider: world.provider, pricing, metered: true });
  });

  const serve = (headers: Record<string, string>): Promise<Response> =>
    gate((request) => answer(request.payment))(new Request(URL_OF_TOKENS, { headers }));

  const subscribe = (maxOverage: bigint) => world.subscribe({ planId, maxOverage });

  it("state each charge: who, when, for which request, at which price, and the sum of the cycle", async () => {
    const { headers } = subscribe(1_000n);
    answer = async (payment) => {
      await payment.deduct(30n, { unit: "page", units: 3, unitPrice: 10n });
      await payment.deduct(5n);
      return new Response("served");
    };
    const response = await serve(headers);
    const receipts = receiptsOf(response.headers.get("usage-receipt"));
    expect(receipts.map(numbersOf)).to.deep.equal([
      [1, 30n, 30n],
      [2, 5n, 35n],
    ]);
    for (const one of receipts) {
      expect(signerOf(one)).to.equal(addressOfKey(KEY));
      expect(one.receipt.requestHash).to.equal(requestHashOf(one.salt, "GET", URL_OF_TOKENS));
      expect(isOverpriced(one.receipt)).to.equal(false);
    }
    expect(receipts[0]?.receipt).to.include({ planId, unit: "page", units: 3n, unitPrice: "10/1", version: 0 });
    expect(receipts[1]?.receipt).to.include({ unit: "call", units: 1n, unitPrice: "5/1" });
    expect(new Set(receipts.map(({ salt }) => salt)).size, "a salt of its own").to.equal(2);
    expect(response.headers.get("access-control-expose-headers")).to.contain("USAGE-RECEIPT");
    const next = receiptsOf((await serve(headers)).headers.get("usage-receipt"));
    expect(next.map(numbersOf), "the same cycle goes on").to.deep.equal([
      [3, 30n, 65n],
      [4, 5n, 70n],
    ]);
  });

  it("state what was really charged of a cost above the cap, and nothing for what is free", async () => {
    const { headers } = subscribe(50n);
    answer = async (payment) => {
      await payment.deduct(0n);
      await payment.deduct(80n);
      return new Response("served");
    };
    const [receipt, ...more] = receiptsOf((await serve(headers)).headers.get("usage-receipt"));
    expect(more).to.deep.equal([]);
    expect(receipt && numbersOf(receipt)).to.deep.equal([1, 50n, 50n]);
    const refused = await serve(headers);
    expect([refused.status, refused.headers.get("usage-receipt")]).to.deep.equal([402, null]);
  });

  it("leave with the refusal of a later charge, too: the first one was made", async () => {
    const { headers, id } = subscribe(100n);
    answer = async (payment) => {
      await payment.deduct(40n);
      world.change(id, { spent: 100n });
      await payment.deduct(40n);
      return new Response("never");
    };
    const refused = await serve(headers);
    expect(refused.status).to.equal(402);
    expect(receiptsOf(refused.headers.get("usage-receipt")).map(numbersOf)).to.deep.equal([[1, 40n, 40n]]);
  });

  it("carry the last ones where a request is charged very often: their totals contain the others", async () => {
    const { headers } = subscribe(1_000n);
    answer = async (payment) => {
      for (let i = 0; i < 30; i++) await payment.deduct(1n);
      return new Response("served");
    };
    const receipts = receiptsOf((await serve(headers)).headers.get("usage-receipt"));
    expect(receipts.map(({ receipt }) => receipt.sequence)).to.deep.equal([23, 24, 25, 26, 27, 28, 29, 30]);
    expect(receipts.at(-1)?.receipt.total).to.equal(30n);
  });

  it("refuse a usage whose price is below the charge", async () => {
    const { headers } = subscribe(1_000n);
    const errors: unknown[] = [];
    answer = async (payment) => {
      const usage = { unit: "page", units: 3, unitPrice: 10n };
      await payment.deduct(31n, usage).catch((error) => errors.push(error));
      await payment.deduct(1n, { ...usage, unit: "\n" }).catch((error) => errors.push(error));
      return new Response("served");
    };
    expect((await serve(headers)).headers.get("usage-receipt")).to.equal(null);
    expect(errors.map(String).join("\n")).to.match(/amount is 31, but 3 page cost 30[\s\S]*usage: unit is "\n"/);
  });

  const PRICES = { input: 1n, output: 2n } as const;
  const chunk = (content: string): string =>
    `data: ${JSON.stringify({ object: "chat.completion.chunk", choices: [{ index: 0, delta: { content } }] })}\n\n`;
  const usageChunk = (input: number, output: number): string =>
    `data: ${JSON.stringify({ choices: [], usage: { prompt_tokens: input, completion_tokens: output } })}\n\n`;
  const eventStream = (parts: readonly string[]) => {
    const bytes = parts.map((part) => new TextEncoder().encode(part));
    const body = new ReadableStream({
      pull: (controller) => {
        const next = bytes.shift();
        if (next) controller.enqueue(next);
        else controller.close();
      },
    });
    return new Response(body, { headers: { "content-type": "text/event-stream" } });
  };
  const COMMENT = /^: usage-receipt (\S+)\n\n/gm;
  const commentsOf = (text: string) =>
    [...text.matchAll(COMMENT)].map(([, one]) => parseUsageReceipt(one ?? "") ?? expect.fail("no receipt"));

  it("UR2 go between the events of a stream, where no reader of events sees them", async () => {
    const { headers, id } = subscribe(1_000_000n);
    const events = [chunk("a"), ": upstream's own comment\n\n", chunk("b"), usageChunk(100, 50), "data: [DONE]\n\n"];
    answer = (payment) => meterStream(eventStream(events), { payment, prices: PRICES, read: openAiUsage(), step: 5n });
    const text = await (await serve(headers)).text();
    expect(text.replace(COMMENT, ""), "every byte of the upstream, in order").to.equal(events.join(""));
    const receipts = commentsOf(text);
    expect(receipts.length).to.be.greaterThan(1);
    const total = receipts.reduce((sum, { receipt }) => sum + receipt.amount, 0n);
    expect([total, world.spentOf(id)]).to.deep.equal([200n, 200n]);
    expect(receipts.at(-1)?.receipt.total).to.equal(200n);
    expect(receipts.map(({ receipt }) => receipt.sequence)).to.deep.equal(receipts.map((_, i) => i + 1));
    const units = new Map<string, bigint>();
    for (const { receipt } of receipts) {
      expect(isOverpriced(receipt)).to.equal(false);
      units.set(receipt.unit, (units.get(receipt.unit) ?? 0n) + receipt.units);
    }
    expect(Object.fromEntries(units)).to.deep.equal({ "input token": 100n, "output token": 50n });
  });

  it("UR13 of an upstream stay behind: they are for its own customer, and no client of this gate", async () => {
    const { headers } = subscribe(1_000_000n);
    const foreign = [": usage-receipt 1.of.an.upstream\n\n", ":usage-receipt\r\n: usage-receipt x\r\n\r\n"];
    const others = [": usage-receipts\n\n", `: usage-receipt y\n${chunk("b")}`];
    const events = [foreign[0], chunk("a"), foreign[1], ...others, usageChunk(1, 2)].join("");
    const parts = events.match(/[\s\S]{1,7}/g) ?? [];
    answer = (payment) => meterStream(eventStream(parts), { payment, prices: PRICES, read: openAiUsage() });
    const text = await (await serve(headers)).text();
    for (const one of foreign) expect(text).not.to.contain(one);
    for (const one of [chunk("a"), ": usage-receipts\n\n", chunk("b")]) expect(text).to.contain(one);
  });

  it("UR2 never break an event that a meter of parts sends in pieces", async () => {
    const { headers, id } = subscribe(1_000_000n);
    const text = `${chunk("one")}${chunk("two")}data: no end`;
    answer = async (payment) => {
      const meter = payment.meter({ unit: "byte", unitPrice: 1n, step: 10n });
      const parts = text.match(/[\s\S]{1,13}/g) ?? [];
      return meterStream(eventStream(parts), { meter, units: (part) => part.length });
    };
    const sent = await (await serve(headers)).text();
    expect(sent.replace(COMMENT, "")).to.equal(text);
    expect(world.spentOf(id)).to.equal(BigInt(text.length));
    for (const { receipt } of commentsOf(sent)) expect(receipt.unit).to.equal("byte");
  });

  it("go into the header of a model's answer that is no stream", async () => {
    const { headers } = subscribe(1_000_000n);
    const body = { usage: { prompt_tokens: 7, completion_tokens: 3 }, choices: [] };
    answer = (payment) => meterStream(Response.json(body), { payment, prices: PRICES, read: openAiUsage() });
    const response = await serve(headers);
    const receipts = receiptsOf(response.headers.get("usage-receipt"));
    expect(receipts.map(({ receipt: { unit, units, amount } }) => [unit, units, amount])).to.have.deep.members([
      ["input token", 7n, 7n],
      ["output token", 3n, 6n],
    ]);
    expect(await response.json()).to.deep.equal(body);
  });

  it("are handed to handlers that write their own stream, each once", async () => {
    const { headers } = subscribe(1_000n);
    const taken: string[] = [];
    answer = async (payment) => {
      const meter = payment.meter({ unit: "second", unitPrice: 4n });
      await meter.add(5);
      expect(meter.takeReceipts(), "nothing is charged yet").to.deep.equal([]);
      await meter.end();
      taken.push(...meter.takeReceipts(), ...meter.takeReceipts());
      return new Response("served");
    };
    expect((await serve(headers)).headers.get("usage-receipt")).to.equal(null);
    expect(taken.map((text) => parseUsageReceipt(text)?.receipt.amount)).to.deep.equal([20n]);
  });

  it("leave in the head of a Node response", async () => {
    const { headers, id } = subscribe(1_000n);
    const pricing = [{ type: "subscription", plan: planId }] as const;
    const middleware = nodeGate({ provider: world.provider, pricing, metered: true });
    const server = createServer((request, response) => {
      void middleware(request, response, async () => {
        const { payment } = request as unknown as { payment: Payment };
        await payment.deduct(3n);
        await payment.deduct(4n);
        response.writeHead(200, { "content-type": "text/plain" }).end("served");
      });
    });
    const url = await listen(server);
    try {
      const early = await fetch(`${url}/tokens`, { headers });
      expect(receiptsOf(early.headers.get("usage-receipt")).map(numbersOf)).to.deep.equal([
        [1, 3n, 3n],
        [2, 4n, 7n],
      ]);
    } finally {
      await closeServer(server);
    }
    expect(world.spentOf(id)).to.equal(7n);
  });
});

describe("Usage receipts through every framework", () => {
  for (const [name, start] of Object.entries(ADAPTERS)) {
    it(`are in the head of a metered answer of ${name}`, async () => {
      const world = createTestProvider({ receiptKey: KEY });
      const { planId } = world.addPlan({});
      const pricing = [{ type: "subscription", plan: planId }] as const;
      const handle = async ({ payment }: { payment: Payment }) => {
        await payment.deduct(6n, { unit: "row", units: 3, unitPrice: 2n });
        return { body: "rows" };
      };
      const server = await start(world.provider, [
        { path: "/rows", gate: { pricing, metered: true } as never, handle: handle as never },
      ]);
      try {
        const { headers } = world.subscribe({ planId, maxOverage: 100n });
        const url = `${server.url}${PREFIX}/rows`;
        const response = await fetch(url, { headers });
        expect(await response.text()).to.contain("rows");
        const [receipt] = receiptsOf(response.headers.get("usage-receipt"));
        expect(receipt?.receipt).to.include({ unit: "row", units: 3n, amount: 6n, sequence: 1 });
        expect(receipt?.receipt.requestHash).to.equal(requestHashOf(receipt?.salt ?? "0x", "GET", url));
      } finally {
        await server.stop();
      }
    });
  }
});

describe("The numbers of usage receipts", () => {
  const worldOf = meterBeforeEach();
  let folder: string;

  beforeEach(() => {
    folder = mkdtempSync(path.join(tmpdir(), "turnpike-receipts-"));
  });
  afterEach(() => rmSync(folder, { recursive: true, force: true }));

  const STORES: Readonly<Record<string, () => MeterStore>> = {
    memory: createMemoryMeterStore,
    file: () => createFileMeterStore({ path: path.join(folder, "meter.log"), compactAtBytes: 600 }),
  };

  async function charged(idHash: Hex, amount: bigint) {
    const { meter, chain } = worldOf();
    return (await meter.reserve(idHash, amount, chain.facts(idHash))).receipt;
  }

  for (const [name, make] of Object.entries(STORES)) {
    it(`UR3 grow by one, however many charge at once, and begin again with each cycle (${name})`, async () => {
      const world = worldOf();
      await world.start({ store: make(), receipts: true });
      const idHash = world.chain.subscribe(1, { cap: 10n ** 6n });
      const facts = world.chain.facts(idHash);
      const calls = Array.from({ length: 20 }, (_, i) => charged(idHash, BigInt(i + 1)));
      await world.meter.holdAhead({ idHash, facts, hold: "0x01", need: 50n, ahead: 50n });
      const held = await world.meter.chargeHold({ idHash, facts, hold: "0x01", total: 60n, release: false });
      const again = await world.meter.chargeHold({ idHash, facts, hold: "0x01", total: 60n, release: true });
      const receipts = [...(await Promise.all(calls)), held.receipt];
      expect(receipts.map((one) => one?.sequence)).to.have.members(Array.from({ length: 21 }, (_, i) => i + 1));
      expect(again, "a charge that is repeated")
        .to.include({ charged: 60n, added: 0n })
        .and.not.have.property("receipt.sequence");
      expect((await charged(idHash, 1n))?.total).to.equal(210n + 60n + 1n);
      await world.meter.flush();
      world.chain.renew(idHash);
      expect(await charged(idHash, 5n)).to.include({
        sequence: 1,
        total: 5n,
        paidThrough: facts.paidThroughSec + 10_000,
      });
      const late = await world.meter.reserve(idHash, 2n, facts);
      expect(late.receipt, "by facts of the cycle before").to.include({ sequence: 2, total: 7n });
    });
  }

  it("UR3 go on after a restart, also once the journal was compacted and nothing is owed", async () => {
    const world = worldOf();
    const file = STORES.file as () => MeterStore;
    await world.start({ store: file(), receipts: true });
    const idHash = world.chain.subscribe(1, { cap: 10n ** 6n });
    for (let i = 0; i < 12; i++) await charged(idHash, 1n);
    await world.meter.flush();
    await world.meter.stop();
    await world.start({ store: file(), receipts: true });
    expect(await charged(idHash, 4n)).to.include({ sequence: 13, total: 16n });
  });
});

describe("A gate's right to sign usage receipts", function () {
  this.timeout(120_000);
  let world: SubscriptionWorld;
  let facilitator: SmallFacilitator;
  let provider: Provider;
  let folder: string;
  const warnings: Error[] = [];
  const warned = (warning: Error): void => void warnings.push(warning);

  before(async () => {
    world = await startSubscriptionWorld();
    facilitator = await startSmallFacilitator();
    folder = mkdtempSync(path.join(tmpdir(), "turnpike-receipts-"));
    process.on("warning", warned);
  });
  after(async () => {
    process.off("warning", warned);
    await facilitator.stop();
    await world.stop();
    rmSync(folder, { recursive: true, force: true });
  });
  afterEach(() => provider.close());

  const keyName = "receipts";
  const account = (): Address => addressOfKey(testKey(keyName) as Hex);

  async function setRights(rights: number): Promise<void> {
    const owner = await world.chain.wallet("provider");
    await setOperator(owner, world.contracts.turnpike, { planId: world.planId, account: account(), rights });
  }

  function open(receiptKey: Hex) {
    const operatorKey = testKey("provider") as Hex;
    provider = providerOn(world, facilitator, { operatorKey, meterFolder: folder, receiptKey });
    const pricing = [{ type: "subscription", plan: world.planId }] as const;
    return paymentGate({ provider, pricing, metered: true });
  }

  it("UR4 is required before the first charge, and named with its remedy", async () => {
    await world.chain.wallet("provider");
    for (const key of ["0x12", `0x${"00".repeat(32)}`] as const)
      expect(() => open(key)).to.throw("receiptKey (TURNPIKE_RECEIPT_KEY) is no private key");
    open(testKey(keyName) as Hex);
    const refusal = await provider.ready().catch((error) => error);
    expect(refusal.code).to.equal("ConfigError");
    expect(refusal.message).to.contain(`setOperator(${world.planId}, ${account()}, 4)`);
  });

  it("UR4 makes receipts that the chain vouches for, and its loss is logged", async () => {
    await setRights(4);
    const gate = open(testKey(keyName) as Hex);
    await provider.ready();
    const { id, idHash } = await world.subscribe("receipted", { maxOverage: 1_000n });
    const handler = gate(async ({ payment }) => {
      await payment.deduct(9n);
      return new Response("served");
    });
    const url = "http://127.0.0.1:4021/tokens";
    const response = await handler(new Request(url, { headers: { "X-Service-Sub": id } }));
    expect(response.status, await response.text()).to.equal(200);
    const [receipt] = receiptsOf(response.headers.get("usage-receipt"));
    const deployment = { chainId: world.chain.chainId, turnpike: checksum(world.contracts.turnpike) };
    expect(receipt && signerOf(receipt, deployment)).to.equal(account());
    expect(receipt?.receipt).to.include({ planId: world.planId, idHash, version: 0, sequence: 1, amount: 9n });
    warnings.splice(0);
    await setRights(0);
    await until(() => warnings.some(({ message }) => message.includes("may not sign usage receipts")));
  });
});
