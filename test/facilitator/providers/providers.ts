import { expect } from "chai";
import { verifyWebhook, type WebhookEvent } from "turnpike/facilitator";
import { keccakText } from "turnpike/protocol";
import { until } from "../../support/facilitator";
import { JSON_TYPE, useService } from "../support/http-service";
import { paymentToWire } from "../support/payments";
import { expectProblem } from "../support/problem";
import { type Receiver, startReceiver } from "../webhooks/support/receiver";

interface Endpoint {
  readonly id: string;
  readonly secret: string;
}

describe("Facilitator: providers", function () {
  this.timeout(120_000);
  const http = useService({ ALLOW_PRIVATE_WEBHOOKS: "true", FINALITY_DEPTH: "40" });
  const { call } = http;
  let receiver: Receiver;
  let key: string;
  before(async () => {
    receiver = await startReceiver();
    key = await http.service.apiKey();
  });
  after(() => receiver.stop());

  async function endpointOf(apiKey: string, more: Record<string, unknown> = {}): Promise<Endpoint> {
    const response = await call("/webhook-endpoints", { key: apiKey, body: { url: receiver.url, ...more } });
    expect(response.status).to.equal(201);
    return (await response.json()) as Endpoint;
  }
  const remove = ({ id }: Endpoint) => call(`/webhook-endpoints/${id}`, { key, method: "DELETE" });

  it("notifies a provider by webhook of its subscribers' acts, in full and in order of sequence", async () => {
    const endpoint = await endpointOf(key);
    receiver.received.length = 0;
    const subscriber = await http.world.payer(1_000_000_000n);
    const { idHash, request } = await http.world.signup(subscriber, { permit: 1_000_000_000n, maxOverage: 5_000_000n });
    const subscribed = await http.service.client.subscribe(request);
    expect(subscribed.kind).to.equal("done");
    const capped = await http.world.change("max-overage", subscriber, { idHash, cap: 7_000_000n });
    await http.service.client.change({ idHash, act: "max-overage", request: capped });
    const cancelled = await http.world.change("cancel", subscriber, { idHash, atPeriodEnd: true, version: 1 });
    await http.service.client.change({ idHash, act: "cancel", request: cancelled });

    const delivered = await until(async () => {
      const events = receiver.received.map(
        ({ body, headers }): WebhookEvent => verifyWebhook(body, headers, endpoint.secret),
      );
      const own = events.filter(({ subject }) => subject === idHash);
      return own.length === 3 && own.sort((a, b) => a.sequence - b.sequence);
    }, "three webhooks came");
    expect(delivered.map(({ type, sequence }) => `${sequence} ${type}`)).to.deep.equal([
      "1 subscription.created",
      "2 allowance.cap_changed",
      "3 subscription.cancelled",
    ]);
    const [created, changed, ended] = delivered;
    if (created?.type !== "subscription.created" || changed?.type !== "allowance.cap_changed") throw new Error("types");
    expect(created.data).to.include({ idHash, subscriber: subscriber.address, status: "ACTIVE", charged: 10_000_000n });
    expect(changed.data.allowance).to.include({ cap: 7_000_000n, remaining: 7_000_000n });
    expect(ended?.data).to.include({ atPeriodEnd: true, ending: true });

    const feed = await http.service.client.events({ limit: 200 });
    if (feed.kind !== "found") throw feed.error;
    const inFeed = feed.value.events.filter(({ subject }) => subject === idHash);
    expect(inFeed.map(({ id }) => id)).to.deep.equal(delivered.map(({ id }) => id));
    await remove(endpoint);
  });

  it("S6 reports a reorganised payment as reversed, and as settled again when it is", async () => {
    const { chain } = http.world;
    const wallet = await http.world.payer(0n);
    const ownKey = await http.service.apiKey({ wallet });
    const endpoint = await endpointOf(ownKey);
    const rpc = (method: string, args: unknown[] = []) => chain.provider.send(method, args);
    const payer = await http.world.payer();
    const snapshot = await rpc("evm_snapshot");
    const payment = await http.world.signPayment({ payer, payTo: wallet.address });
    const first = await http.service.client.authorize(paymentToWire(payment));
    if (first.kind !== "settled") expect.fail(first.kind);
    await rpc("evm_setIntervalMining", [0]);
    const height = await chain.provider.getBlockNumber();
    await rpc("evm_revert", [snapshot]);
    // Another history, longer, without the payment.
    await rpc("hardhat_setNextBlockBaseFeePerGas", ["0x77359400"]);
    while ((await chain.provider.getBlockNumber()) <= height) await rpc("evm_mine");
    const id = http.world.idOf(payment);
    await until(async () => {
      const status = await http.service.client.payment(id);
      return status.kind === "found" && status.value.status === "reversed";
    }, "the payment is reversed");
    await rpc("evm_setIntervalMining", [100]);
    expect((await http.service.client.authorize(paymentToWire(payment))).kind).to.equal("settled");
    const types = async () => {
      const page = await (await call(`/webhook-endpoints/${endpoint.id}/deliveries`, { key: ownKey })).json();
      const { deliveries } = page as { deliveries: { type: string; state: string }[] };
      return deliveries.reverse().map(({ type, state }) => `${type} ${state}`);
    };
    await until(async () => (await types()).length >= 3, "settled, reversed, settled");
    await until(async () => (await types()).every((line) => line.endsWith(" delivered")), "all are delivered");
    expect((await types()).slice(0, 3)).to.deep.equal([
      "payment.settled delivered",
      "payment.reversed delivered",
      "payment.settled delivered",
    ]);
  });

  it("sends a test event, keeps the log of attempts without bodies, and sends again", async () => {
    const endpoint = await endpointOf(key, { types: ["payment.failed"], description: "for tests" });
    receiver.answer((response) => void response.writeHead(500).end("secret of the receiver"));
    const path = `/webhook-endpoints/${endpoint.id}`;
    const queued = await call(`${path}/test`, { key, body: {} });
    expect(queued.status).to.equal(202);
    const { eventId } = (await queued.json()) as { eventId: string };
    const detail = async () => (await call(`${path}/deliveries/${eventId}`, { key })).text();
    await until(async () => (await detail()).includes('"number":1'), "the first attempt is in the log");
    expect(JSON.parse(await detail())).to.deep.include({ type: "webhook.test", state: "pending", attempts: 1 });
    expect(await detail())
      .to.include('"statusCode":500')
      .and.not.include("secret of the receiver");
    const failing = async () => {
      const { endpoints } = (await (await call("/analytics/attention", { key })).json()) as { endpoints: Endpoint[] };
      return endpoints.map(({ id }) => id);
    };
    expect(await failing(), "what needs attention").to.include(endpoint.id);
    receiver.answer(204);
    expect((await call(`${path}/deliveries/${eventId}/resend`, { key, body: {} })).status).to.equal(202);
    await until(async () => (await detail()).includes('"state":"delivered"'), "it is delivered");
    expect(await failing()).to.not.include(endpoint.id);
    const body = receiver.received.at(-1);
    expect(verifyWebhook(body?.body ?? "", body?.headers ?? {}, endpoint.secret).type).to.equal("webhook.test");
    await remove(endpoint);
  });

  it("refuses a field that it does not know wherever one may be left out: nothing happens instead of the default", async () => {
    const endpoint = await endpointOf(key, { types: ["payment.failed"] });
    const path = `/webhook-endpoints/${endpoint.id}`;
    const every = ["read", "debits", "webhooks", "keys", "reports", "listings", "refunds"] as const;
    const one = await http.service.apiKey({ scopes: every });
    for (const [at, body, field, method] of [
      ["/webhook-endpoints", { url: receiver.url, type: ["payment.failed"] }, "type", "POST"],
      [path, { description: "new", state: "disabled" }, "state", "PATCH"],
      [`${path}/rotate-secret`, { overlap: 0 }, "overlap", "POST"],
      ["/keys/rotate", { overlap: 0 }, "overlap", "POST"],
      [
        "/keys/challenge",
        { provider: http.world.provider.address, name: "k", scopes: ["read"], expires: 1 },
        "expires",
      ],
      ["/audit", { act: "plan.created", object: "0x1", tx: "0x2" }, "tx", "POST"],
      [`/payments/0x${"1".repeat(64)}/refund`, { amount: "1" }, "amount", "POST"],
    ] as const) {
      const problem = await expectProblem(await call(at, { key: one, method, body }), 400, "InvalidRequest");
      expect(problem.message, at).to.match(new RegExp(`^${field}: is no field here`));
    }
    const { endpoints } = (await (await call("/webhook-endpoints", { key: one })).json()) as { endpoints: Endpoint[] };
    expect(endpoints).to.have.length(1);
    expect(endpoints[0]).to.include({ id: endpoint.id, description: "", status: "enabled" });
    expect((await call("/events", { key: one })).status, "the key was not rotated").to.equal(200);
    await remove(endpoint);
  });

  it("HB7 takes a POST without a body wherever every field of it has a default", async () => {
    const endpoint = await endpointOf(key, { types: ["payment.failed"] });
    const path = `/webhook-endpoints/${endpoint.id}`;
    const tested = await call(`${path}/test`, { key, method: "POST" });
    expect(tested.status, await tested.clone().text()).to.equal(202);
    const { eventId } = (await tested.json()) as { eventId: string };
    expect((await call(`${path}/deliveries/${eventId}/resend`, { key, method: "POST" })).status).to.equal(202);
    const headers = { authorization: `Bearer ${key}` };
    const resend = `${http.service.url}${path}/deliveries/${eventId}/resend`;
    expect((await fetch(resend, { method: "POST", headers: { ...headers, ...JSON_TYPE } })).status).to.equal(202);
    expect((await fetch(resend, { method: "POST", headers, body: "x" })).status, "a body of another type").to.equal(
      415,
    );
    const document = (await (await fetch(`${http.service.url}/openapi.json`)).json()) as {
      paths: Record<string, Record<string, { requestBody?: { required?: boolean } }>>;
    };
    const posted = document.paths["/webhook-endpoints/{id}/deliveries/{eventId}/resend"]?.post;
    expect(posted?.requestBody?.required ?? false).to.equal(false);
    await remove(endpoint);
  });

  it("changes, disables and deletes an endpoint, and never shows its secret again", async () => {
    const endpoint = await endpointOf(key);
    const path = `/webhook-endpoints/${endpoint.id}`;
    const patch = (body: unknown) => call(path, { key, method: "PATCH", body });
    expect(await (await patch({ enabled: false })).json()).to.include({ status: "disabled", disabledReason: "owner" });
    await expectProblem(await call(`${path}/test`, { key, body: {} }), 400, "InvalidRequest");
    const changed = await (await patch({ enabled: true, types: ["plan.created"], url: `${receiver.url}2` })).json();
    expect(changed).to.deep.include({ status: "enabled", types: ["plan.created"], url: `${receiver.url}2` });
    expect(await (await patch({ types: null })).json()).to.deep.include({ types: null });
    await expectProblem(await patch({}), 400, "InvalidRequest");
    await expectProblem(await patch({ types: ["plan.exploded"] }), 400, "InvalidRequest");
    const rotated = (await (await call(`${path}/rotate-secret`, { key, body: {} })).json()) as Endpoint;
    const list = await (await call("/webhook-endpoints", { key })).text();
    for (const secret of [endpoint.secret, rotated.secret]) expect(list).not.to.include(secret.slice(8));
    await remove(endpoint);
    await expectProblem(await call(path, { key }), 404, "UnknownObject");
  });

  it("signs with each secret that is in its overlap, also when a rotation is repeated, and with the newest alone without an overlap", async () => {
    const endpoint = await endpointOf(key, { types: ["payment.failed"] });
    const path = `/webhook-endpoints/${endpoint.id}`;
    const rotated = async (body: object) =>
      ((await (await call(`${path}/rotate-secret`, { key, body })).json()) as Endpoint).secret;
    const verifying = async (secrets: readonly string[]) => {
      receiver.received.length = 0;
      await call(`${path}/test`, { key, body: {} });
      const { body, headers } = await until(async () => receiver.received[0], "the test event");
      return secrets.filter((secret) => {
        try {
          return verifyWebhook(body, headers, secret).type === "webhook.test";
        } catch {
          return false;
        }
      });
    };
    const secrets = [endpoint.secret, await rotated({}), await rotated({})];
    expect(await verifying(secrets)).to.deep.equal(secrets);
    const last = await rotated({ overlapSec: 0 });
    expect(await verifying([...secrets, last])).to.deep.equal([last]);
    for (let n = 0; n < 6; n++) await rotated({});
    receiver.received.length = 0;
    await call(`${path}/test`, { key, body: {} });
    const { headers } = await until(async () => receiver.received[0], "the test event");
    expect(String(headers["webhook-signature"]).split(" ")).to.have.length(4);
    await remove(endpoint);
  });

  it("B22 shows and does nothing across providers: endpoints, deliveries, events, acts", async () => {
    const endpoint = await endpointOf(key);
    const stranger = await http.service.apiKey({ wallet: await http.world.payer(0n) });
    const path = `/webhook-endpoints/${endpoint.id}`;
    const event = keccakText("any");
    const attempts: [string, string, unknown?][] = [
      ["GET", path],
      ["PATCH", path, { enabled: false }],
      ["DELETE", path],
      ["POST", `${path}/test`, {}],
      ["POST", `${path}/rotate-secret`, {}],
      ["GET", `${path}/deliveries`],
      ["GET", `${path}/deliveries/${event}`],
      ["POST", `${path}/deliveries/${event}/resend`, {}],
    ];
    for (const [method, target, body] of attempts) {
      await expectProblem(await call(target, { key: stranger, method, body }), 404, "UnknownObject");
      await expectProblem(await call(target, { method, body }), 401, "InvalidApiKey");
    }
    const feed = await http.service.client.events({ limit: 1 });
    const foreign = feed.kind === "found" ? feed.value.events[0]?.id : undefined;
    const own = (await (
      await call("/webhook-endpoints", { key: stranger, body: { url: receiver.url } })
    ).json()) as Endpoint;
    const resend = `/webhook-endpoints/${own.id}/deliveries/${foreign}/resend`;
    await expectProblem(await call(resend, { key: stranger, body: {} }), 404, "UnknownObject");
    const events = (await (await call("/events", { key: stranger })).json()) as { events: unknown[] };
    expect(events.events).to.deep.equal([]);
    const acts = (await (await call("/audit", { key: stranger })).json()) as { entries: { act: string }[] };
    expect(acts.entries.map(({ act }) => act)).to.deep.equal(["webhook.created", "key.created"]);
    await remove(endpoint);
  });

  it("writes down who did what, when, from where, and no secret", async () => {
    const wallet = await http.world.payer(0n);
    const ownKey = await http.service.apiKey({ wallet });
    const endpoint = await endpointOf(ownKey);
    const path = `/webhook-endpoints/${endpoint.id}`;
    const rotated = (await (await call(`${path}/rotate-secret`, { key: ownKey, body: {} })).json()) as Endpoint;
    await call(path, { key: ownKey, method: "PATCH", body: { url: `${receiver.url}?token=canary-of-a-url` } });
    await call(path, { key: ownKey, method: "DELETE" });
    const text = await (await call("/audit", { key: ownKey })).text();
    const { entries } = JSON.parse(text) as { entries: { act: string; actor: string; address: string; at: number }[] };
    expect(entries.map(({ act }) => act)).to.deep.equal([
      ...["webhook.deleted", "webhook.updated", "webhook.secret_rotated", "webhook.created", "key.created"],
    ]);
    const keyId = ownKey.split("_")[1];
    expect(entries.map(({ actor }) => actor)).to.deep.equal([keyId, keyId, keyId, keyId, "wallet"]);
    for (const { address, at } of entries) {
      expect(address).to.match(/127\.0\.0\.1$/);
      expect(Math.abs(at - Date.now() / 1_000)).to.be.lessThan(120);
    }
    for (const secret of [endpoint.secret, rotated.secret, ownKey.slice(-43), "canary-of-a-url"]) {
      expect(text).not.to.include(secret);
    }
  });

  it("refuses private addresses unless they are allowed", async () => {
    await http.restart({ ALLOW_PRIVATE_WEBHOOKS: "false" });
    for (const url of [receiver.url, "https://127.0.0.1/", "https://[::1]/", "https://169.254.169.254/latest"]) {
      const problem = await expectProblem(
        await call("/webhook-endpoints", { key, body: { url } }),
        400,
        "InvalidRequest",
      );
      expect(problem.message).to.match(/^url: /);
    }
  });
});
