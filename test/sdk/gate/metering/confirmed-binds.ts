import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { expect } from "chai";
import { MaxUint256 } from "ethers";
import type { Deduction, Provider, ProviderOptions } from "turnpike/gate";
import { keccakText, secretHashOf, subscriptionId } from "turnpike/protocol";
import { NO_AUTH } from "../../../support/acts";
import { testKey } from "../../../support/chain";
import { type SmallFacilitator, send, startSmallFacilitator } from "../../../support/gate";
import { type Subscribed, type SubscriptionWorld, startSubscriptionWorld, until } from "../../../support/subscriptions";
import { providerOn } from "../support/chain-provider";
import { ADAPTERS, type AdapterServer, PREFIX } from "../support/frameworks";

const CAP = 1_000n;
const RAISED = 1_000_000n;
const COST = 50_000n;
/** Longer than any test: the gate sees of the chain only what it asks for. */
const NEVER_MS = 600_000;

describe("what the chain has confirmed, at a gate that has not read it yet", function () {
  this.timeout(120_000);
  let world: SubscriptionWorld;
  let facilitator: SmallFacilitator;
  let folder: string;
  let provider: Provider;
  let server: AdapterServer;
  let url: string;
  let deductions: Deduction[];
  /** runs in the handler, before it charges */
  let meanwhile: () => Promise<unknown>;

  before(async () => {
    world = await startSubscriptionWorld();
    facilitator = await startSmallFacilitator();
    await world.chain.wallet("provider");
  });
  after(async () => {
    await facilitator.stop();
    await world.stop();
  });
  beforeEach(() => {
    folder = mkdtempSync(path.join(tmpdir(), "turnpike-binds-"));
    deductions = [];
    meanwhile = async () => undefined;
  });
  afterEach(async () => {
    await server.stop();
    await provider.close();
    rmSync(folder, { recursive: true, force: true });
  });

  async function serve(options: ProviderOptions = {}, adapter = "node:http"): Promise<void> {
    const operatorKey = testKey("provider") as `0x${string}`;
    provider = providerOn(world, facilitator, { operatorKey, meterFolder: folder, pollMs: NEVER_MS, ...options });
    const charge = async ({ payment }: { payment: { deduct(amount: bigint): Promise<Deduction> } }) => {
      await meanwhile();
      deductions.push(await payment.deduct(COST));
      return { body: "charged" };
    };
    const pricing = [{ type: "subscription", plan: world.planId }];
    server = await (ADAPTERS[adapter] as (typeof ADAPTERS)[string])(provider, [
      { path: "/tokens", gate: { pricing, metered: true } as never, handle: charge as never },
      { path: "/late", gate: { pricing } as never, handle: charge as never },
      {
        path: "/other",
        gate: { pricing: [{ type: "subscription", plan: world.otherPlanId }] } as never,
        handle: () => ({ body: "other" }),
      },
      { path: "/flat", gate: { pricing } as never, handle: () => ({ body: "flat" }) },
    ]);
    url = `${server.url}${PREFIX}`;
    await provider.ready();
  }
  const ask = (id: string, where = "/tokens") => send(`${url}${where}`, { headers: { "X-Service-Sub": id } });
  const act = ({ turnpike, idHash }: Subscribed, method: string, ...more: unknown[]) =>
    world.mined(turnpike.getFunction(method)(idHash, ...more, NO_AUTH));

  for (const adapter of Object.keys(ADAPTERS)) {
    it(`HA5 through ${adapter} charges a call whole once the raised cap is confirmed`, async () => {
      await serve({}, adapter);
      const one = await world.subscribe(`raises at ${adapter}`, { maxOverage: CAP });
      expect((await ask(one.id, "/flat")).status, "the gate knows the old cap").to.equal(200);
      await act(one, "setMaxOverage", RAISED);
      expect((await ask(one.id)).status).to.equal(200);
      expect(deductions).to.deep.equal([{ charged: COST, remaining: RAISED - COST, clipped: false }]);
    });
  }

  it("HA5 does so where the cap was raised while the handler ran", async () => {
    await serve();
    const one = await world.subscribe("raises late", { maxOverage: CAP });
    meanwhile = () => act(one, "setMaxOverage", RAISED);
    expect((await ask(one.id, "/late")).status).to.equal(200);
    expect(deductions).to.deep.equal([{ charged: COST, remaining: RAISED - COST, clipped: false }]);
  });

  it("HA5 clips to a cap that nobody raised, and then refuses", async () => {
    await serve();
    const one = await world.subscribe("has little", { maxOverage: CAP });
    expect((await ask(one.id)).status).to.equal(200);
    expect(deductions).to.deep.equal([{ charged: CAP, remaining: 0n, clipped: true }]);
    const refused = await ask(one.id);
    expect(refused.status, refused.text).to.equal(402);
    expect(refused.json.error).to.equal("AllowanceExhausted");
  });

  it("HA5 charges nothing by old facts where the chain cannot be asked for newer ones", async () => {
    await serve();
    const one = await world.subscribe("in an outage", { maxOverage: CAP });
    meanwhile = async () => {
      world.rpc.isDown = true;
    };
    const refused = await ask(one.id);
    world.rpc.isDown = false;
    expect(refused.status, refused.text).to.equal(503);
    expect(deductions).to.deep.equal([]);
  });

  it("HA5 asks the chain a few times for a flood of calls above the cap, and serves who raises it meanwhile", async () => {
    await serve({ maxUnsettled: RAISED });
    const one = await world.subscribe("floods", { maxOverage: CAP });
    const other = await world.subscribe("honest", { maxOverage: CAP });
    expect((await ask(one.id)).status).to.equal(200);
    expect((await ask(other.id, "/flat")).status).to.equal(200);
    world.rpc.methods.length = 0;
    const flood = Promise.all(Array.from({ length: 400 }, () => ask(one.id)));
    await act(other, "setMaxOverage", RAISED);
    expect((await ask(other.id)).status).to.equal(200);
    expect(deductions.at(-1)).to.include({ charged: COST, clipped: false });
    for (const { status } of await flood) expect(status).to.equal(402);
    const asked = world.rpc.methods.filter((method) => /^eth_(getBlockByNumber|call|getLogs)$/.test(method));
    expect(asked.length).to.be.lessThan(60);
  });

  it("HA5 lets who has just resumed in, also while more are refused than it rechecks in a second", async () => {
    await serve();
    const one = await world.subscribe("resumes", { maxOverage: RAISED });
    await act(one, "pause");
    const flood = await Promise.all(Array.from({ length: 300 }, () => ask(one.id, "/flat")));
    for (const { status } of flood) expect(status).to.equal(402);
    await act(one, "resume", MaxUint256);
    expect((await ask(one.id, "/flat")).status).to.equal(200);
  });

  it("HA5 lets in who signed up, changed to its plan or rekeyed right before the request", async () => {
    await serve();
    const fresh = await world.subscribe("signs up");
    expect((await ask(fresh.id, "/flat")).status).to.equal(200);
    const moved = await world.subscribe("changes plan");
    expect((await ask(moved.id, "/other")).status).to.equal(402);
    await act(moved, "changePlan", world.otherPlanId, 0n, MaxUint256);
    expect((await ask(moved.id, "/other")).status).to.equal(200);
    const secret = keccakText("the next secret");
    await act(moved, "rekey", secretHashOf(secret));
    const subscriber = (await world.chain.wallet("changes plan")).address as `0x${string}`;
    expect((await ask(subscriptionId(subscriber, secret), "/other")).status).to.equal(200);
  });

  const ENDINGS: readonly (readonly [string, (one: Subscribed) => Promise<unknown>])[] = [
    ["paused", (one) => act(one, "pause")],
    ["cancelled", (one) => act(one, "cancel", false)],
    ["rekeyed", (one) => act(one, "rekey", secretHashOf(keccakText(`after ${one.idHash}`)))],
    ["moved to another plan", (one) => act(one, "changePlan", world.otherPlanId, RAISED, MaxUint256)],
    ["left with no cap", (one) => act(one, "setMaxOverage", 0n)],
  ];
  for (const [title, end] of ENDINGS) {
    it(`HA5 serves nothing more after its next look at the head when a subscription was ${title}`, async () => {
      await serve({ pollMs: 50 });
      const one = await world.subscribe(`ends ${title}`, { maxOverage: RAISED });
      expect((await ask(one.id)).status).to.equal(200);
      await end(one);
      const before = world.rpc.methods.length;
      const looks = () => world.rpc.methods.slice(before).filter((method) => method === "eth_getBlockByNumber").length;
      await until(() => looks() >= 2);
      const refused = await ask(one.id);
      expect(refused.status, refused.text).to.equal(402);
    });
  }
});
