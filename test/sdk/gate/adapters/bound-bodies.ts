import { request as httpRequest } from "node:http";
import { expect } from "chai";
import { type GateOptions, memoryClaims, type Provider } from "turnpike/gate";
import {
  headerOf,
  ONE_TIME,
  proofOf,
  quoteOf,
  type SmallFacilitator,
  send,
  startSmallFacilitator,
  testProvider,
} from "../../../support/gate";
import { until } from "../../../support/subscriptions";
import { ARRANGEMENTS, type Started } from "../support/body-arrangements";

const TYPE = { "Content-Type": "application/json" };
const LIMIT = 1_000;

for (const [name, { start, reads }] of Object.entries(ARRANGEMENTS)) {
  describe(`a gate that binds bodies: ${name}`, () => {
    let facilitator: SmallFacilitator;
    let provider: Provider;
    let started: Started | undefined;

    before(async () => {
      facilitator = await startSmallFacilitator();
    });
    beforeEach(() => {
      provider = testProvider(facilitator);
    });
    afterEach(async () => {
      await started?.stop();
      started = undefined;
      await provider.close();
    });
    after(() => facilitator.stop());

    const begin = async (options: Partial<GateOptions<never>> = {}, gates = 1): Promise<string> => {
      const gate = { pricing: ONE_TIME, bind: "body", maxBodyBytes: LIMIT, ...options } as GateOptions<never>;
      started = await start(Array.from({ length: gates }, () => provider.gate(gate)));
      return `${started.url}/x`;
    };
    const post = (body: string, headers: Record<string, string> = {}) => ({
      method: "POST",
      headers: { ...TYPE, ...headers },
      body,
    });
    const pay = async (url: string, body: string) => {
      const [entry] = (await quoteOf(url, post(body))).accepts;
      return { amount: entry?.amount, headers: headerOf(proofOf(entry as never)) };
    };

    for (const [way, read] of Object.entries(reads)) {
      it(`HB4 lets the price read ${way}, and hands the handler an unread body`, async () => {
        const seen: string[] = [];
        const amount = async (raw: unknown): Promise<bigint> => {
          const body = await read(raw as never);
          seen.push(body);
          return BigInt((JSON.parse(body) as { size: number }).size);
        };
        const free = async (raw: unknown): Promise<boolean> => (await read(raw as never)) === '{"size":7}';
        const authorize = async (_payment: unknown, raw: unknown) => (await read(raw as never)) !== '{"size":9}';
        const pricing = [{ type: "one-time", amount }] as never;
        const url = await begin({ pricing, free, authorize } as never);
        const { amount: price, headers } = await pay(url, '{"size":3}');
        expect(price).to.equal("3");
        const cheated = await send(url, post('{"size":9000000}', headers));
        expect(cheated.json).to.include({ error: "InvalidPaymentProof", reason: "memo" });
        const served = await send(url, post('{"size":3}', headers));
        expect([served.status, served.json], served.text).to.deep.equal([200, { body: '{"size":3}' }]);
        expect((await send(url, post('{"size":7}'))).json).to.deep.equal({ body: '{"size":7}' });
        const barred = await pay(url, '{"size":9}');
        expect((await send(url, post('{"size":9}', barred.headers))).status).to.equal(403);
        expect(new Set(seen)).to.deep.equal(new Set(['{"size":3}', '{"size":9000000}', '{"size":9}']));
      });
    }

    it("HB4 takes bodies in chunks, and requests without a body", async () => {
      const url = await begin();
      const inChunks = { method: "POST", headers: { ...TYPE, "Transfer-Encoding": "chunked" }, body: '{"size":1}' };
      const { headers } = await pay(url, '{"size":1}');
      const served = await send(url, { ...inChunks, headers: { ...inChunks.headers, ...headers } });
      expect([served.status, served.json], served.text).to.deep.equal([200, { body: '{"size":1}' }]);
      for (const method of ["GET", "HEAD"]) {
        const answer = await send(url, { method });
        expect(answer.status, method).to.be.oneOf([402, 404, 405]);
      }
      for (const empty of [{}, { "Transfer-Encoding": "chunked" }] as Record<string, string>[]) {
        const answer = await send(url, { method: "POST", headers: empty, body: "" });
        // Fastify itself refuses a body in chunks that has no type.
        expect(answer.status, answer.text).to.be.oneOf(name.startsWith("Fastify") ? [402, 415] : [402]);
      }
    });

    it("HB4 refuses a body in another charset than UTF-8, which the handler's parser would read as another body", async () => {
      const url = await begin();
      for (const charset of ["utf-7", '"utf-16"', "latin1", "utf-8; charset=utf-7"]) {
        const answer = await send(url, post('{"size":1}', { "Content-Type": `application/json; charset=${charset}` }));
        // A parser before the gate follows the charset, and finds no JSON.
        expect(answer.status, `${charset} ${answer.text}`).to.be.oneOf(/after/.test(name) ? [400, 415] : [415]);
      }
      for (const charset of ["utf-8", "UTF-8", '"utf-8"']) {
        const answer = await send(url, post('{"size":1}', { "Content-Type": `application/json; charset=${charset}` }));
        expect(answer.status, `${charset} ${answer.text}`).to.equal(402);
      }
    });

    it("HB4 two gates in a row both read the body, and the handler after them", async () => {
      const subscribers = { pricing: [{ type: "one-time", amount: 5n }], free: () => false };
      const url = await begin(subscribers as never, 2);
      const { headers } = await pay(url, '{"size":1}');
      const answer = await send(url, post('{"size":1}', headers));
      // The second gate judges the same proof, which the first one holds: a fault of the setting.
      expect(answer.status, answer.text).to.equal(500);
      await started?.stop();
      const open = await begin({ free: () => true } as never, 2);
      const served = await send(open, post('{"size":1}'));
      expect([served.status, served.json], served.text).to.deep.equal([200, { body: '{"size":1}' }]);
    });

    it("HB4 a body past the limit is 413, declared or not, and asks for no money", async () => {
      const url = await begin();
      const atLimit = JSON.stringify({ size: "x".repeat(LIMIT - 11) });
      expect(atLimit).to.have.length(LIMIT);
      expect((await send(url, post(atLimit))).status).to.equal(402);
      const past = `${atLimit.slice(0, -2)}y"}`;
      // A parser before the gate has a limit of its own.
      const large = /after|preHandler/.test(name) ? 50_000 : 3_000_000;
      for (const body of [past, JSON.stringify({ size: "x".repeat(large) })]) {
        for (const headers of [{}, { "Transfer-Encoding": "chunked" }] as Record<string, string>[]) {
          const answer = await send(url, post(body, headers));
          expect([answer.status, answer.json.error], answer.text).to.deep.equal([413, "PayloadTooLarge"]);
          expect(answer.json.message).to.include(String(LIMIT));
        }
      }
      expect((await send(url, post('{"size":1}'))).status).to.equal(402);
    });

    it("HB4 an upload that breaks off is no fault, and the next request is served", async () => {
      const faults: unknown[] = [];
      const note = (fault: unknown) => void faults.push(fault);
      const log = console.error;
      console.error = note;
      process.on("unhandledRejection", note);
      try {
        let asked = 0;
        const url = await begin({ free: () => ++asked > 0 } as never);
        const leaving = httpRequest(url, {
          method: "POST",
          headers: { ...TYPE, "Content-Length": "100" },
          agent: false,
        });
        leaving.on("error", () => undefined);
        await new Promise<void>((resolve) => leaving.write('{"size":1', () => resolve()));
        leaving.destroy();
        const served = await send(url, post('{"size":1}'));
        expect([served.status, served.json], served.text).to.deep.equal([200, { body: '{"size":1}' }]);
        await until(async () => asked >= 1);
        expect(asked).to.equal(1);
      } finally {
        console.error = log;
        process.off("unhandledRejection", note);
      }
      expect(faults).to.deep.equal([]);
    });

    it("HB4 claims nothing and serves nothing where the body cannot be bound", async () => {
      const claims = memoryClaims({ warn: false });
      await provider.close();
      provider = testProvider(facilitator, { claims });
      const url = await begin();
      const { headers } = await pay(url, '{"size":1}');
      const large = JSON.stringify({ size: "x".repeat(5_000) });
      expect((await send(url, post(large, headers))).status).to.equal(413);
      expect((await send(url, post('{"size":1}', headers))).status).to.equal(200);
      await claims.close();
    });
  });
}
