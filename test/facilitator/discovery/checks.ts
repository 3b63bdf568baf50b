import type { LookupAddress } from "node:dns";
import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { expect } from "chai";
import type { Lookup } from "turnpike/public-lookup";
import { until } from "../../support/until";
import { type Receiver, startReceiver } from "../webhooks/support/receiver";
import { actorOf, CHECK_EVERY_MS, openCatalogue, type TestCatalogue, TOKEN, walletOf } from "./support/catalogue";

const SELLER = walletOf("seller");
const STRANGER = walletOf("stranger");
const DAY_MS = 86_400_000;

const entry = (payTo: string, more: object = {}) => ({
  scheme: "exact",
  network: "eip155:84532",
  amount: "50000",
  asset: TOKEN.address,
  payTo,
  maxTimeoutSeconds: 60,
  extra: { name: "Another token", version: "9" },
  ...more,
});

const firstEntry = (payTo: string, more: object = {}) => ({
  scheme: "exact",
  network: "base-sepolia",
  maxAmountRequired: "50000",
  asset: TOKEN.address,
  payTo,
  maxTimeoutSeconds: 60,
  resource: "https://elsewhere.example/",
  description: "First",
  mimeType: "text/plain",
  ...more,
});

/** A 402 of version 2, and of version 1 where `first` has entries. */
const answerOf =
  (accepts: readonly object[], more: object = {}, first: readonly object[] = []) =>
  (response: ServerResponse): void => {
    const required = { x402Version: 2, resource: { url: "https://elsewhere.example/" }, accepts, ...more };
    response.writeHead(402, { "PAYMENT-REQUIRED": Buffer.from(JSON.stringify(required)).toString("base64") });
    response.end(JSON.stringify(first.length > 0 ? { x402Version: 1, accepts: first } : {}));
  };

