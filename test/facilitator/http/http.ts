import { expect } from "chai";
import {
  addressOfKey,
  encodePaymentProof,
  isProofSignedBy,
  proofToWire,
  sha256,
  toHex,
  utf8ToBytes,
} from "turnpike/protocol";
import type { ExactRequest } from "../../../facilitator/src/payments";
import { fund, until } from "../../support/facilitator";
import { useService } from "../support/http-service";
import { paymentToWire, settleBody } from "../support/payments";
import { expectProblem } from "../support/problem";

describe("Facilitator: HTTP", function () {
  this.timeout(120_000);
  const http = useService();
  const { post } = http;

  describe("one-time payments", () => {
    it("B1 settles one transfer for many equal requests at once and gives all the same proof", async () => {
      const signed = paymentToWire(await http.world.signPayment());
      const before = (await http.world.transfers()).length;
      const outcomes = await Promise.all(Array.from({ length: 20 }, () => http.service.client.authorize(signed)));
      const proofs = outcomes.map((outcome) =>
        outcome.kind === "settled" ? encodePaymentProof(outcome.proof) : outcome.kind,
      );
      expect(new Set(proofs).size).to.equal(1);
      expect(await http.world.transfers()).to.have.length(before + 1);
      const [first] = outcomes;
      if (first?.kind !== "settled") throw new Error("not settled");
      const { proofSigners } = await http.service.client.supported();
      expect(isProofSignedBy(first.proof, http.world.chain.chainId, proofSigners[0] ?? "0x")).to.equal(true);
      expect(await http.service.client.verifyProof(proofToWire(first.proof))).to.deep.equal({ valid: true });
      const forged = { ...proofToWire(first.proof), amount: "1" };
      expect(await http.service.client.verifyProof(forged)).to.deep.equal({ valid: false, reason: "signature" });
    });

    it("returns a payment's status by id, and nothing about the purchase", async () => {
      const payment = await http.world.signPayment();
      const id = http.world.idOf(payment);
      const before = await http.service.client.payment(id);
      expect(before).to.deep.equal({ kind: "found", value: { id, status: "unknown" } });
      await http.service.client.authorize(paymentToWire(payment));
      const response = await fetch(`${http.service.url}/payments/${id}`);
      const text = await response.text();
      expect(JSON.parse(text)).to.include({ id, status: "settled" });
      expect(text).not.to.include("api.example");
    });

    it("B2 B13 refuses what conflicts, what is not served and what is not funded, each by its code", async () => {
      const payer = await http.world.payer(1_000_000n);
      const ref = "A".repeat(22);
      const first = paymentToWire(await http.world.signPayment({ payer, ref }));
      expect((await http.service.client.authorize(first)).kind).to.equal("settled");
      const other = paymentToWire(await http.world.signPayment({ payer, ref, amount: 300_000n }));
      await expectProblem(await post("/authorize", JSON.stringify({ signedPayment: other })), 409, "PayloadConflict");
      const dust = paymentToWire(await http.world.signPayment({ amount: 1n }));
      await expectProblem(await post("/authorize", JSON.stringify({ signedPayment: dust })), 422, "PaymentNotAllowed");
      const poor = paymentToWire(await http.world.signPayment({ payer: await http.world.payer(0n) }));
      await expectProblem(await post("/authorize", JSON.stringify({ signedPayment: poor })), 422, "InsufficientFunds");
    });
  });

  describe("standard x402", () => {
    const wire = (request: ExactRequest, version: 1 | 2) => settleBody(request, version, http.world.chain.chainId);

    for (const version of [1, 2] as const) {
      it(`verifies and settles a version ${version} payload, once however often it is asked`, async () => {
        const request = await http.world.signExact();
        const body = wire(request, version);
        const payer = request.authorization.from;
        expect(await http.service.client.x402Verify(body)).to.deep.equal({ isValid: true, payer });
        const before = (await http.world.transfers()).length;
        const settled = await http.service.client.x402Settle(body);
        expect(settled).to.include({ success: true, payer, network: body.paymentRequirements.network });
        // Stock servers serve what settles, and some what verifies: what was granted has bought its request.
        const refused = { success: false, errorReason: "payment_already_granted", transaction: "" };
        expect(await http.service.client.x402Settle(body)).to.include(refused);
        const again = { isValid: false, invalidReason: "invalid_transaction_state", payer };
        expect(await http.service.client.x402Verify(body)).to.include(again);
        expect(await http.world.transfers()).to.have.length(before + 1);
      });
    }

    it("answers negatives with HTTP 200, and what it cannot read with 400 in the same words", async () => {
      const request = await http.world.signExact({ payer: await http.world.payer(0n) });
      const refused = await post("/settle", JSON.stringify(wire(request, 1)));
      expect(refused.status).to.equal(200);
      expect(await refused.json()).to.include({ success: false, errorReason: "insufficient_funds", transaction: "" });
      const stranger = await http.world.signExact();
      const verdict = await post(
        "/verify",
        JSON.stringify({
          ...wire(stranger, 1),
          paymentRequirements: { ...wire(stranger, 1).paymentRequirements, payTo: http.world.provider.address },
        }),
      );
      expect(verdict.status).to.equal(200);
      expect(await verdict.json()).to.include({ isValid: false });
      const malformed = await post("/settle", "{}");
      expect(malformed.status).to.equal(400);
      expect(await malformed.json()).to.include({
        success: false,
        errorReason: "invalid_payload",
        code: "InvalidRequest",
      });
      expect(malformed.headers.get("content-type")).to.match(/^application\/json/);
    });

    it("lists the chain under every name, its tokens, signers and relayers", async () => {
      const supported = await http.service.client.supported();
      expect(supported.kinds.map((kind) => `${kind.x402Version} ${kind.network}`)).to.deep.equal([
        "1 local-31337",
        "2 eip155:31337",
      ]);
      expect(supported).to.include({ chainId: 31_337, turnpike: http.world.contracts.turnpike });
      expect(supported.signers["eip155:31337"]).to.deep.equal(supported.relayers);
      expect(supported.tokens).to.deep.equal([
        { address: http.world.contracts.token, name: "Test USD", version: "1", decimals: 6, minAmount: "100" },
      ]);
    });
  });

  describe("plans", () => {
    it("lists plans by provider, page by page, with every term of the id", async () => {
      for (let i = 0; i < 3; i++) await http.world.plan();
      const provider = http.world.provider.address as `0x${string}`;
      const all = await until(async () => {
        const found = await http.service.client.plans({ provider });
        return found.kind === "found" && found.value.plans.length === 4 && found.value.plans;
      }, "the plans are known");
      const seen: string[] = [];
      let cursor: string | undefined;
      do {
        const page = await http.service.client.plans({ provider, limit: 3, ...(cursor && { cursor }) });
        if (page.kind !== "found") throw page.error;
        seen.push(...page.value.plans.map((plan) => plan.planId));
        cursor = page.value.next;
      } while (cursor);
      expect(seen).to.deep.equal(all.map((plan) => plan.planId));
      const stranger = await http.service.client.plans({ provider: http.world.payee });
      expect(stranger.kind === "found" && stranger.value.plans).to.deep.equal([]);
    });
  });

  describe("the service itself", () => {
    it("is healthy and ready, and says by part why", async () => {
      expect(await (await fetch(`${http.service.url}/healthz`)).json()).to.deep.equal({ status: "ok" });
      const response = await fetch(`${http.service.url}/readyz`);
      const body = (await response.json()) as { ready: boolean; checks: { name: string; ok: boolean }[] };
      expect(response.status, JSON.stringify(body)).to.equal(200);
      expect(body.checks.map((check) => check.name.split(" ")[0])).to.deep.equal([
        "database",
        "chain",
        "indexer",
        "lane",
        "queue",
      ]);
      expect(body.checks.every((check) => check.ok)).to.equal(true);
    });

    it("answers preflights of any origin, and allows every header of the wire", async () => {
      const response = await fetch(`${http.service.url}/authorize`, {
        method: "OPTIONS",
        headers: { origin: "https://app.example", "access-control-request-method": "POST" },
      });
      expect(response.status).to.equal(204);
      expect(response.headers.get("access-control-allow-origin")).to.equal("*");
      expect(response.headers.get("access-control-allow-headers")).to.include("Content-Type").and.include("X-PAYMENT");
    });

    it("measures by route, never by what a client put into a path", async () => {
      const id = toHex(sha256(utf8ToBytes("measured")));
      await fetch(`${http.service.url}/payments/${id}`);
      const text = await (await fetch(`${http.service.url}/metrics`)).text();
      expect(text).to.match(
        /turnpike_http_requests_total\{route="\/payments\/\{id\}",method="GET",status="200"\} [1-9]/,
      );
      expect(text).to.match(/turnpike_relayer_balance_eth\{key="0x[0-9a-fA-F]{40}"\} [1-9]/);
      expect(text).to.include("turnpike_indexer_lag_blocks").and.include("turnpike_renewals_due");
      expect(text).not.to.include(id);
    });

    it("answers who waits when it stops: the outcome is unknown, and known after the next start", async () => {
      const relayer = toHex(sha256(utf8ToBytes(`slow relayer ${Math.random()}`)));
      await fund(http.world.chain, addressOfKey(relayer));
      // So many confirmations that nothing is settled while the test runs, on a chain that has as many blocks; keys and
      // database of its own.
      const payer = await http.world.payer();
      for (let i = 0; i < 200; i++) await http.world.chain.provider.send("evm_mine", []);
      const own = { PGLITE_DIR: "memory://", DATABASE_URL: "" };
      const settings = { RENEWALS: "false", CONFIRMATIONS: "200", RELAYER_KEYS: relayer, ...own };
      const slow = await http.world.service(settings);
      const payment = await http.world.signPayment({ payer });
      const signed = paymentToWire(payment);
      const waiting = slow.client.authorize(signed);
      const { from, nonce } = payment.authorization;
      await until(async () => http.world.token.getFunction("authorizationState")(from, nonce), "the money moved");
      const startedMs = performance.now();
      await slow.stop();
      expect(performance.now() - startedMs).to.be.lessThan(15_000);
      expect(await waiting).to.deep.equal({ kind: "pending", id: http.world.idOf(payment), retryAfterSec: 1 });
      expect((await http.service.client.authorize(signed)).kind).to.equal("settled");
    });

    it("limits POST requests of one address where a limit is set", async () => {
      await http.restart({ REQUESTS_PER_MINUTE: "3" });
      const statuses: number[] = [];
      for (let i = 0; i < 5; i++) statuses.push((await post("/authorize", "{}")).status);
      expect(statuses).to.deep.equal([400, 400, 400, 429, 429]);
      const limited = await post("/authorize", "{}");
      expect(Number(limited.headers.get("retry-after"))).to.be.within(1, 60);
    });
  });
});
