import { expect } from "chai";
import { type EventList, type Readiness, type Supported, supportedOn } from "turnpike/facilitator";
import { type Address, type Hex, proofToWire, randomRef, type SignedPayment } from "turnpike/protocol";
import { loadChains } from "../../../facilitator/src/config/chains";
import { testKey } from "../../support/chain";
import { type Payer, until } from "../../support/facilitator";
import { NETWORK_A, NETWORK_B, type SeveralService, startTwoChains, type TwoChains } from "../support/chains";
import { paymentToWire, settleBody } from "../support/payments";
import { refundToWire, signRefund } from "../support/refunds";
import type { ServiceWorld } from "../support/service";
import { startReceiver } from "../webhooks/support/receiver";

describe("Facilitator: several chains in one service", function () {
  this.timeout(900_000);
  let chains: TwoChains;
  let a: ServiceWorld;
  let b: ServiceWorld;
  let service: SeveralService;

  before(async () => {
    chains = await startTwoChains();
    ({ a, b } = chains);
    service = await chains.start();
  });
  after(() => chains?.stop());

  const authorize = (payment: SignedPayment) => service.client.authorize(paymentToWire(payment));

  async function settled(payment: SignedPayment) {
    const outcome = await until(async () => {
      const answer = await authorize(payment);
      return answer.kind !== "pending" && answer;
    }, "the payment has an outcome");
    if (outcome.kind !== "settled") throw new Error(`refused: ${JSON.stringify(outcome)}`);
    return outcome.proof;
  }

  /** One payer with money on both chains. */
  async function payerOnBoth(): Promise<Payer> {
    const payer = await a.payer();
    return b.payer(1_000_000n, payer.key);
  }

  it("S13 the same payment signed on both chains is two payments, each with its own proof", async () => {
    expect(b.contracts.token, "the token has one address on both").to.equal(a.contracts.token);
    const payer = await payerOnBoth();
    const fields = { payer, ref: randomRef() };
    const [onA, onB] = [await a.signPayment(fields), await b.signPayment(fields)];
    expect(onA.authorization.nonce).to.equal(onB.authorization.nonce);
    const before = [(await a.transfers()).length, (await b.transfers()).length];
    const proofs = [await settled(onA), await settled(onB)];
    expect(proofs.map(({ network }) => network)).to.deep.equal([NETWORK_A, NETWORK_B]);
    expect(new Set([a.idOf(onA), b.idOf(onB)]).size).to.equal(2);
    const after = [(await a.transfers()).length, (await b.transfers()).length];
    expect(after.map((count, place) => count - (before[place] ?? 0))).to.deep.equal([1, 1]);
    for (const id of [a.idOf(onA), b.idOf(onB)])
      expect((await service.get<{ status: string }>(`/payments/${id}`)).body.status).to.equal("settled");
    for (const [place, proof] of proofs.entries()) {
      expect(await service.client.verifyProof(proofToWire(proof))).to.deep.equal({ valid: true });
      const other = { ...proofToWire(proof), network: place === 0 ? NETWORK_B : NETWORK_A };
      expect((await service.client.verifyProof(other)).valid, "a proof of one chain is none of another").to.equal(
        false,
      );
    }
  });

  it("S4 a payment signed for one chain and sent as another's moves nothing", async () => {
    const payer = await payerOnBoth();
    const onA = await a.signPayment({ payer });
    const counts = async () => [(await a.transfers()).length, (await b.transfers()).length];
    const before = await counts();
    const answer = await authorize({ ...onA, network: NETWORK_B });
    expect(answer).to.include({ kind: "refused" });
    const foreign = await authorize({ ...onA, network: "base-mainnet" });
    expect(foreign.kind === "refused" && foreign.error).to.include({ code: "PaymentNotAllowed", reason: "network" });
    const exact = await b.signExact({ payer, network: NETWORK_A });
    const settlement = await service.client.x402Settle(settleBody(exact, 1, a.chain.chainId));
    expect(settlement.success).to.equal(false);
    expect(await counts()).to.deep.equal(before);
    const { body } = await service.get<{ code: string; message: string }>("/plans?network=base-mainnet");
    expect(body.code).to.equal("InvalidRequest");
    expect(body.message).to.contain(NETWORK_B);
  });

  it("lists both chains, and settles stock payments of both", async () => {
    const { body } = await service.get<Supported>("/supported");
    expect(body.chains?.map(({ network }) => network)).to.deep.equal([NETWORK_A, NETWORK_B]);
    expect(body.kinds.map(({ network }) => network)).to.include.members(["eip155:31337", "eip155:31338"]);
    const onB = supportedOn(await service.client.supported(), b.chain.chainId);
    expect(onB).to.deep.include({ network: NETWORK_B, relayers: body.chains?.[1]?.relayers });
    expect(onB.relayers).not.to.deep.equal(body.relayers);
    expect((await service.get<Supported>(`/supported?network=${NETWORK_B}`)).body.chainId).to.equal(31_338);
    for (const world of [a, b]) {
      for (const version of [1, 2] as const) {
        const network = version === 1 ? `local-${world.chain.chainId}` : `eip155:${world.chain.chainId}`;
        const request = settleBody(await world.signExact({ network }), version, world.chain.chainId);
        const settlement = await service.client.x402Settle(request);
        expect(settlement, JSON.stringify(settlement)).to.include({ success: true, network });
      }
    }
  });

  it("finds plans and subscriptions by their id, and asks for the network where the id is of both", async () => {
    const subscriber = await b.payer(100_000_000n);
    const signup = await b.signup(subscriber, { permit: 100_000_000n });
    const created = await until(async () => {
      const outcome = await service.client.subscribe(signup.request);
      return outcome.kind !== "pending" && outcome;
    }, "the signup has an outcome");
    expect(created.kind, JSON.stringify(created)).to.equal("done");
    const { body } = await service.get<{ network: string }>(`/subscriptions/${signup.idHash}`);
    expect(body.network).to.equal(NETWORK_B);
    const elsewhere = await service.get<{ code: string }>(`/subscriptions/${signup.idHash}?network=${NETWORK_A}`);
    expect([elsewhere.status, elsewhere.body.code]).to.deep.equal([404, "UnknownSubscription"]);
    for (const world of [a, b])
      expect((await service.get<{ planId: string }>(`/plans/${world.planId}`)).body.planId).to.equal(world.planId);
    const account = `/accounts/${subscriber.address}?token=${a.contracts.token}`;
    const unclear = await service.get<{ code: string; message: string }>(account);
    expect(unclear.body).to.include({ code: "InvalidRequest" });
    expect(unclear.body.message).to.contain("network");
    expect((await service.get<{ chainId: number }>(`${account}&network=${NETWORK_B}`)).body.chainId).to.equal(31_338);
  });

  it("S6 one API key, one webhook endpoint and one feed serve both; each event names its network", async () => {
    const receiver = await startReceiver();
    try {
      const key = await service.apiKey();
      const made = await service.post("/webhook-endpoints", { url: receiver.url, description: "" }, key);
      expect(made.status, JSON.stringify(made.body)).to.equal(201);
      const payTo = a.provider.address as Address;
      await settled(await a.signPayment({ payTo }));
      await settled(await b.signPayment({ payTo }));
      const networks = await until(async () => {
        const events = receiver.received.map(({ body }) => JSON.parse(body) as { type: string; network: string });
        const named = events.filter(({ type }) => type === "payment.settled").map(({ network }) => network);
        return named.length >= 2 && named.sort();
      }, "both webhooks arrive");
      expect(networks).to.deep.equal([NETWORK_A, NETWORK_B]);
      const networksOf = async (query: string) => {
        const { body } = await service.get<EventList>(`/events?type=payment.settled&${query}`, key);
        return { networks: body.events.map(({ network }) => network).sort(), next: body.next };
      };
      const all = await networksOf("");
      expect(all.networks).to.deep.equal([NETWORK_A, NETWORK_B]);
      expect((await networksOf(`cursor=${all.next}`)).networks).to.deep.equal([]);
      expect((await networksOf(`network=${NETWORK_B}`)).networks).to.deep.equal([NETWORK_B]);
      const first = await networksOf("limit=1");
      const second = await networksOf(`limit=1&cursor=${first.next}`);
      expect([...first.networks, ...second.networks].sort(), "pages lose nothing").to.deep.equal([
        NETWORK_A,
        NETWORK_B,
      ]);
      for (const network of [NETWORK_A, NETWORK_B])
        expect((await service.get(`/analytics/overview?network=${network}`, key)).status).to.equal(200);
      expect((await service.get<{ keys: unknown[] }>("/keys", key)).body.keys).to.have.length(1);
    } finally {
      await receiver.stop();
    }
  });

  it("gives the metrics of each chain its label, and counts requests once", async () => {
    const text = await (await fetch(`${service.url}/metrics`)).text();
    for (const network of [NETWORK_A, NETWORK_B])
      expect(text).to.match(new RegExp(`turnpike_payments_settled_total{chain="${network}"} [1-9]`));
    expect(text).to.match(/turnpike_http_requests_total{route="[^"]+",method="POST",status="200"} /);
    expect(text.match(/^# TYPE turnpike_payments_settled_total /gm)).to.have.length(1);
    expect(text.match(/^turnpike_database_w.*$/gm)).to.deep.equal([
      "turnpike_database_well 1",
      "turnpike_database_waiting 0",
    ]);
  });

  it("an outage of one chain is named, and the other goes on; it settles once it is back", async () => {
    chains.cut(b);
    const named = await until(async () => {
      const { status, body } = await service.get<Readiness>("/readyz");
      const failing = body.checks.filter(({ ok }) => !ok).map(({ name }) => name);
      return status === 200 && failing.length > 0 && failing;
    }, "the outage is reported");
    expect(
      named.every((name) => name.startsWith(`${NETWORK_B}: `)),
      named.join(),
    ).to.equal(true);
    expect((await service.get(`/readyz?network=${NETWORK_B}`)).status).to.equal(503);
    expect((await service.get(`/readyz?network=${NETWORK_A}`)).status).to.equal(200);
    expect((await settled(await a.signPayment())).network).to.equal(NETWORK_A);
    const waiting = await b.signPayment();
    const during = await authorize(waiting).catch((error: { code?: string }) => error);
    expect(during).to.satisfy((found: { kind?: string; code?: string }) =>
      found.kind === undefined ? found.code === "Unavailable" : found.kind === "pending",
    );
    chains.restore(b);
    await until(async () => {
      const outcome = await authorize(waiting).catch(() => undefined);
      return outcome?.kind === "settled";
    }, "the payment of the chain that was away is settled");
    expect((await b.transfers()).filter(({ from }) => from === waiting.authorization.from)).to.have.length(1);
    await until(async () => (await service.get(`/readyz?network=${NETWORK_B}`)).status === 200, "the chain is ready");
  });

  it("starts without a chain that is away, and adds it when it is back", async () => {
    await service.stop();
    chains.cut(b);
    service = await chains.start();
    const ready = await service.get<Readiness>("/readyz");
    expect(ready.status).to.equal(200);
    expect(ready.body.checks.filter(({ ok }) => !ok).map(({ name }) => name)).to.deep.equal([`${NETWORK_B}: start`]);
    const up = async (): Promise<readonly string[]> => {
      const text = await (await fetch(`${service.url}/metrics`)).text();
      return text.match(/^turnpike_chain_up\{.*$/gm) ?? [];
    };
    const upAs = (value: number) => [
      `turnpike_chain_up{chain="${NETWORK_A}"} 1`,
      `turnpike_chain_up{chain="${NETWORK_B}"} ${value}`,
    ];
    expect(await up()).to.deep.equal(upAs(0));
    await settled(await a.signPayment());
    const onB = await b.signPayment();
    const refused = await authorize(onB).catch((error: { code: string; message: string }) => error);
    expect(refused).to.include({ code: "Unavailable" });
    chains.restore(b);
    await until(async () => (await authorize(onB).catch(() => undefined))?.kind === "settled", "the chain is up");
    expect(await up()).to.deep.equal(upAs(1));
  });

  it("HD52 S5 takes a chain away and adds it again, and leaves the payments of both alone", async () => {
    const key = await service.apiKey();
    const onB = await b.signPayment();
    const proofOnB = await settled(onB);
    const { transaction } = proofOnB;
    const payee: Payer = { key: testKey("payee") as Hex, address: b.payee };
    const target = { type: "payment", paymentId: b.idOf(onB) } as const;
    const refund = await signRefund(b, { account: payee, to: proofOnB.payer, amount: 1_000n, target });
    const refundOnB = async () => (await service.post("/refunds", refundToWire(refund))).status;
    await until(async () => (await refundOnB()) === 200, "the refund is settled");
    const subscriber = await b.payer(1_000_000_000n);
    const signup = await b.signup(subscriber, { permit: 1_000_000_000n });
    const { idHash } = signup;
    const signupOnB = async () => (await service.post("/subscriptions", signup.request)).status;
    await until(async () => (await signupOnB()) === 200, "it is signed up");
    const pause = await b.change("pause", subscriber, { idHash });
    await service.stop();
    service = await chains.start({ CHAINS: NETWORK_A });
    // What was accepted there has moved money: it is neither refused nor called invalid.
    for (const asked of [authorize(onB), service.client.verifyProof(proofToWire(proofOnB))])
      expect(await asked.catch(({ code }: { code: string }) => code)).to.equal("Unavailable");
    expect(await refundOnB()).to.equal(503);
    const acts = `/subscriptions/${idHash}/pause`;
    expect([await signupOnB(), (await service.get(`/subscriptions/${idHash}`)).status]).to.deep.equal([503, 503]);
    for (const path of [acts, `${acts}?network=${b.contracts.network}`]) {
      const answer = await service.post<{ code: string; details: { network: string } }>(path, pause);
      expect([answer.status, answer.body.code]).to.deep.equal([503, "Unavailable"]);
      expect(answer.body.details.network).to.equal(b.contracts.network);
    }
    expect((await service.get(`/payments/${b.idOf(onB)}`)).status).to.equal(503);
    const unknown = await b.signup(await b.payer(0n));
    expect((await service.post("/subscriptions", unknown.request)).status, "it was never accepted").to.equal(404);
    expect((await service.get(`/transactions/${transaction}/cost`)).status).to.equal(404);
    const known = await a.signPayment();
    const proof = await settled(known);
    const foreign = await authorize(await b.signPayment());
    expect(foreign.kind === "refused" && foreign.error).to.include({ code: "PaymentNotAllowed", reason: "network" });
    await service.stop();
    service = await chains.start();
    expect(await settled(known), "its proof is the same").to.deep.equal(proof);
    expect(await settled(onB)).to.deep.equal(proofOnB);
    await settled(await b.signPayment());
    expect((await service.get("/events", key)).status).to.equal(200);
  });

  it("S6 a chain is taken away and added again: a reader of events misses none of either", async () => {
    const key = await service.apiKey();
    const pay = async (world: ServiceWorld) => {
      const signed = await world.signPayment({ payTo: a.provider.address as Address });
      await settled(signed);
      return world.idOf(signed);
    };
    const read = async (cursor: string) => {
      const { body } = await service.get<EventList>(`/events?cursor=${cursor}`, key);
      return { subjects: body.events.map(({ subject }) => subject), next: body.next };
    };
    const seen = await read("0");
    const unseen = await pay(b);
    await until(async () => (await read(seen.next)).subjects.includes(unseen), "its event is there");
    await service.stop();
    service = await chains.start({ CHAINS: NETWORK_A });
    const meanwhile = await pay(a);
    const alone = await until(async () => {
      const page = await read(seen.next);
      return page.subjects.length > 0 && page;
    }, "its event is there");
    expect(alone.subjects).to.deep.equal([meanwhile]);
    await service.stop();
    service = await chains.start();
    expect((await read(alone.next)).subjects).to.deep.equal([unseen]);
  });

  it("reads settings by section, and refuses what is of no chain", () => {
    const load = (more: Record<string, string>) => () => loadChains(chains.env(more));
    expect(load({ CHAIN_ID: "1" })).to.throw("CHAIN_ID is set for no chain of CHAINS");
    expect(load({ RPC_URLS: "http://127.0.0.1:1" })).to.throw("set LOCAL_31337_RPC_URLS instead");
    expect(load({ LOCAL_31337_PORT: "1" })).to.throw("LOCAL_31337_PORT is no setting of a chain");
    expect(load({ CHAINS: `${NETWORK_A},eip155:31337` })).to.throw("twice");
    expect(load({ CHAINS: "nowhere" })).to.throw("names nowhere");
    expect(load({ ROLES: "api,indexer:base-mainnet" })).to.throw("base-mainnet is not in CHAINS");
    expect(load({ ROLES: `api,relayer,indexer:${NETWORK_A}`, DATABASE_URL: "" })).to.throw("embedded database");
    const postgres = { DATABASE_URL: "postgres://localhost/none" };
    const configs = loadChains(
      chains.env({ ...postgres, ROLES: `webhooks:${NETWORK_A},indexer:${NETWORK_B},relayer:eip155:31338` }),
    );
    expect(configs?.map(({ network, roles }) => [network.name, roles])).to.deep.equal([
      [NETWORK_A, ["webhooks"]],
      [NETWORK_B, ["indexer", "relayer"]],
    ]);
    const alone = loadChains(chains.env({ ...postgres, ROLES: `api:${NETWORK_B}` }));
    expect(alone?.map(({ network }) => network.name)).to.deep.equal([NETWORK_B]);
  });
});