describe("Facilitator: checks of listings", function () {
  this.timeout(60_000);
  let catalogue: TestCatalogue;
  let seller: Receiver;
  let base: string;
  before(async () => {
    catalogue = await openCatalogue();
    seller = await startReceiver();
    base = `http://127.0.0.1:${seller.port}`;
    await catalogue.enrol(SELLER);
  });
  after(async () => {
    await catalogue.close();
    await seller.stop();
  });
  afterEach(async () => {
    await catalogue.store.db.deleteFrom("listings").execute();
    seller.received.length = 0;
  });

  const sells = (payTo = SELLER) => seller.answer(answerOf([entry(payTo)]));
  const problemOf = async (url = `${base}/x`) => {
    const { id } = await catalogue.list(SELLER, { url });
    const { state, problem } = (await catalogue.check(SELLER, id)) ?? {};
    expect(state).to.equal("hidden");
    expect(await catalogue.shown()).to.deep.equal([]);
    return problem;
  };

  it("shows a route once its own URL has answered 402, with the prices of that answer", async () => {
    const resource = { description: "Weather\u0007\u202Eof a city\n", mimeType: "text/plain", serviceName: "Sky" };
    const extra = { paymentFlow: "upfront", memo: "not for others" };
    seller.answer(answerOf([entry(SELLER, { extra })], { resource }, [firstEntry(SELLER)]));
    const wanted = { url: `${base}/weather/{city}`, sample: { city: "bern" } };
    const { id, state } = await catalogue.list(SELLER, wanted);
    expect(state).to.equal("pending");
    expect(await catalogue.shown()).to.deep.equal([]);

    expect((await catalogue.check(SELLER, id))?.state).to.equal("listed");
    expect(seller.received.map(({ path }) => path)).to.deep.equal(["/weather/bern"]);
    expect(Object.keys(seller.received[0]?.headers ?? {})).not.to.include.members(["authorization", "cookie"]);
    const [second, first, ...none] = await catalogue.shown();
    expect(none).to.deep.equal([]);
    expect(second).to.deep.include({
      resource: wanted.url,
      x402Version: 2,
      serviceName: "Sky",
      mimeType: "text/plain",
    });
    expect(second?.description).to.equal("Weather of a city");
    expect(second?.accepts).to.deep.equal([
      entry(SELLER, { extra: { name: TOKEN.name, version: TOKEN.version, paymentFlow: "upfront" } }),
    ]);
    expect(second?.extensions?.bazaar).to.deep.include({
      routeTemplate: "/weather/:city",
      info: { input: { type: "http", method: "GET" } },
    });
    expect(first).to.deep.include({ resource: wanted.url, x402Version: 1 });
    expect(first?.accepts[0]).to.include({ network: "base-sepolia", maxAmountRequired: "50000", resource: wanted.url });
    expect(await catalogue.search("weather in bern, please")).to.have.length(2);
    expect(await catalogue.search("100% _")).to.deep.equal([]);
  });

  it("shows the maximum of upto, with what a payer must name in its permit", async () => {
    const extra = { assetTransferMethod: "permit2", facilitatorAddress: STRANGER };
    seller.answer(answerOf([entry(SELLER, { scheme: "upto", extra })], {}, [firstEntry(SELLER, { scheme: "upto" })]));
    const { id } = await catalogue.list(SELLER, { url: `${base}/x` });
    await catalogue.check(SELLER, id);
    const { name, version } = TOKEN;
    const shown = await catalogue.shown({ scheme: "upto" });
    expect(shown.map(({ accepts }) => accepts)).to.deep.equal([
      [entry(SELLER, { scheme: "upto", extra: { name, version, ...extra } })],
    ]);
  });

  it("filters by version, network, payee, scheme and extension", async () => {
    seller.answer(answerOf([entry(SELLER)], {}, [firstEntry(SELLER)]));
    const { id } = await catalogue.list(SELLER, { url: `${base}/x` });
    await catalogue.check(SELLER, id);
    const versions = async (filter: object) => (await catalogue.shown(filter)).map(({ x402Version }) => x402Version);
    expect(await versions({ type: "http", payTo: SELLER, scheme: "exact", extensions: "bazaar" })).to.deep.equal([
      2, 1,
    ]);
    expect(await versions({ network: "eip155:84532" })).to.deep.equal([2]);
    expect(await versions({ network: "base-sepolia" })).to.deep.equal([1]);
    expect(await versions({ x402Version: 1 })).to.deep.equal([1]);
    for (const other of [
      ...[{ type: "mcp" }, { payTo: STRANGER }, { scheme: "upto" }, { network: "eip155:1" }, { extensions: "other" }],
      { network: "eip155:84532", x402Version: 1 as const },
    ]) {
      expect(await versions(other), JSON.stringify(other)).to.deep.equal([]);
    }
  });

  it("B51 shows no 402 that pays somebody else, in any entry", async () => {
    sells(STRANGER);
    expect(await problemOf()).to.equal("payee");
    seller.answer(answerOf([entry(SELLER), entry(STRANGER, { asset: walletOf("other token") })]));
    expect(await problemOf()).to.equal("payee");
    seller.answer(answerOf([entry(SELLER)], {}, [firstEntry(STRANGER)]));
    expect(await problemOf()).to.equal("payee");
  });

  it("B51 accepts the payee of a plan, unless that wallet is a provider itself", async () => {
    const treasury = walletOf("treasury");
    await catalogue.plan(SELLER, treasury);
    sells(treasury);
    const { id } = await catalogue.list(SELLER, { url: `${base}/x` });
    expect((await catalogue.check(SELLER, id))?.state).to.equal("listed");
    await catalogue.enrol(treasury);
    expect((await catalogue.check(SELLER, id))?.problem).to.equal("payee");
  });

  it("B51 hides a listing whose payee changed or whose 402 is gone, shows it again, and drops it after three days", async () => {
    sells();
    const { id } = await catalogue.list(SELLER, { url: `${base}/x` });
    const checked = await catalogue.check(SELLER, id);
    expect((checked?.nextCheckAt ?? 0) * 1_000).to.equal(catalogue.clock.nowMs + CHECK_EVERY_MS);
    sells(STRANGER);
    expect(await catalogue.check(SELLER, id)).to.include({ state: "hidden", problem: "payee" });
    expect(await catalogue.shown()).to.deep.equal([]);
    sells();
    expect((await catalogue.check(SELLER, id))?.state).to.equal("listed");
    seller.answer(200);
    expect(await catalogue.check(SELLER, id)).to.include({ state: "hidden", problem: "status" });
    catalogue.clock.nowMs += 3 * DAY_MS - 1;
    expect((await catalogue.check(SELLER, id))?.state).to.equal("hidden");
    catalogue.clock.nowMs += 1;
    expect(await catalogue.check(SELLER, id)).to.equal(undefined);
  });

  it("B51 refuses terms that this service does not settle, and answers that are no 402 of x402", async () => {
    for (const other of [{ scheme: "wild" }, { network: "eip155:1" }, { asset: STRANGER }, { amount: "-1" }]) {
      seller.answer(answerOf([entry(SELLER, other)]));
      expect(await problemOf(), JSON.stringify(other)).to.equal("no_price");
    }
    seller.answer((response) => void response.writeHead(402, { "PAYMENT-REQUIRED": "e30=" }).end("<html>"));
    expect(await problemOf()).to.equal("malformed");
    seller.answer((response) => void response.writeHead(402).end('{"x402Version":1,"x402Version":1,"accepts":[]}'));
    expect(await problemOf()).to.equal("malformed");
  });

  it("B50 asks no private address, in the URL or behind a name, also one that changes", async () => {
    sells();
    const answers: LookupAddress[][] = [
      [{ address: "127.0.0.1", family: 4 }],
      [{ address: "::ffff:7f00:1", family: 6 }],
    ];
    const lookup: Lookup = (_host, _options, callback) => callback(null, answers.shift() ?? []);
    const guarded = catalogue.checks({ allowPrivate: false, lookup });
    for (const host of ["rebind.example", "rebind.example", "127.0.0.1", "[::1]"]) {
      const { id } = await catalogue.list(SELLER, { url: `http://${host}:${seller.port}/x` });
      expect((await catalogue.check(SELLER, id, guarded))?.problem, host).to.equal("address");
    }
    expect(seller.received).to.deep.equal([]);
  });

  it("B50 follows no redirect", async () => {
    seller.answer((response) => void response.writeHead(302, { location: `${base}/inner` }).end());
    expect(await problemOf()).to.equal("redirect");
    expect(seller.received.map(({ path }) => path)).to.deep.equal(["/x"]);
  });

  it("B50 reads a bounded part of an answer, for a bounded time", async () => {
    seller.answer((response) => void response.writeHead(402).end("x".repeat(65_537)));
    expect(await problemOf()).to.equal("too_large");
    seller.answer((response) => void response.writeHead(402, { "PAYMENT-REQUIRED": "x".repeat(20_000) }).end());
    expect(await problemOf()).to.equal("too_large");
    // One byte, and then nothing.
    seller.answer((response) => void response.writeHead(402).write("{"));
    const { id } = await catalogue.list(SELLER, { url: `${base}/slow` });
    const impatient = catalogue.checks({ timeoutMs: 100 });
    expect((await catalogue.check(SELLER, id, impatient))?.problem).to.equal("timeout");
  });

  it("B50 asks each host once, and for each provider twice, in one tick", async () => {
    sells();
    const checks = catalogue.checks();
    const other = walletOf("other provider");
    await catalogue.enrol(other);
    for (const path of ["a", "b", "c"]) await catalogue.list(SELLER, { url: `${base}/${path}` });
    expect(await checks.tick()).to.equal(1);
    for (const host of [1, 2, 3, 4]) await catalogue.list(SELLER, { url: `http://127.0.0.${host + 1}:9/x` });
    await catalogue.list(other, { url: "http://127.0.0.9:9/x" });
    expect(await checks.tick()).to.equal(3);
  });

  it("B50 accepts a hundred listings of one address before their first check", async () => {
    const first = walletOf("many listings");
    const second = walletOf("many more");
    const third = walletOf("one more listing");
    for (const wallet of [first, second, third]) await catalogue.enrol(wallet);
    await catalogue.store.db.deleteFrom("listings").execute();
    for (let count = 0; count < 100; count++)
      await catalogue.list(count % 2 === 0 ? first : second, { url: `${base}/${count}` });
    const refused = await catalogue.list(third, { url: `${base}/more` }).catch((error: { code: string }) => error.code);
    expect(refused).to.equal("RateLimited");
  });

  it("B52 does not take the outcome of a check for a listing that changed or was removed meanwhile", async () => {
    const answer = answerOf([entry(SELLER)]);
    const { id } = await catalogue.list(SELLER, { url: `${base}/{a}`, sample: { a: "one" } });
    let act: () => Promise<unknown> = () => catalogue.list(SELLER, { url: `${base}/{a}`, sample: { a: "two" } });
    seller.answer((response) => void act().then(() => answer(response)));
    // The new sample was written at the time of the check: only the claim shows the difference.
    expect((await catalogue.check(SELLER, id))?.state).to.equal("pending");
    act = () => catalogue.listings.remove(actorOf(SELLER), id);
    expect(await catalogue.check(SELLER, id)).to.equal(undefined);
    expect(await catalogue.shown()).to.deep.equal([]);
  });

  it("B52 takes away the listings of a provider whose keys are gone, at once and for good", async () => {
    sells(STRANGER);
    await catalogue.enrol(STRANGER);
    const { id } = await catalogue.list(STRANGER, { url: `${base}/x` });
    expect((await catalogue.check(STRANGER, id))?.state).to.equal("listed");
    await catalogue.revoke(STRANGER);
    expect(await catalogue.shown()).to.deep.equal([]);
    seller.received.length = 0;
    expect(await catalogue.check(STRANGER, id)).to.include({ state: "hidden", problem: "no_key" });
    expect(seller.received).to.deep.equal([]);
  });

  it("keeps how to call a resource as its 402 states it, where it is of a bounded size and of the listing's method", async () => {
    const bazaar = (input: object, more: object = {}) => ({
      extensions: { bazaar: { info: { input: { type: "http", method: "GET", ...input }, ...more }, schema: {} } },
    });
    const inputOf = async (extensions: object) => {
      seller.answer(answerOf([entry(SELLER)], extensions));
      const { id } = await catalogue.list(SELLER, { url: `${base}/x` });
      await catalogue.check(SELLER, id);
      const [item] = await catalogue.shown();
      return (item?.extensions?.bazaar as { info?: object } | undefined)?.info;
    };
    const queryParams = { city: "<script>" };
    expect(await inputOf(bazaar({ queryParams }))).to.deep.equal({
      input: { type: "http", method: "GET", queryParams },
    });
    const plain = { input: { type: "http", method: "GET" } };
    expect(await inputOf(bazaar({ method: "POST" }))).to.deep.equal(plain);
    expect(await inputOf(bazaar({}, { output: "x".repeat(9_000) }))).to.deep.equal(plain);
    expect(await inputOf(bazaar({}, { output: "\ud800" }))).to.deep.equal(plain);
  });

  it("B50 silent hosts of free wallets hold up no listing that is shown, nor a provider with a plan", async () => {
    sells();
    const { id } = await catalogue.list(SELLER, { url: `${base}/shown` });
    expect((await catalogue.check(SELLER, id))?.state).to.equal("listed");
    let held = 0;
    const silent = createServer(() => held++);
    await new Promise<void>((resolve) => silent.listen(0, "127.0.0.1", resolve));
    const { port } = silent.address() as AddressInfo;
    const idlers = Array.from({ length: 20 }, (_, index) => walletOf(`idle provider ${index}`));
    for (const [index, idle] of idlers.entries()) {
      await catalogue.enrol(idle);
      for (const host of [1, 2]) await catalogue.list(idle, { url: `http://idle-${index}-${host}.example:${port}/x` });
    }
    const known = walletOf("provider with a plan");
    await catalogue.enrol(known);
    await catalogue.plan(known, known);
    await catalogue.list(known, { url: `http://known.example:${seller.port}/x` });
    const lookup: Lookup = (_host, _options, callback) => callback(null, [{ address: "127.0.0.1", family: 4 }]);
    const checks = catalogue.checks({ timeoutMs: 60_000, lookup });
    await checks.start();
    await until(async () => held === 16, "as many hang as there are slots for first checks");
    catalogue.clock.nowMs += CHECK_EVERY_MS;
    await checks.start();
    const received = () => seller.received.map(({ path }) => path);
    await until(async () => received().length >= 3, "the shown and the known one are asked");
    await checks.stop();
    silent.closeAllConnections();
    await new Promise((resolve) => silent.close(resolve));
  });
});
