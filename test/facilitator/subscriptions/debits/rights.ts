import { mkdtempSync, rmSync } from "node:fs";
import { createServer, type Server } from "node:http";
import { tmpdir } from "node:os";
import path from "node:path";
import { expect } from "chai";
import { RIGHTS, setOperator } from "turnpike/chain";
import { createFacilitatorClient } from "turnpike/facilitator";
import {
  createProvider,
  gated,
  type MeterEvent,
  memoryClaims,
  type Provider,
  type ProviderOptions,
} from "turnpike/gate";
import { HEADER, type Hex, randomBytes, secretHashOf, subscriptionId, toHex } from "turnpike/protocol";
import { until } from "../../../support/facilitator";
import { closeServer, listen, send } from "../../../support/gate";
import { useService } from "../../support/http-service";
import { expectProblem } from "../../support/problem";

const COST = 1_000n;

describe("Facilitator: the right to have debits collected", function () {
  this.timeout(120_000);
  const http = useService();
  const folder = mkdtempSync(path.join(tmpdir(), "turnpike-rights-"));
  let apiKey: string;
  let id: string;
  let provider: Provider | undefined;
  let server: Server | undefined;
  let url: string;
  let events: MeterEvent[];
  let charges: number;

  before(async () => {
    await allow(true);
    apiKey = await http.service.apiKey({ scopes: ["debits"] });
    const { world, service } = http;
    const subscriber = await world.payer(1_000_000_000n);
    const secret = toHex(randomBytes(32));
    const fields = { secretHash: secretHashOf(secret), permit: 1_000_000_000n, maxOverage: 1_000_000n };
    const { request } = await world.signup(subscriber, fields);
    expect((await service.client.subscribe(request)).kind).to.equal("done");
    id = subscriptionId(subscriber.address, secret);
  });
  after(() => rmSync(folder, { recursive: true, force: true }));
  beforeEach(() => {
    [events, charges] = [[], 0];
  });
  afterEach(async () => {
    if (server) await closeServer(server);
    await provider?.close();
    [server, provider] = [undefined, undefined];
  });

  async function allow(allowed: boolean, planId = http.world.planId): Promise<void> {
    const { relayers } = await http.service.client.supported();
    for (const account of relayers) {
      await setOperator(http.world.provider, http.world.contracts.turnpike, {
        planId,
        account,
        rights: allowed ? RIGHTS.debit : 0,
      });
    }
  }
  const rights = (key: string, planIds: readonly Hex[]) =>
    createFacilitatorClient({ url: http.service.url, apiKey: key }).debitRights(planIds);
  async function stateOf(key: string, planId: Hex): Promise<string> {
    const outcome = await rights(key, [planId]);
    if (outcome.kind === "refused") return outcome.error.code;
    const [right] = outcome.rights;
    return right?.status === "refused" ? right.code : String(right?.status);
  }

  async function gate(options: ProviderOptions): Promise<Provider> {
    const { world, service } = http;
    const { proofSigners } = await service.client.supported();
    provider = createProvider({
      network: world.contracts.network,
      rpcUrl: world.chain.rpcUrl,
      turnpike: world.contracts.turnpike,
      payTo: world.payee,
      pollMs: 50,
      secret: "s".repeat(32),
      claims: memoryClaims({ warn: false }),
      token: { address: world.contracts.token, name: world.contracts.tokenName, version: "1" },
      facilitator: { url: service.url, signers: proofSigners },
      meterFolder: mkdtempSync(path.join(folder, "gate-")),
      onMeterEvent: (event) => void events.push(event),
      ...options,
    });
    const pricing = [{ type: "subscription", plan: world.planId }] as const;
    const metered = gated(provider.paymentGate({ pricing, metered: true }), async (request, response) => {
      await request.payment?.deduct(COST);
      charges++;
      response.end("charged");
    });
    const flat = gated(provider.paymentGate({ pricing }), (_request, response) => void response.end("flat"));
    server = createServer((request, response) => (request.url === "/flat" ? flat : metered)(request, response));
    url = await listen(server);
    return provider;
  }
  const ask = async (where = "/tokens") => send(`${url}${where}`, { headers: { [HEADER.subscription]: id } });
  async function expectNotStarted(words: RegExp): Promise<void> {
    const error = await (provider as Provider).ready().then(
      () => expect.fail("ready() resolved"),
      (reason) => reason,
    );
    expect(error.code, error.message).to.equal("ConfigError");
    expect(error.message)
      .to.match(/^apiKey \(TURNPIKE_API_KEY\)/)
      .and.to.match(words);
    expect(error.message).to.include(http.world.planId);
    const refused = await ask();
    expect(refused.status, refused.text).to.equal(503);
    expect(Number(refused.headers["retry-after"])).to.be.greaterThan(0);
    expect(refused.json.reason).to.equal("cannot_collect");
    expect(charges).to.equal(0);
    expect((await ask("/flat")).status).to.equal(200);
  }

  it("HA4 shows a provider which of its plans it may have debited, and by which accounts", async () => {
    const { relayers } = await http.service.client.supported();
    const planId = await http.world.plan();
    const unknown = `0x${"99".repeat(32)}` as Hex;
    const outcome = await rights(apiKey, [http.world.planId, planId, unknown]);
    if (outcome.kind === "refused") throw outcome.error;
    expect(outcome.relayers).to.deep.equal(relayers);
    expect(outcome.rights.map((right) => (right.status === "refused" ? right.code : right.status))).to.deep.equal([
      "allowed",
      "NotOperator",
      "UnknownPlan",
    ]);
    const stranger = await http.service.apiKey({ wallet: await http.world.payer(0n), scopes: ["debits"] });
    expect(await stateOf(stranger, http.world.planId)).to.equal("NotProvider");
    expect(await stateOf(await http.service.apiKey({ scopes: ["read"] }), http.world.planId)).to.equal("ScopeMissing");
    expect(await stateOf("tk_made_up", http.world.planId)).to.equal("InvalidApiKey");
    expect(await rights(apiKey, [])).to.deep.equal({ kind: "answered", relayers, rights: [] });
    for (const body of [{}, { planIds: ["0x12"] }, { planIds: Array(101).fill(unknown) }]) {
      await expectProblem(await http.call("/debits/rights", { key: apiKey, body }), 400, "InvalidRequest");
    }
  });

  it("HA4 does not start a gate with a made-up API key, one without the scope, or another provider's", async () => {
    await gate({ apiKey: "tk_made_up" });
    await expectNotStarted(/InvalidApiKey.*scope debits/);
    await closeServer(server as Server);
    await provider?.close();
    await gate({ apiKey: await http.service.apiKey({ scopes: ["read"] }) });
    await expectNotStarted(/ScopeMissing.*scope debits/);
    await closeServer(server as Server);
    await provider?.close();
    await gate({ apiKey: await http.service.apiKey({ wallet: await http.world.payer(0n), scopes: ["debits"] }) });
    await expectNotStarted(/NotProvider/);
  });

  it("HA4 refuses a made-up API key also where no plan is known yet", async () => {
    const { world, service } = http;
    const options = {
      network: world.contracts.network,
      rpcUrl: world.chain.rpcUrl,
      turnpike: world.contracts.turnpike,
      secret: "s".repeat(32),
      facilitator: { url: service.url },
      meterFolder: mkdtempSync(path.join(folder, "k-")),
    };
    for (const [key, code] of [
      ["tk_made_up", "ConfigError"],
      [apiKey, "resolved"],
    ] as const) {
      const one = createProvider({ ...options, apiKey: key });
      const outcome = await one.ready().then(
        () => "resolved",
        (error) => error.code,
      );
      await one.close();
      expect(outcome).to.equal(code);
    }
  });

  it("HA4 does not start a gate whose relayer is no operator, and serves by itself once it is", async () => {
    await allow(false);
    await gate({ apiKey });
    await expectNotStarted(/no operator of plan.*setOperator/);
    await allow(true);
    await until(async () => (await ask()).status === 200, "the right is seen");
    await provider?.ready();
    await provider?.flush();
  });

  it("HA4 stops with 503 when the relayer is removed or the key is revoked, and goes on by itself", async () => {
    const key = await http.service.apiKey({ scopes: ["debits"] });
    await gate({ apiKey: key });
    await provider?.ready();
    expect((await ask()).status).to.equal(200);
    await provider?.flush();

    await allow(false);
    await until(async () => (await ask()).status === 503, "the loss is seen");
    expect(events.filter(({ kind }) => kind === "uncollectable")).to.have.length(1);
    const served = charges;
    expect((await ask()).json.reason).to.equal("cannot_collect");
    expect((await ask("/flat")).status).to.equal(200);
    expect(charges).to.equal(served);
    await allow(true);
    await until(async () => (await ask()).status === 200, "the right is back");
    expect(events.filter(({ kind }) => kind === "collectable")).to.have.length(1);
    await provider?.flush();

    const current = (await (await http.call("/keys/current", { key })).json()) as { id: string };
    expect((await http.call(`/keys/${current.id}`, { key, method: "DELETE" })).status).to.equal(200);
    expect((await ask()).status, "within maxUnsettled").to.equal(200);
    void provider?.flush().catch(() => undefined);
    await until(async () => (await ask()).status === 503, "the refusal of the key is seen");
    const lost = events.findLast(({ kind }) => kind === "uncollectable");
    expect(lost).to.include({ planId: http.world.planId, reason: "InvalidApiKey" });
    expect((await ask("/flat")).status).to.equal(200);
  });
});
