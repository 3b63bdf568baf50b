import { expect } from "chai";
import { Webhook } from "standardwebhooks";
import { verifyWebhook } from "turnpike/facilitator";
import { addressOfKey, keccakText } from "turnpike/protocol";
import { oldestBacklogs } from "../../../facilitator/src/webhooks/delivery-log";
import { disableEndpoint, sendWaiting } from "../../../facilitator/src/webhooks/operate";
import { findUnqueued, recordBeginnings } from "../../../facilitator/src/webhooks/outbox";
import { deleteOldDeliveries } from "../../../facilitator/src/webhooks/retention";
import { DELAYS_SEC } from "../../../facilitator/src/webhooks/schedule";
import { createSender, type Sender } from "../../../facilitator/src/webhooks/send";
import { until } from "../../support/facilitator";
import { startPostgres, type TestPostgres } from "../../support/postgres";
import { actorOf, CHAIN_ID, feed, type Outbox, openOutbox, PROVIDER, planPayload } from "./support/outbox";
import { type Receiver, startReceiver } from "./support/receiver";

describe("Facilitator: webhook delivery", function () {
  this.timeout(120_000);
  let postgres: TestPostgres;
  let outbox: Outbox;
  let receiver: Receiver;

  before(async () => {
    postgres = await startPostgres();
  });
  after(() => postgres.stop());
  beforeEach(async () => {
    outbox = await openOutbox(await postgres.database());
    receiver = await startReceiver();
  });
  afterEach(async () => {
    await outbox.close();
    await receiver.stop();
  });

  it("S6 delivers each event once, signed so that the stock package and this SDK verify it", async () => {
    const { secret, id: endpoint } = await outbox.endpoint(receiver.url);
    const ids = await outbox.emit([{}, { type: "plan.deprecated" }]);
    const worker = outbox.worker();
    await outbox.drain(worker);
    expect(receiver.received.map(({ headers }) => headers["webhook-id"])).to.have.members(ids);
    for (const { headers, body } of receiver.received) {
      const nowSec = Math.floor(outbox.clock.nowMs / 1_000);
      expect(headers["content-type"]).to.equal("application/json");
      expect(headers["webhook-attempt"]).to.equal("1");
      expect(new Webhook(secret).verify(body, headers as Record<string, string>)).to.have.property("id");
      const event = verifyWebhook(body, headers, secret, { nowSec });
      if (event.type !== "plan.created" && event.type !== "plan.deprecated") throw new Error(event.type);
      expect(event.data).to.include({ amount: 1_000_000n, provider: PROVIDER });
      expect(event).to.include({ network: "local-31337", chainId: CHAIN_ID, occurredAt: 1_000 });
    }
    expect(receiver.received.map(({ body }) => JSON.parse(body).sequence).sort()).to.deep.equal([1, 2]);
    await outbox.drain(worker);
    expect(receiver.received).to.have.length(2);
    expect((await outbox.deliveries(endpoint)).map(({ state }) => state)).to.deep.equal(["delivered", "delivered"]);
  });

  it("S6 queues in the transaction of the event: both are stored, or neither", async () => {
    const { id } = await outbox.endpoint(receiver.url);
    const draft = { id: keccakText("lost"), chainId: CHAIN_ID, type: "plan.created", objectId: keccakText("o") };
    const event = { ...draft, provider: PROVIDER, payload: planPayload(PROVIDER), blockTime: 1 };
    const failure = outbox.store.transaction(async (tx) => {
      await feed.append(tx, [event]);
      throw new Error("the block does not commit");
    });
    expect(await failure.catch((error: Error) => error.message)).to.equal("the block does not commit");
    expect(await outbox.deliveries(id)).to.deep.equal([]);
    await outbox.store.transaction((tx) => feed.append(tx, [event]));
    // A replayed block emits nothing twice.
    await outbox.store.transaction((tx) => feed.append(tx, [event]));
    expect(await outbox.deliveries(id)).to.have.length(1);
  });

  it("B22 delivers a provider's events to its own endpoints, of the types they want", async () => {
    const stranger = addressOfKey(keccakText("another provider"));
    const all = await outbox.endpoint(receiver.url);
    const some = await outbox.endpoint(receiver.url, { types: ["plan.deprecated"] });
    const others = await outbox.endpoint(receiver.url, { provider: stranger });
    await outbox.emit([{}, { type: "plan.deprecated" }, { provider: stranger }]);
    expect(await outbox.deliveries(all.id)).to.have.length(2);
    expect(await outbox.deliveries(some.id)).to.have.length(1);
    expect(await outbox.deliveries(others.id)).to.have.length(1);
  });

  it("tries ten times within 76 hours and then gives up, on a clock that the test turns", async () => {
    const { id } = await outbox.endpoint(receiver.url);
    receiver.answer(503);
    await outbox.emit([{}]);
    const worker = outbox.worker();
    const startMs = outbox.clock.nowMs;
    const atSec: number[] = [];
    for (;;) {
      const before = receiver.received.length;
      await outbox.drain(worker);
      if (receiver.received.length > before) atSec.push((outbox.clock.nowMs - startMs) / 1_000);
      const [delivery] = await outbox.deliveries(id);
      if (delivery?.state !== "pending") break;
      // One millisecond before its time it is not sent.
      outbox.clock.nowMs = delivery.due_at_ms - 1;
      expect(await worker.tick()).to.equal(0);
      outbox.clock.nowMs = delivery.due_at_ms;
    }
    const planned = DELAYS_SEC.map((_, step) =>
      DELAYS_SEC.slice(0, step + 1).reduce<number>((sum, delay) => sum + delay, 0),
    );
    expect(atSec).to.deep.equal(planned);
    expect(planned.at(-1)).to.be.within(75 * 3_600, 76 * 3_600);
    expect(receiver.received.map(({ headers }) => headers["webhook-attempt"])).to.deep.equal(
      DELAYS_SEC.map((_, step) => String(step + 1)),
    );
    expect(new Set(receiver.received.map(({ body }) => body)).size).to.equal(1);
    expect(await outbox.deliveries(id)).to.deep.include({
      ...(await outbox.deliveries(id))[0],
      state: "failed",
      attempts: 10,
    });
  });

  it("gives up by the event's age what a failing endpoint left no time for, and never what a sound one waits for", async () => {
    const { id } = await outbox.endpoint(receiver.url);
    const sound = await startReceiver();
    const { id: soundId } = await outbox.endpoint(sound.url);
    receiver.answer(503);
    await outbox.emit([{}]);
    await outbox.drain(outbox.worker());
    await outbox.emit(Array.from({ length: 30 }, () => ({})));
    outbox.clock.nowMs += 84 * 3_600_000;
    // Each worker looks when it begins.
    await outbox.drain(outbox.worker());
    const states = (rows: readonly { state: string }[]) => [...new Set(rows.map(({ state }) => state))];
    expect(states(await outbox.deliveries(id))).to.deep.equal(["failed"]);
    expect(receiver.received, "nothing is sent that is given up").to.have.length(1);
    expect(states(await outbox.deliveries(soundId))).to.deep.equal(["delivered"]);
    await sound.stop();
  });

  it("an operator disables an endpoint, or has all sent that waits for it", async () => {
    const { id } = await outbox.endpoint(receiver.url);
    receiver.answer(503);
    await outbox.emit([{}, {}]);
    const worker = outbox.worker();
    await outbox.drain(worker);
    const [backlog] = await oldestBacklogs(outbox.store.db, CHAIN_ID);
    expect(backlog).to.include({ endpoint: id, pending: 2 });
    const acted = { store: outbox.store, id, nowMs: outbox.clock.nowMs };
    receiver.answer(204);
    expect(await sendWaiting(acted)).to.equal(2);
    await outbox.drain(worker);
    expect((await outbox.deliveries(id)).map(({ state }) => state)).to.deep.equal(["delivered", "delivered"]);
    receiver.answer(503);
    await outbox.emit([{}]);
    await outbox.drain(worker);
    await disableEndpoint(acted);
    expect((await outbox.deliveries(id)).map(({ state }) => state)).to.include("dropped");
    expect(await sendWaiting(acted)).to.equal(0);
    const unknown = await disableEndpoint({ ...acted, id: "we_none" }).catch((error: { code: string }) => error.code);
    expect(unknown).to.equal("UnknownObject");
  });

  it("delivers again when asked, from the beginning of the schedule", async () => {
    const { id } = await outbox.endpoint(receiver.url);
    const [eventId = ""] = await outbox.emit([{}]);
    const worker = outbox.worker();
    await outbox.drain(worker);
    receiver.answer(500);
    await outbox.endpoints.resend(actorOf(PROVIDER), id, eventId);
    // The worker is woken by the request itself.
    const delivery = await until(async () => {
      const [row] = await outbox.deliveries(id);
      return row?.attempts === 2 && row;
    }, "it is delivered again");
    expect(delivery).to.include({ state: "pending", due_at_ms: outbox.clock.nowMs + 5_000 });
    expect(receiver.received[1]?.headers).to.include({ "webhook-id": eventId, "webhook-attempt": "2" });
  });

  it("S6 a resend of an event from before the endpoint is no reason to expect the others, and a missing one is found", async () => {
    const early = await outbox.emit([{}, {}, {}]);
    const { id } = await outbox.endpoint(receiver.url);
    const missing = () => findUnqueued(outbox.store.db, CHAIN_ID);
    const actor = actorOf(PROVIDER);
    await outbox.endpoints.resend(actor, id, early[0] as string);
    expect(await missing()).to.deep.equal([]);
    const [late, other] = await outbox.emit([{}, { type: "plan.deprecated" }]);
    const drop = (event: string) => outbox.store.db.deleteFrom("webhook_deliveries").where("event_id", "=", event);
    await drop(late as string).execute();
    expect(await missing()).to.deep.equal([{ endpoint: id, event: late }]);
    await outbox.endpoints.resend(actor, id, late as string);

    // While it is off, and while it wants other types, nothing is queued for it.
    await outbox.endpoints.update(actor, id, { enabled: false });
    await outbox.emit([{}]);
    await outbox.endpoints.update(actor, id, { enabled: true });
    expect(await missing()).to.deep.equal([]);
    await outbox.endpoints.update(actor, id, { types: ["plan.deprecated"] });
    await outbox.emit([{}]);
    await outbox.endpoints.update(actor, id, { types: null });
    expect(await missing()).to.deep.equal([]);

    // Of an endpoint from the release before nothing is known; it begins when this one starts.
    await outbox.store.db.updateTable("webhook_endpoints").set({ queued_after: null }).execute();
    await recordBeginnings(outbox.store, CHAIN_ID);
    expect(await missing()).to.deep.equal([]);

    // A delivery that is finished and deleted is not missing.
    const [kept] = await outbox.emit([{}]);
    await outbox.drain(outbox.worker());
    while ((await deleteOldDeliveries(outbox.store, CHAIN_ID, outbox.clock.nowMs + 1)) > 0);
    expect((await outbox.deliveries(id)).map(({ event_id }) => event_id)).not.to.include.members([kept, other]);
    expect(await missing()).to.deep.equal([]);
  });

  it("B20 stops at 410, waits at 429, cuts what hangs, and reads no more than it must of an endless answer", async () => {
    // Patient with receivers that answer, also on a busy machine; not with the one that hangs.
    const [patient, hasty] = [30_000, 300].map((timeoutMs) => createSender({ allowPrivate: true, timeoutMs }));
    let current = patient;
    const sender: Sender = {
      send: (request) => (current as Sender).send(request),
      close: async () => void (await Promise.all([patient?.close(), hasty?.close()])),
    };
    const gone = await outbox.endpoint(receiver.url);
    receiver.answer(410);
    const [first = ""] = await outbox.emit([{}, {}]);
    const worker = outbox.worker({ sender });
    await worker.tick();
    await worker.settled();
    expect(await outbox.endpoints.get(actorOf(PROVIDER), gone.id)).to.include({
      status: "disabled",
      disabledReason: "gone",
    });
    const states = (await outbox.deliveries(gone.id)).map(({ state }) => state);
    expect(states).not.to.include("pending");
    await outbox.emit([{}]);
    expect(await outbox.deliveries(gone.id), "nothing is queued for it").to.have.length(2);
    expect(first).to.have.length(66);

    const { id } = await outbox.endpoint(receiver.url);
    receiver.answer((response) => void response.writeHead(429, { "retry-after": "120" }).end());
    await outbox.emit([{}]);
    await outbox.drain(worker);
    expect((await outbox.deliveries(id))[0]).to.include({ attempts: 1, due_at_ms: outbox.clock.nowMs + 120_000 });

    receiver.answer(() => undefined);
    outbox.clock.nowMs += 120_000;
    current = hasty;
    await outbox.drain(worker);
    current = patient;
    expect((await outbox.deliveries(id))[0]).to.include({ state: "pending", attempts: 2 });

    let sent = 0;
    receiver.answer((response) => {
      response.writeHead(200);
      const more = (): void => {
        while (!response.destroyed && sent < 50_000_000) {
          sent += 100_000;
          if (!response.write(Buffer.alloc(100_000))) return;
        }
      };
      response.on("drain", more);
      more();
    });
    outbox.clock.nowMs += 600_000;
    await outbox.drain(worker);
    expect((await outbox.deliveries(id))[0]).to.include({ state: "delivered", attempts: 3 });
    expect(sent).to.be.lessThan(10_000_000);
  });

  it("B19 signs with both secrets while one is rotated, and with the new one alone afterwards", async () => {
    const { id, secret: old } = await outbox.endpoint(receiver.url);
    const { secret: fresh } = await outbox.endpoints.rotateSecret(actorOf(PROVIDER), id, 3_600);
    const worker = outbox.worker();
    await outbox.emit([{}]);
    await outbox.drain(worker);
    outbox.clock.nowMs += 3_600_001;
    await outbox.emit([{}]);
    await outbox.drain(worker);
    const [during, after] = receiver.received;
    const isGood = (received: typeof during, secret: string): boolean => {
      const nowSec = Number(received?.headers["webhook-timestamp"]);
      try {
        return verifyWebhook(received?.body ?? "", received?.headers ?? {}, secret, { nowSec }).sequence > 0;
      } catch {
        return false;
      }
    };
    expect([isGood(during, old), isGood(during, fresh)]).to.deep.equal([true, true]);
    expect([isGood(after, old), isGood(after, fresh)]).to.deep.equal([false, true]);
  });

  it("B20 one slow receiver with a long queue delays no other", async () => {
    const slow = await startReceiver();
    const open: (() => void)[] = [];
    slow.answer((response) => void open.push(() => response.writeHead(204).end()));
    await outbox.endpoint(slow.url, { types: ["plan.created"] });
    await outbox.endpoint(receiver.url, { types: ["plan.deprecated"] });
    await outbox.emit(Array.from({ length: 200 }, () => ({ type: "plan.created" })));
    const worker = outbox.worker({ timeoutMs: 30_000 });
    await worker.tick();
    await outbox.emit(Array.from({ length: 20 }, () => ({ type: "plan.deprecated" })));
    await until(async () => {
      await worker.tick();
      return receiver.received.length === 20;
    }, "the quick receiver has everything");
    expect(slow.received.length).to.be.lessThan(16);
    slow.answer(204);
    for (const release of open) release();
    await slow.stop();
  });

  it("S6 two workers on one database share the work and send nothing twice", async () => {
    await outbox.endpoint(receiver.url);
    const ids = await outbox.emit(Array.from({ length: 60 }, () => ({})));
    const workers = [outbox.worker(), outbox.worker(), outbox.worker()];
    await Promise.all(workers.map((worker) => outbox.drain(worker)));
    await Promise.all(workers.map((worker) => outbox.drain(worker)));
    expect(receiver.received.map(({ headers }) => headers["webhook-id"]).sort()).to.deep.equal([...ids].sort());
  });
});
