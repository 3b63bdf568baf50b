import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { expect } from "chai";
import { Wallet } from "ethers";
import { setOperator } from "turnpike/chain";
import type { MeterEvent, Provider, ProviderOptions } from "turnpike/gate";
import type { Address, Hex } from "turnpike/protocol";
import { testKey } from "../../../support/chain";
import { ONE_TIME, paidHeaders, type SmallFacilitator, send, startSmallFacilitator } from "../../../support/gate";
import { type SubscriptionWorld, startSubscriptionWorld, until } from "../../../support/subscriptions";
import { providerOn } from "../support/chain-provider";
import { ADAPTERS, type AdapterServer, PREFIX } from "../support/frameworks";

const COST = 1_000n;
const CAP = 1_000_000n;

describe("a metered gate's right to debit", function () {
  this.timeout(120_000);
  let world: SubscriptionWorld;
  let facilitator: SmallFacilitator;
  let folder: string;
  let id: string;
  let provider: Provider;
  let server: AdapterServer | undefined;
  let events: MeterEvent[];
  let warnings: Error[];
  let charges: number;
  const warned = (warning: Error): void => void warnings.push(warning);

  before(async () => {
    world = await startSubscriptionWorld();
    facilitator = await startSmallFacilitator();
    ({ id } = await world.subscribe("metered", { maxOverage: CAP }));
    process.on("warning", warned);
  });
  after(async () => {
    process.off("warning", warned);
    await facilitator.stop();
    await world.stop();
  });
  beforeEach(() => {
    folder = mkdtempSync(path.join(tmpdir(), "turnpike-right-"));
    [events, warnings, charges] = [[], [], 0];
  });
  afterEach(async () => {
    world.rpc.isDown = false;
    await server?.stop();
    server = undefined;
    await provider.close();
    rmSync(folder, { recursive: true, force: true });
  });

  const plan = () => ({ type: "subscription", plan: world.planId }) as const;
  const keyOf = (name: string): Hex => testKey(name) as Hex;
  const operator = async (name: string): Promise<Address> => (await world.chain.wallet(name)).address as Address;

  function open(options: ProviderOptions): Provider {
    const onMeterEvent = (event: MeterEvent): void => void events.push(event);
    provider = providerOn(world, facilitator, { meterFolder: folder, onMeterEvent, ...options });
    return provider;
  }

  async function serve(options: ProviderOptions, adapter = "node:http"): Promise<string> {
    open(options);
    const charge = async ({ payment }: { payment: { deduct(amount: bigint): Promise<unknown> } }) => {
      await payment.deduct(COST);
      charges++;
      return { body: "charged" };
    };
    const flat = () => ({ body: "flat" });
    server = await (ADAPTERS[adapter] as (typeof ADAPTERS)[string])(provider, [
      { path: "/tokens", gate: { pricing: [plan(), ...ONE_TIME], metered: true } as never, handle: charge as never },
      { path: "/plan", gate: { pricing: [plan()], metered: true } as never, handle: charge as never },
      { path: "/late", gate: { pricing: [plan()] } as never, handle: charge as never },
      { path: "/flat", gate: { pricing: [plan()] } as never, handle: flat },
      { path: "/single", gate: { pricing: ONE_TIME } as never, handle: flat },
    ]);
    return `${server.url}${PREFIX}`;
  }

  const ask = (url: string) => send(url, { headers: { "X-Service-Sub": id } });
  async function refusalOfReady(): Promise<Error & { code: string }> {
    return provider.ready().then(
      () => expect.fail("ready() resolved"),
      (error) => error,
    );
  }
  async function setRight(name: string, allowed: boolean): Promise<void> {
    const owner = await world.chain.wallet("provider");
    const { turnpike } = world.contracts;
    await setOperator(owner, turnpike, {
      planId: world.planId,
      account: await operator(name),
      rights: allowed ? 1 : 0,
    });
  }

  async function expectUncollectable(url: string): Promise<void> {
    const refused = await ask(`${url}/tokens`);
    expect(refused.status, refused.text).to.equal(503);
    expect(Number(refused.headers["retry-after"])).to.be.greaterThan(0);
    expect(refused.json).to.include({ error: "Unavailable", reason: "cannot_collect", retryable: true });
    expect(charges, "the handler ran for nothing").to.equal(0);
    const unpaid = await send(`${url}/tokens`);
    expect(unpaid.status, unpaid.text).to.equal(402);
    expect(unpaid.text, "a plan that cannot be debited").not.to.include(world.planId);
    const planOnly = await send(`${url}/plan`);
    expect(planOnly.status, planOnly.text).to.equal(503);
    expect(planOnly.json.reason).to.equal("cannot_collect");
  }
  async function expectOthersServed(url: string): Promise<void> {
    expect((await ask(`${url}/flat`)).status).to.equal(200);
    const nowSec = (await world.chain.provider.getBlock("latest"))?.timestamp ?? 0;
    const headers = await paidHeaders(`${url}/single`, { settledAt: nowSec, expiresAt: nowSec + 600 });
    expect((await send(`${url}/single`, { headers })).status).to.equal(200);
    const onMetered = await paidHeaders(`${url}/tokens`, { settledAt: nowSec, expiresAt: nowSec + 600 });
    const served = await send(`${url}/tokens`, { headers: onMetered });
    expect(served.status, served.text).to.equal(200);
    charges = 0;
  }

  const FAULTS: readonly (readonly [string, () => Promise<ProviderOptions>, RegExp])[] = [
    ["no key at all", async () => ({}), /operatorKey.*apiKey/],
    [
      "the key of an account that is no operator of the plan",
      async () => {
        await operator("stranger");
        return { operatorKey: keyOf("stranger") };
      },
      /operatorKey.*no operator of plan.*setOperator/,
    ],
    [
      "the key of an operator without gas",
      async () => {
        const dry = new Wallet(keyOf("without gas"));
        const owner = await world.chain.wallet("provider");
        const { turnpike } = world.contracts;
        await setOperator(owner, turnpike, {
          planId: world.planId,
          account: dry.address as Address,
          rights: 1,
        });
        return { operatorKey: keyOf("without gas") };
      },
      /operatorKey.*gas/,
    ],
  ];
  for (const [title, optionsOf, words] of FAULTS) {
    it(`HA4 does not start with ${title}, serves nothing metered, and all else as before`, async () => {
      const url = await serve(await optionsOf());
      const error = await refusalOfReady();
      expect(error.code).to.equal("ConfigError");
      expect(error.message).to.match(words);
      expect(error.message).to.include(world.planId);
      await expectUncollectable(url);
      await expectOthersServed(url);
    });
  }

  it("HA4 names the fault at ready() of the one gate as well", async () => {
    open({ operatorKey: keyOf("stranger") });
    const gate = provider.gate({ pricing: [plan()], metered: true });
    const error = await gate.ready().catch((reason) => reason);
    expect(error.code).to.equal("ConfigError");
  });

  it("HA4 refuses a key that may debit none of the plans, also where no route is declared as metered", async () => {
    open({ operatorKey: keyOf("stranger"), plans: [world.planId, world.otherPlanId] });
    expect((await refusalOfReady()).code).to.equal("ConfigError");
    await provider.close();
    // A key for one of them is a key for the routes of that one.
    await setRight("operator of one", true);
    open({ operatorKey: keyOf("operator of one"), plans: [world.planId, world.otherPlanId] });
    await provider.ready();
  });

  it("HA4 knows nothing of its right in an outage: ready() is Unavailable, and metered routes wait for the proof", async () => {
    const url = await serve({ operatorKey: keyOf("provider") });
    world.rpc.isDown = true;
    expect((await refusalOfReady()).code).to.equal("Unavailable");
    expect((await ask(`${url}/tokens`)).status).to.equal(503);
    world.rpc.isDown = false;
    await until(async () => (await ask(`${url}/tokens`)).status === 200, 10_000);
    await provider.ready();
  });

  it("HA4 refuses the charge of a route that nobody declared as metered", async () => {
    const url = await serve({ operatorKey: keyOf("stranger") });
    const refused = await ask(`${url}/late`);
    expect(refused.status, refused.text).to.equal(503);
    expect(refused.json.reason).to.equal("cannot_collect");
    expect(charges).to.equal(0);
  });

  for (const adapter of Object.keys(ADAPTERS)) {
    it(`HA4 through ${adapter} serves until the operator is removed, and again once it is back`, async () => {
      const name = `operator of ${adapter}`;
      await setRight(name, true);
      const url = await serve({ operatorKey: keyOf(name) }, adapter);
      await provider.ready();
      expect((await ask(`${url}/tokens`)).status).to.equal(200);
      charges = 0;

      await setRight(name, false);
      await until(async () => (await ask(`${url}/tokens`)).status === 503, 10_000);
      charges = 0;
      await expectUncollectable(url);
      await expectOthersServed(url);
      const lost = events.filter(({ kind }) => kind === "uncollectable");
      expect(lost).to.have.length(1);
      expect(lost[0]).to.include({ planId: world.planId, reason: "NotOperator" });
      await until(() => warnings.some(({ message }) => message.includes(world.planId)));

      await setRight(name, true);
      await until(async () => (await ask(`${url}/tokens`)).status === 200, 10_000);
      expect(events.filter(({ kind }) => kind === "collectable")).to.have.length(1);
      await provider.flush();
      expect((await provider.unsettled()).unsettled).to.equal(0n);
    });
  }
});
